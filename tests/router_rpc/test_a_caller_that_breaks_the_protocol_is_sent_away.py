"""Bytes that no caller should write: each ends the connection with the reason that HTTP/2 has for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_router.rpc import frames
from inferplane_router.rpc.connection import Connection, RpcLimits
from inferplane_router.rpc.frames import PREFACE, Fault, frame

BLOCK = frames.literal(b":method", b"POST") + frames.literal(b":path", b"/none")


class World:
    def __init__(self) -> None:
        self.said = b""
        self.closed = False
        self.connection = Connection({}, limits=RpcLimits(), write=self._said, close=self._close)

    def _said(self, data: bytes) -> None:
        self.said += data

    def _close(self) -> None:
        self.closed = True

    def fault(self) -> Fault:
        """Return the reason of the last frame, which sends the caller away."""
        at, kind, begin = 0, -1, 0
        while at < len(self.said):
            head, _, _ = frames.HEAD.unpack_from(self.said, at)
            kind, begin = head & 0xFF, at + frames.HEAD_BYTES
            at = begin + (head >> 8)
        assert kind == frames.GOAWAY
        return Fault(frames.WORD.unpack_from(self.said, begin + 4)[0])


@pytest.mark.parametrize(
    ("bytes_", "fault"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", Fault.PROTOCOL_ERROR, id="HTTP/1"),
        pytest.param(PREFACE + frame(frames.DATA, 0, 1, b"x"), Fault.PROTOCOL_ERROR, id="data before headers"),
        pytest.param(PREFACE + frame(frames.HEADERS, 4, 2, BLOCK), Fault.PROTOCOL_ERROR, id="an even stream"),
        pytest.param(PREFACE + frame(frames.HEADERS, 4, 1, b"\xff\xff\xff"), Fault.COMPRESSION_ERROR, id="a bad block"),
        pytest.param(PREFACE + frame(frames.HEADERS, 0x24, 1, b"1234"), Fault.FRAME_SIZE_ERROR, id="short priority"),
        pytest.param(PREFACE + frame(frames.HEADERS, 0x0C, 1, b"\x09x"), Fault.PROTOCOL_ERROR, id="only padding"),
        pytest.param(
            PREFACE + frame(frames.HEADERS, 0, 1, BLOCK) + frame(frames.PING, 0, 0, b"12345678"),
            Fault.PROTOCOL_ERROR,
            id="a block interrupted",
        ),
        pytest.param(
            PREFACE + frame(frames.CONTINUATION, 4, 1, BLOCK), Fault.PROTOCOL_ERROR, id="a block that goes on"
        ),
        pytest.param(
            PREFACE + frame(frames.HEADERS, 0, 1, BLOCK) + frame(frames.CONTINUATION, 0, 1, b"x" * 65_536),
            Fault.ENHANCE_YOUR_CALM,
            id="an endless block",
        ),
        pytest.param(PREFACE + frame(frames.PING, 0, 0, b"short"), Fault.FRAME_SIZE_ERROR, id="a short ping"),
        pytest.param(PREFACE + frame(frames.SETTINGS, 0, 0, b"12345"), Fault.FRAME_SIZE_ERROR, id="half a setting"),
        pytest.param(PREFACE + frames.settings({5: 1}), Fault.PROTOCOL_ERROR, id="frames of one byte"),
        pytest.param(PREFACE + frames.settings({4: 1 << 31}), Fault.FLOW_CONTROL_ERROR, id="a window too large"),
        pytest.param(PREFACE + frames.window_update(0, 0), Fault.FLOW_CONTROL_ERROR, id="no credit"),
        pytest.param(PREFACE + frames.window_update(0, 0x7FFFFFFF), Fault.FLOW_CONTROL_ERROR, id="credit without end"),
        pytest.param(PREFACE + frames.reset(1, Fault.CANCEL), Fault.PROTOCOL_ERROR, id="the end of nothing"),
        pytest.param(PREFACE + frame(frames.PUSH_PROMISE, 4, 1, b"1234"), Fault.PROTOCOL_ERROR, id="a push"),
        pytest.param(PREFACE + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01", Fault.FRAME_SIZE_ERROR, id="a huge frame"),
    ],
)
def test_it_is_told_why_and_the_connection_ends(bytes_: bytes, fault: Fault) -> None:
    world = World()
    world.connection.receive(bytes_)

    assert world.fault() is fault
    assert world.closed


@given(junk=st.binary(max_size=200), piece=st.integers(1, 50))
def test_no_bytes_raise(junk: bytes, piece: int) -> None:
    world = World()
    data = PREFACE + junk
    for at in range(0, len(data), piece):
        if not world.closed:
            world.connection.receive(data[at : at + piece])


def test_unknown_frames_and_priorities_are_passed_over() -> None:
    world = World()
    world.connection.receive(PREFACE + frame(0x55, 0, 0, b"?") + frame(2, 0, 1, b"12345") + frame(6, 0, 0, b"12345678"))

    assert world.said == frame(frames.PING, frames.ACK, 0, b"12345678")
