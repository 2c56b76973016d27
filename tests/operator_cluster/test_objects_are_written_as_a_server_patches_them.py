"""A server compares the immutable data of a ControllerRevision with its own encoding, byte by byte."""

import json
from dataclasses import dataclass, field

import pytest

from inferplane_operator.cluster.objects import Objects
from inferplane_operator.cluster.transport import Answer, Call

pytestmark = pytest.mark.anyio
ARGUMENT = "--filter=a<b && c>d \u2028\u2029 é"


@dataclass
class Wire:
    """Keeps what is sent, and answers with it."""

    sent: list[bytes] = field(default_factory=list[bytes])

    async def send(self, call: Call, /) -> Answer:
        self.sent.append(call.body)
        return Answer(201, call.body)


def as_a_server_encodes(document: object) -> bytes:
    """Go's encoder: keys in order, no spaces, characters that HTML or JavaScript would read escaped."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode()


async def test_a_patch_of_its_number_leaves_its_data_the_same_bytes() -> None:
    revision = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"namespace": "ns", "name": "chat-abc"},
        "revision": 1,
        "data": {"spec": {"slo": {"ttft": "1s"}, "engine": {"args": [ARGUMENT], "seed": 7}}, "modelRevision": ""},
    }
    wire = Wire()

    await Objects(wire).create(revision, manager="test")

    assert wire.sent == [as_a_server_encodes(revision)]
    assert json.loads(wire.sent[0]) == revision
