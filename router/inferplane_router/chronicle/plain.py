"""A message as plain values, as protobuf's own JSON has them, in less than half of the time.

Problem: `MessageToDict` looks up on each field of each message what it is, which was most of what a written decision
cost.  Idea: how a field is written is found once for each kind of message, and a message that has not been made yet is
written from its fields, without being made.
Trade-off: kinds that no record has (bytes, floats of 32 bits, protobuf's well-known types) are refused.
Invariant: the result is `MessageToDict`'s.
"""

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

Write = Callable[[Any], object]
_F: Final = FieldDescriptor
_AS_IT_IS: Final = frozenset({_F.CPPTYPE_BOOL, _F.CPPTYPE_INT32, _F.CPPTYPE_UINT32, _F.CPPTYPE_STRING})
_AS_TEXT: Final = frozenset({_F.CPPTYPE_INT64, _F.CPPTYPE_UINT64})


def plain(message: Message) -> dict[str, Any]:
    """Write what is set; 64-bit numbers as text, enumerations by name."""
    known = _fields(message.DESCRIPTOR)
    found: dict[str, Any] = {}
    for field, value in message.ListFields():
        name, write = known[field.number]
        found[name] = write(value) if write is not None else value
    return found


def plain_fields(kind: type[Message], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Write the message that these fields would make."""
    return _written(cast("Descriptor", kind.DESCRIPTOR), fields)  # stubs know it by two classes


def _written(descriptor: Descriptor, fields: Mapping[str, Any]) -> dict[str, Any]:
    known = _by_name(descriptor)
    found: dict[str, Any] = {}
    for field, value in fields.items():
        if value:  # what is zero or empty is not set
            name, write = known[field]
            found[name] = write(value) if write is not None else value
    return found


@cache
def _by_name(descriptor: Descriptor) -> Mapping[str, tuple[str, Write | None]]:
    return {field.name: (field.json_name, _writer(field)) for field in descriptor.fields}


@cache
def _fields(descriptor: Descriptor) -> Mapping[int, tuple[str, Write | None]]:
    return {field.number: (field.json_name, _writer(field)) for field in descriptor.fields}


def _writer(field: FieldDescriptor) -> Write | None:
    """Return how a field is written; None: as it is."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        one = _one(field.message_type.fields_by_name["value"]) or _same
        return lambda values: {str(name): one(value) for name, value in values.items()}
    one_or_none = _one(field)
    if not field.is_repeated:
        return one_or_none
    write = one_or_none or _same
    return lambda values: [write(value) for value in values]


def _one(field: FieldDescriptor) -> Write | None:
    kind = field.cpp_type
    if field.message_type is not None:
        return _message(field.message_type)
    if field.enum_type is not None:
        return _named(field.enum_type)
    if kind == _F.CPPTYPE_DOUBLE:
        return _number
    if kind in _AS_TEXT:
        return str
    if kind in _AS_IT_IS and field.type != _F.TYPE_BYTES:
        return None
    raise TypeError(f"{field.full_name}: no record has such a field")


def _message(kind: Descriptor) -> Write:
    return lambda value: plain(value) if isinstance(value, Message) else _written(kind, value)


def _named(kind: EnumDescriptor) -> Write:
    names = {number: value.name for number, value in kind.values_by_number.items()}
    return lambda number: names.get(number, number)


def _number(value: float) -> object:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _same(value: object) -> object:
    return value
