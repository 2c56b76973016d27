"""Turns validation errors into what a user needs: where, what is wrong, and how to put it right.

pydantic says precisely what it found, but in Python's terms.  Here each kind of error gets a fix, unknown fields get
the nearest known name, and paths are written as in the file (`spec.slo.ttft`, `spec.model.servedNames[1]`).
"""

import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from inferplane_api.v1alpha1.wire import INVALID, Finding

_TYPE_NAMES: Final = {
    "string_type": "a string",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}
_BOUNDS: Final = {"greater_than": "gt", "greater_than_equal": "ge", "less_than": "lt", "less_than_equal": "le"}
Location = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a manifest."""

    path: str
    message: str
    fix: str
    line: int | None = None
    """Line in the file, from 1; None when the value did not come from a file."""

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line is not None else ""
        return f"{where}{self.path or 'document'}: {self.message}; {self.fix}"


def dotted(location: Sequence[str | int]) -> str:
    """Write a location as in documentation: `spec.tiers[0].name`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def problems_of(
    error: ValidationError, *, root: type[BaseModel], line_of: Callable[[Location], int | None]
) -> tuple[Problem, ...]:
    """Return every problem that `error` holds, in the order of the file's fields."""
    return tuple(problem for details in error.errors() for problem in _problems(details, root, line_of))


def _problems(
    details: ErrorDetails, root: type[BaseModel], line_of: Callable[[Location], int | None]
) -> Iterator[Problem]:
    location = _without_union_members(details["loc"], root)
    if details["type"] == INVALID:
        findings: Sequence[Finding] = details.get("ctx", {})["findings"]
        for finding in findings:
            inner = location + _split(finding.field)
            yield Problem(dotted(inner), finding.message, finding.fix, line_of(inner))
        return
    message, fix = _explain(details, location, root)
    yield Problem(dotted(location), message, fix, line_of(location))


def _split(field: str) -> Location:
    return tuple(int(part) if part.isdigit() else part for part in field.split(".")) if field else ()


def _explain(details: ErrorDetails, location: Location, root: type[BaseModel]) -> tuple[str, str]:
    kind, context = details["type"], details.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_field(location, root)
    if kind == "missing":
        return "is missing", "add it"
    if kind in _TYPE_NAMES:
        return f"{_shown(details['input'])} is not {_TYPE_NAMES[kind]}", f"write {_TYPE_NAMES[kind]}"
    if kind in ("enum", "literal_error"):
        return _not_a_choice(details["input"], str(context.get("expected", "")))
    return _explain_bound(details, context)


def _explain_bound(details: ErrorDetails, context: dict[str, Any]) -> tuple[str, str]:
    kind = details["type"]
    if kind in _BOUNDS:
        words = kind.replace("_", " ").replace("than equal", "than or equal to")
        return f"{_shown(details['input'])} is out of range", f"give a value {words} {context[_BOUNDS[kind]]:g}"
    if kind == "string_pattern_mismatch":
        return f"{_shown(details['input'])} does not have the right form", f"match {context['pattern']}"
    if kind in ("too_short", "string_too_short"):
        return "is empty or too short", f"give at least {context['min_length']}"
    if kind in ("too_long", "string_too_long"):
        return "is too long", f"give at most {context['max_length']}"
    return details["msg"], "see the reference of this field"


def _unknown_field(location: Location, root: type[BaseModel]) -> tuple[str, str]:
    owner = _model_at(root, location[:-1])
    known = sorted(_aliases(owner)) if owner is not None else []
    name = str(location[-1])
    close = get_close_matches(name, known, n=1, cutoff=0.6) or get_close_matches(
        name.lower().replace("_", ""), [alias.lower() for alias in known], n=1, cutoff=0.8
    )
    if close:
        return "unknown field", f"did you mean {next(alias for alias in known if alias.lower() == close[0].lower())}?"
    return "unknown field", f"remove it; known here: {', '.join(known)}" if known else "remove it"


def _not_a_choice(given: object, expected: str) -> tuple[str, str]:
    choices = [choice.strip(" '") for choice in expected.replace(" or ", ",").split(",")]
    close = get_close_matches(str(given), choices, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{_shown(given)} is not a choice", f"{hint}use one of {', '.join(choices)}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."  # noqa: PLR2004 - one line of a terminal


def _aliases(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _model_at(root: type[BaseModel], location: Location) -> type[BaseModel] | None:
    """Find the model class at `location`, or None inside free-form values."""
    current: Any = root
    for part in location:
        current = _step(current, part)
    return next((option for option in _options(current) if _is_model(option)), None)


def _without_union_members(location: Location, root: type[BaseModel]) -> Location:
    """Drop what pydantic inserts that is not in the file (names of union members and of functions)."""
    kept: list[str | int] = []
    current: Any = root
    for part in location:
        inner = _step(current, part)
        if inner is None and current is not None and part != location[-1] and kept:
            continue
        kept.append(part)
        current = inner
    return tuple(kept)


def _step(annotation: Any, part: str | int) -> Any:
    for option in _options(annotation):
        if _is_model(option) and part in _aliases(option):
            return _aliases(option)[str(part)]
        if get_origin(option) is tuple and isinstance(part, int):
            return get_args(option)[0]
        if get_origin(option) is dict:
            return get_args(option)[1]
    return None


def _options(annotation: Any) -> list[Any]:
    """Return the alternatives of a type with optional, union and annotation wrappers removed."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _options(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return [option for member in get_args(annotation) for option in _options(member)]
    return [annotation]


def _is_model(option: Any) -> bool:
    return isinstance(option, type) and issubclass(option, BaseModel)


def nested_models(root: type[BaseModel]) -> tuple[type[BaseModel], ...]:
    """Return `root` and every model that it is made of, each once."""
    found: dict[type[BaseModel], None] = {}
    waiting: list[Any] = [root]
    while waiting:
        annotation = waiting.pop()
        if _is_model(annotation):
            if annotation not in found:
                found[annotation] = None
                waiting += [field.annotation for field in annotation.model_fields.values()]
        else:
            waiting += [option for option in (*_options(annotation), *get_args(annotation)) if option is not annotation]
    return tuple(found)
