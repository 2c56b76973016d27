"""Values as JSON and back: what a decision was made from is written down so that it can be made again.

Everything that a plan step takes is made of dataclasses, tuples, enumerations and arrays, and its types say which; so
one pair of functions reads and writes all of it.  Infinite numbers and NaN are written as JSON's dialect of Python has
them.
"""

import dataclasses
import types
import typing
from enum import Enum
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

T = TypeVar("T")


class RecordError(ValueError):
    """A record does not hold what was expected; names the field."""


def encode(value: object) -> Any:
    """Return what `json.dumps` takes."""
    if isinstance(value, np.ndarray):
        return typing.cast("Any", value).tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (tuple, list)):
        return [encode(each) for each in typing.cast("typing.Iterable[object]", value)]
    return value.value if isinstance(value, Enum) else value


def decode(cls: type[T], value: object, path: str = "") -> T:
    """Return the dataclass that was encoded; fields that are absent have their default.  Raises RecordError."""
    if not isinstance(value, dict):
        raise RecordError(f"{path or cls.__name__}: must be an object")
    found = typing.cast("dict[str, object]", value)
    hints = get_type_hints(cls)
    unknown = sorted(set(found) - hints.keys())
    if unknown:
        raise RecordError(f"{path}{unknown[0]}: is not known; remove it")
    try:
        return cls(**{name: _read(hints[name], each, f"{path}{name}") for name, each in found.items()})
    except TypeError as error:
        raise RecordError(f"{path or cls.__name__}: {error}") from error


def _read(hint: Any, value: object, path: str) -> Any:
    if isinstance(hint, types.UnionType):
        inner = [each for each in get_args(hint) if each is not types.NoneType]
        return None if value is None else _read(inner[0], value, path)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return decode(hint, value, f"{path}.")
    if get_origin(hint) is np.ndarray:
        return np.array(value, dtype=np.float64)
    if get_origin(hint) is tuple:
        return _read_tuple(get_args(hint), value, path)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    return _number(value, path) if hint is float else value


def _read_tuple(inner: tuple[Any, ...], value: object, path: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise RecordError(f"{path}: must be a list")
    found = typing.cast("typing.Iterable[object]", value)
    return tuple(_read(inner[0], each, f"{path}[{place}]") for place, each in enumerate(found))


def _number(value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RecordError(f"{path}: {value!r} is not a number")
    return float(value)
