"""The quick writer of records gives what protobuf's own gives, for whatever a record may hold."""

from typing import Any

import orjson
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from inferplane_api.proto.router_pb2 import DecisionRecord, PickRequest
from inferplane_router.chronicle.plain import plain, plain_fields

F = FieldDescriptor
SINGLE: dict[int, st.SearchStrategy[Any]] = {
    F.CPPTYPE_BOOL: st.booleans(),
    F.CPPTYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    F.CPPTYPE_UINT32: st.integers(0, 2**32 - 1),
    F.CPPTYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    F.CPPTYPE_UINT64: st.integers(0, 2**64 - 1),
    F.CPPTYPE_ENUM: st.integers(0, 9),
    F.CPPTYPE_DOUBLE: st.floats().map(lambda it: it or 0.0),  # no minus zero, which no time is
    F.CPPTYPE_STRING: st.text(max_size=5),
}


@st.composite
def filled(draw: st.DrawFn, kind: type[Message]) -> Message:
    """Fill any of a message's fields with anything that they may hold."""
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        if draw(st.booleans()):
            fill(draw, message, field)
    return message


def fill(draw: st.DrawFn, message: Message, field: Any) -> None:
    place = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        value = SINGLE[field.message_type.fields_by_name["value"].cpp_type]
        place.update(draw(st.dictionaries(st.text(max_size=3), value, max_size=2)))
    elif field.message_type is not None:
        kind = GetMessageClass(field.message_type)
        for _ in range(draw(st.integers(0, 2))):
            place.add().CopyFrom(draw(filled(kind)))
    elif field.is_repeated:
        place.extend(draw(st.lists(SINGLE[field.cpp_type], max_size=2)))
    else:
        setattr(message, field.name, draw(SINGLE[field.cpp_type]))


@given(filled(DecisionRecord))
def test_any_record_is_written_alike(record: Message) -> None:
    assert repr(plain(record)) == repr(MessageToDict(record))


def fields(message: Message, *, whole: frozenset[str]) -> dict[str, Any]:
    """Take a message apart, as its constructor takes it; messages in `whole` fields stay."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            found[field.name] = dict(value)
        elif field.message_type is not None and field.name not in whole:
            found[field.name] = [fields(it, whole=whole) for it in value]
        else:
            found[field.name] = list(value) if field.is_repeated else value
    return found


@given(filled(DecisionRecord))
def test_a_record_that_is_not_made_yet_is_written_alike(record: Message) -> None:
    taken_apart = fields(record, whole=frozenset({"observed"}))

    written = plain_fields(DecisionRecord, taken_apart)

    assert orjson.loads(orjson.dumps(written)) == orjson.loads(orjson.dumps(MessageToDict(record)))


def test_what_no_record_has_is_refused() -> None:
    with pytest.raises(TypeError, match="no record has such a field"):
        plain(PickRequest(request_id="x"))
