"""The calling side against the project's own server, in memory, cut anywhere; `router_streams` has gRPC's server."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_router.rpc import frames
from inferplane_router.rpc.call import Call, Method
from inferplane_router.rpc.connection import Connection, RpcLimits
from inferplane_router.rpc.frames import Fault
from inferplane_router.rpc.outgoing import OutgoingCall
from inferplane_router.rpc.status import CallError, Status

PATH = "/p.S/M"
messages = st.lists(st.one_of(st.binary(max_size=40), st.integers(0, 200_000).map(bytes)), max_size=4)


class Echo:
    """Sends back what it hears; ends when it has heard `last`."""

    def __init__(self, call: Call, last: bytes, status: Status) -> None:
        self.call, self.last, self.status = call, last, status

    def message(self, data: bytes) -> None:
        self.call.send(data)
        if data == self.last and self.status is Status.OK:
            self.call.finish()
        elif data == self.last:
            raise CallError(self.status, "said: 100 %")

    def said_all(self) -> None: ...

    def gone(self) -> None: ...


@dataclass
class Talk:
    """A caller and its server, whose bytes go across in pieces of `size`."""

    method: Method
    size: int = 1 << 30
    heard: list[bytes] = field(default_factory=list[bytes])
    ends: list[str] = field(default_factory=list[str])
    there: bytes = b""
    back: bytes = b""

    def __post_init__(self) -> None:
        self.ready = 0
        self.caller = OutgoingCall(write=self.go, ready=self.count, message=self.heard.append, ended=self.ends.append)
        limits = RpcLimits(window_bytes=70_000)
        self.server = Connection({PATH.encode(): self.method}, limits=limits, write=self.come, close=int)

    def go(self, data: bytes) -> None:
        self.there += data

    def come(self, data: bytes) -> None:
        self.back += data

    def count(self) -> None:
        self.ready += 1

    def carry(self) -> None:
        """Carry bytes across until nobody has any more to say."""
        while self.there or self.back:
            piece, self.there = self.there[: self.size], self.there[self.size :]
            self.server.receive(piece)
            piece, self.back = self.back[: self.size], self.back[self.size :]
            self.caller.receive(piece)


def talk(size: int = 1 << 30, *, last: bytes = b"last", status: Status = Status.OK) -> Talk:
    begun = Talk(lambda call: Echo(call, last, status), size)
    begun.server.begin()
    begun.caller.begin(PATH, "somewhere")
    return begun


@given(messages, st.sampled_from([1 << 30, 65_536, 1_000, 7]))
def test_messages_of_any_length_come_back_in_order_however_bytes_are_cut(said: list[bytes], size: int) -> None:
    begun = talk(max(size, sum(map(len, said)) // 2_000 + 1))
    for message in [*said, b"last"]:
        begun.caller.send(message)
    begun.carry()

    assert begun.heard == [*said, b"last"]
    assert begun.ends == [""]
    assert (begun.ready, begun.caller.waiting) == (1, 0)


def test_what_the_other_end_does_not_take_waits() -> None:
    begun = talk()
    begun.caller.send(bytes(200_000))

    assert begun.caller.waiting == 200_005 - frames.DEFAULT_WINDOW
    begun.carry()
    assert (begun.heard, begun.caller.waiting) == ([bytes(200_000)], 0)


def test_a_status_that_is_not_well_is_told_in_its_words() -> None:
    begun = talk(status=Status.RESOURCE_EXHAUSTED)
    begun.caller.send(b"last")
    begun.carry()

    assert begun.ends == ["status 8: said: 100 %"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP/2"),
        (frames.settings({}) + frames.headers(1, frames.literal(b":status", b"404")), "404"),
        (frames.settings({}) + frames.reset(1, Fault.CANCEL), "reset"),
        (frames.settings({}) + frames.go_away(0, Fault.NO_ERROR), "no calls"),
        (frames.settings({}) + frames.frame(frames.DATA, 0, 1, b"\x01\0\0\0\0"), "compressed"),
        (frames.settings({}) + frames.frame(frames.DATA, frames.END_STREAM, 1), "without a status"),
        (frames.settings({}) + frames.frame(frames.DATA, 0, 3, b"x"), "never opened"),
        (frames.settings({}) + frames.frame(frames.CONTINUATION, 0, 1), "never began"),
        (frames.settings({}) + frames.headers(1, b"\xff\xff\xff\xff\xff\xff"), "header block"),
        (frames.frame(frames.SETTINGS, 0, 0, b"12345"), "six bytes"),
    ],
)
def test_a_server_that_does_not_serve_ends_the_call_once(answer: bytes, words: str) -> None:
    begun = talk()
    begun.caller.receive(answer)
    begun.caller.receive(answer)
    begun.caller.send(b"more")
    begun.caller.lose("again")

    assert len(begun.ends) == 1
    assert words in begun.ends[0]
    assert begun.heard == []


def test_a_server_that_ends_may_finish_what_it_has_begun() -> None:
    begun = talk()
    begun.carry()
    begun.caller.receive(frames.go_away(1, Fault.NO_ERROR))
    begun.caller.send(b"last")
    begun.carry()

    assert (begun.heard, begun.ends) == ([b"last"], [""])


def test_pings_are_answered() -> None:
    begun = talk()
    begun.carry()
    begun.caller.receive(frames.frame(frames.PING, 0, 0, b"12345678"))

    assert begun.there == frames.frame(frames.PING, frames.ACK, 0, b"12345678")
