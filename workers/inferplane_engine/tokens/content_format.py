"""How a chat template wants message contents: as one text, or as a list of parts.

Engines look at the template to decide how to pass contents, and the two ways can render differently.  A template that
loops over a message's content takes parts.  This follows vLLM's detection, with its blind spots: a variable assigned
from `messages` counts as messages; slices, filters and tests are looked through; a macro's parameter counts where some
call passes a content to it; outside macros a loop over a variable called `content` counts.
"""

from collections.abc import Iterator
from enum import StrEnum

from jinja2 import nodes


class ContentFormat(StrEnum):
    STRING = "string"
    PARTS = "openai"


def detect_content_format(tree: nodes.Template) -> ContentFormat:
    """Return the format that a parsed template takes."""
    try:
        found = any(True for _ in _loops_over_content(tree))
    except _OddTargetError:
        return ContentFormat.STRING
    return ContentFormat.PARTS if found else ContentFormat.STRING


class _OddTargetError(Exception):
    """A loop or an assignment unpacks its value; engines then give up and pass texts."""


def _loops_over_content(tree: nodes.Template) -> Iterator[nodes.For]:
    message_names = list(_message_names(tree))
    in_macros: set[int] = set()
    by_macro: dict[int, set[str]] = {}
    for macro in tree.find_all(nodes.Macro):
        parameters = _parameters_given_content(tree, macro, message_names)
        for loop in macro.find_all(nodes.For):
            in_macros.add(id(loop))
            if parameters:
                by_macro[id(loop)] = parameters
    for loop in tree.find_all(nodes.For):
        if any(_reads(loop.iter, name, "content") for name in message_names):
            _target(loop.target)
            yield loop
        elif isinstance(loop.iter, nodes.Name):
            outside = id(loop) not in in_macros and loop.iter.name == "content"
            if outside or loop.iter.name in by_macro.get(id(loop), ()):
                _target(loop.target)
                yield loop


def _message_names(tree: nodes.Template) -> Iterator[str]:
    """Yield loop variables over anything that stands for the messages."""
    lists = _names_assigned_from(tree, "messages")
    for loop in tree.find_all(nodes.For):
        if any(_reads(loop.iter, name) for name in lists):
            yield _target(loop.target)


def _names_assigned_from(tree: nodes.Template, first: str) -> list[str]:
    names = [first]
    for name in names:  # grows while it is walked
        for assign in tree.find_all(nodes.Assign):
            if _reads(assign.node, name):
                target = _target(assign.target)
                if target not in names:
                    names.append(target)
    return names


def _parameters_given_content(tree: nodes.Template, macro: nodes.Macro, message_names: list[str]) -> set[str]:
    names = [argument.name for argument in macro.args]
    given: set[str] = set()
    for call in tree.find_all(nodes.Call):
        if not isinstance(call.node, nodes.Name) or call.node.name != macro.name:
            continue
        pairs = list(zip(names, call.args, strict=False)) + [(pair.key, pair.value) for pair in call.kwargs]
        given |= {
            name
            for name, value in pairs
            if name in names and any(_reads(value, message, "content") for message in message_names)
        }
    return given


def _target(node: nodes.Node) -> str:
    if not isinstance(node, nodes.Name):
        raise _OddTargetError
    return node.name


def _reads(node: nodes.Node | None, name: str, key: str | None = None) -> bool:
    """Say whether `node` is the variable (or its `key`), looked at through filters, tests and slices."""
    while isinstance(node, nodes.Filter | nodes.Test) or (
        isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)
    ):
        node = node.node
    if key is None:
        return _is_variable(node, name)
    if isinstance(node, nodes.Getitem):
        return _is_variable(node.node, name) and isinstance(node.arg, nodes.Const) and node.arg.value == key
    return isinstance(node, nodes.Getattr) and _is_variable(node.node, name) and node.attr == key


def _is_variable(node: nodes.Node | None, name: str) -> bool:
    return isinstance(node, nodes.Name) and node.ctx == "load" and node.name == name
