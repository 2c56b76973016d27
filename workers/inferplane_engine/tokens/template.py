"""Chat templates: rendered fast, and as `transformers` renders them, or not fast.

Problem: engines render with sandboxed Jinja2, which takes 0.1-1 ms a chat; `minijinja` takes a tenth, but is another
implementation.  Idea: at start both render a set of conversations (roles, tools, tool calls with every kind of value,
reasoning, documents); only if all come out the same (or fail in both) the fast one is used.
How it prints lists and objects is put right by a finaliser, JSON by a filter, and a conversation that holds floats is
left to Jinja2.
Trade-off: a template could still differ on something no probe has; any error of the fast one is therefore decided by
the other, and a wrong hit prediction shows as such.  Invariant: `render` gives Jinja2's text or raises `TemplateError`.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, cast

import jinja2.ext
import jinja2.meta
import minijinja
from jinja2 import nodes
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from inferplane_engine.tokens.content_format import ContentFormat, detect_content_format
from inferplane_engine.tokens.probes import conversations, in_parts

_GENERATION_TAG: Final = re.compile(r"(\{%[-+]?\s*)(end)?generation(\s*[-+]?%\})")
_TIME: Final = frozenset({"strftime_now"})


class TemplateError(ValueError):
    """The template refuses the conversation or cannot be compiled; the message is its own."""


class _Render(Protocol):
    def __call__(self, variables: Mapping[str, Any], /) -> str: ...


class ChatTemplate:
    """One compiled template."""

    def __init__(self, source: str) -> None:
        environment = _jinja_environment()
        try:
            tree = environment.parse(source)
            compiled = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise TemplateError(f"the chat template does not compile: {error}") from error
        self.source = source
        self.variables = frozenset(jinja2.meta.find_undeclared_variables(tree))
        self.uses_time = bool(self.variables & _TIME)
        self.knows_developers = '"developer"' in source or "'developer'" in source
        self.content_format = detect_content_format(tree)
        self._reference: _Render = compiled.render
        self._fast = _fast_renderer(source)
        self.fallback_reason = self._difference()
        """Why the fast renderer is not in use; empty when it is."""

    @property
    def backend(self) -> str:
        return "jinja2" if self.fallback_reason else "minijinja"

    def render(self, variables: dict[str, Any]) -> str:
        """Render with `messages`, `tools`, `add_generation_prompt` and what else the template reads."""
        return self._render_by_reference(variables) if holds_a_float(variables) else self.render_texts(variables)

    def render_texts(self, variables: dict[str, Any]) -> str:
        """Render what is known to hold no float."""
        if not self.fallback_reason:
            try:
                return self._fast(variables)
            except Exception:  # noqa: BLE001, S110  # Jinja2 decides whether this is an error, and which
                pass
        return self._render_by_reference(variables)

    def _render_by_reference(self, variables: Mapping[str, Any]) -> str:
        try:
            return self._reference(variables)
        except Exception as error:
            raise TemplateError(str(error)) from error

    def _difference(self) -> str:
        """Return the first difference between the two renderers, empty when there is none."""
        parts = self.content_format is ContentFormat.PARTS
        rendered = 0
        for probe in conversations():
            variables = {"bos_token": "<s>", "eos_token": "</s>", **(in_parts(probe) if parts else probe)}
            expected, got = _outcome(self._render_by_reference, variables), _outcome(self._fast, variables)
            rendered += expected is not None
            if expected != got:
                return f"minijinja renders {variables['messages']!r:.200} differently"
        return "" if rendered else "no probe conversation could be rendered"


def _outcome(render: _Render, variables: Mapping[str, Any]) -> str | None:
    """Return the text, or None for an error: each probe may be refused, but by both."""
    try:
        return render(variables)
    except Exception:  # noqa: BLE001  # a template can raise anything
        return None


class _GenerationTag(jinja2.ext.Extension):
    """`{% generation %}` marks the assistant's tokens for training; for a prompt it only renders its body."""

    tags = {"generation"}  # noqa: RUF012  # jinja2 reads it as written here

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


def _jinja_environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    functions: dict[str, Any] = {"raise_exception": _raise_exception, "strftime_now": _no_time}
    environment.globals.update(functions)
    return environment


def _fast_renderer(source: str) -> _Render:
    environment: Any = minijinja.Environment(  # its stub lacks add_function
        trim_blocks=True,
        lstrip_blocks=True,
        pycompat=True,
        finalizer=_as_python_prints,
        auto_escape_callback=_no_escape,
    )
    environment.add_filter("tojson", _to_json)
    environment.add_function("raise_exception", _raise_exception)
    environment.add_function("strftime_now", _no_time)
    tags_as_blocks: Callable[[re.Match[str]], str] = lambda match: (  # noqa: E731  # read beside its use
        match[1] + ("endif" if match[2] else "if true") + match[3]
    )
    try:
        environment.add_template("chat", _GENERATION_TAG.sub(tags_as_blocks, source))
    except minijinja.TemplateError:  # the probes will then say so
        return _unrenderable
    return lambda variables: environment.render_template("chat", **variables)


def _unrenderable(_variables: Mapping[str, Any], /) -> str:
    raise TemplateError("minijinja cannot compile this template")


def _as_python_prints(value: Any) -> Any:
    """Print lists and objects as Python does; minijinja prints texts, numbers and None the same way."""
    return NotImplemented if value is None or isinstance(value, str | int | float) else str(value)


def holds_a_float(value: Any) -> bool:
    """Find floats: minijinja hands 2.0 to a filter as 2, so that JSON would differ."""
    if isinstance(value, dict):
        inner: Iterable[Any] = cast("dict[str, Any]", value).values()
    elif isinstance(value, list | tuple):
        inner = cast("list[Any]", value)
    else:
        return isinstance(value, float)
    return any(type(each) is not str and holds_a_float(each) for each in inner)  # texts are worth no call


def _no_escape(_name: str) -> None:
    return None


def _to_json(
    value: Any,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002  # the signature that templates call
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> str:
    raise jinja2.TemplateError(message)


def _no_time(_format: str) -> str:
    raise TemplateError("this template prints the time; only the engine knows its clock")
