"""Configuration: frozen dataclasses filled from flags, environment and files, with errors that name the path.

Problem: every process has a few dozen settings, and each must be settable by flag and by environment, have a default
and a unit, and stop the start with words that help when it is wrong.
Idea: the dataclass is the specification.  A field's type says how text is read, its metadata what it means.
Trade-off: only the types listed in `_convert`; a process that needs another gives the field a `parse`.
Invariant: nothing reads the environment but `load`, and `load` is called once, in `__main__`.
"""

import argparse
import dataclasses
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from pydantic.alias_generators import to_camel

T = TypeVar("T")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}
_TRUE, _FALSE = ("on", "true", "yes", "1"), ("off", "false", "no", "0")


class SettingsError(ValueError):
    """A setting is wrong: where it stands and what to write instead."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


def parse_duration(text: str) -> float:
    """Read `30s`, `500ms`, `2m`, `1h` or plain seconds."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration: write 30s, 500ms or 2m")
    return float(match[1]) * _UNITS[match[2]]


def parse_address(text: str) -> str:
    """Check host:port (the host may be empty, an IPv6 address stands in brackets)."""
    _, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004 - the largest port
        raise ValueError(f"{text!r} is not an address: write host:port, such as 127.0.0.1:8000")
    return text


def setting(
    *,
    help: str,  # noqa: A002 - argparse's own word for it
    default: Any = dataclasses.MISSING,
    parse: Callable[[str], Any] | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
) -> Any:
    """Declare a field; `parse` reads text (durations, addresses), the bounds are inclusive."""
    metadata = {"help": help, "parse": parse, "minimum": minimum, "maximum": maximum}
    return dataclasses.field(default=default, metadata=metadata)


def load(cls: type[T], argv: Sequence[str], environ: Mapping[str, str], *, program: str) -> T:
    """Fill `cls` from flags, then `INFERPLANE_*`, then defaults; wrong values raise `SettingsError`.

    Wrong usage (an unknown flag) and `--help` end the process as argparse does, with status 2 and 0.
    """
    parser = argparse.ArgumentParser(prog=program, description=cls.__doc__, allow_abbrev=False)
    fields = dataclasses.fields(typing.cast("Any", cls))
    hints = get_type_hints(cls)
    for field in fields:
        repeated = get_origin(hints[field.name]) is tuple
        parser.add_argument(
            _flag(field.name),
            dest=field.name,
            action="append" if repeated else "store",
            help=field.metadata.get("help", "").replace("%", "%%"),
        )
    given = vars(parser.parse_args(list(argv)))
    values: dict[str, Any] = {}
    for field in fields:
        text, path = given[field.name], _flag(field.name)
        variable = "INFERPLANE_" + field.name.upper()
        if text is None and variable in environ:
            text, path = environ[variable], variable
            if get_origin(hints[field.name]) is tuple:
                text = [part for part in text.split(",") if part]
        if text is not None:
            values[field.name] = _read(field, hints[field.name], text, path)
        elif _required(field):
            raise SettingsError(path, f"is required (or {variable})")
    return cls(**values)


def from_mapping(cls: type[T], mapping: object, path: str = "") -> T:
    """Fill `cls` from a parsed YAML or JSON mapping with camelCase keys; nested dataclasses are nested mappings."""
    if not isinstance(mapping, Mapping):
        raise SettingsError(path or "(file)", f"must be a mapping, not {type(mapping).__name__}")
    entries = typing.cast("Mapping[object, object]", mapping)
    fields = {to_camel(field.name): field for field in dataclasses.fields(typing.cast("Any", cls))}
    hints = get_type_hints(cls)
    values: dict[str, Any] = {}
    for key, value in entries.items():
        where = f"{path}.{key}" if path else str(key)
        field = fields.get(str(key))
        if field is None:
            raise SettingsError(where, f"unknown key; known here: {', '.join(sorted(fields))}")
        values[field.name] = _read(field, hints[field.name], value, where)
    for key, field in fields.items():
        if field.name not in values and _required(field):
            raise SettingsError(f"{path}.{key}" if path else key, "is required")
    return cls(**values)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _read(field: "dataclasses.Field[Any]", hint: Any, value: Any, path: str) -> Any:
    parse: Callable[[str], Any] | None = field.metadata.get("parse")
    try:
        if parse is None:
            result = _convert(hint, value, path)
        elif get_origin(hint) is tuple:
            result = tuple(parse(str(item)) for item in value)
        else:
            result = parse(str(value))
    except SettingsError:
        raise
    except ValueError as error:
        raise SettingsError(path, str(error)) from error
    low, high = field.metadata.get("minimum"), field.metadata.get("maximum")
    if low is not None and result < low:
        raise SettingsError(path, f"{result} is too small: at least {low}")
    if high is not None and result > high:
        raise SettingsError(path, f"{result} is too large: at most {high}")
    return result


def _convert(hint: Any, value: Any, path: str) -> Any:
    if isinstance(hint, types.UnionType):
        inner = [kind for kind in get_args(hint) if kind is not types.NoneType]
        return None if value is None else _convert(inner[0], value, path)
    if get_origin(hint) is tuple:
        items = typing.cast("list[object]", value) if isinstance(value, list) else [value]
        return tuple(_convert(get_args(hint)[0], item, f"{path}[{i}]") for i, item in enumerate(items))
    if dataclasses.is_dataclass(hint):
        return from_mapping(typing.cast("type[Any]", hint), value, path)
    return _scalar(hint, value, path)


def _scalar(hint: Any, value: Any, path: str) -> Any:
    if hint is bool:
        return _boolean(value)
    if hint in (int, float):
        return _number(hint, value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _member(hint, value)
    if hint not in (str, Path):
        raise TypeError(f"{path}: a setting cannot be of type {hint}")
    if isinstance(value, (dict, list)):
        raise ValueError(f"must be text, not {'a mapping' if isinstance(value, dict) else 'a list'}")  # noqa: TRY004 - about the value, not the type
    return hint(value)


def _boolean(value: Any) -> bool:
    text = str(value).lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"{value!r} is neither on nor off")


def _number(kind: type, value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a number, not a boolean")  # noqa: TRY004 - about the value given
    try:
        return kind(value)
    except (TypeError, ValueError):
        name = "a whole number" if kind is int else "a number"
        raise ValueError(f"{value!r} is not {name}") from None


def _member(kind: type[Enum], value: Any) -> Enum:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(str(member.value) for member in kind)
        raise ValueError(f"{value!r} is not one of {known}") from None
