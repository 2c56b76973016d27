"""Calls over a connection in memory, whose other end is another implementation of HTTP/2."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from http2_caller import Heard, Wire, framed
from inferplane_router.rpc.call import Call, Listener
from inferplane_router.rpc.connection import RpcLimits
from inferplane_router.rpc.status import CallError, Status

SMALL = RpcLimits(streams=2, window_bytes=70_000, connection_bytes=80_000, frame_bytes=16_384, message_bytes=300_000)


@pytest.fixture
def wire() -> Wire:
    return Wire()


def echo(heard: Heard, data: bytes) -> None:
    heard.call.send(data)


@settings(max_examples=40, deadline=None)
@given(
    calls=st.lists(st.lists(st.binary(max_size=300), max_size=4), min_size=1, max_size=3),
    piece=st.integers(min_value=1, max_value=400),
)
def test_messages_arrive_whole_and_in_order_however_their_bytes_come(calls: list[list[bytes]], piece: int) -> None:
    wire = Wire(piece=piece, on_message=echo)
    streams = [wire.open() for _ in calls]
    for stream, messages in zip(streams, calls, strict=True):
        wire.say(stream, b"".join(framed(each) for each in messages), last=True)
    wire.run()
    for heard in wire.heard:
        heard.call.finish()
    wire.run()

    assert [heard.messages for heard in wire.heard] == calls
    assert all(heard.ended and not heard.left for heard in wire.heard)
    assert [wire.got[stream].messages for stream in streams] == calls
    assert {(wire.got[stream].status, wire.got[stream].reset) for stream in streams} == {(0, None)}


@pytest.mark.parametrize("size", [0, 16_379, 16_380, 65_535, 299_999])
def test_large_messages_pass_small_windows_both_ways(size: int) -> None:
    wire = Wire(limits=SMALL, on_message=echo)
    stream, left = wire.open(), framed(b"x" * size)
    while left:
        wire.run()
        room = min(wire.client.local_flow_control_window(stream), wire.client.max_outbound_frame_size)
        wire.say(stream, left[:room])
        left = left[room:]
    wire.run()

    assert wire.got[stream].messages == [b"x" * size]


def test_an_end_waits_for_what_was_sent_before() -> None:
    wire = Wire()
    stream = wire.open(last=True)
    wire.run(credit=False)
    wire.heard[0].call.send(b"y" * 100_000)
    wire.heard[0].call.finish(Status.NOT_FOUND, "50 % ü\n")
    wire.run(credit=False)

    assert not wire.got[stream].ended

    wire.client.increment_flow_control_window(100_000)
    wire.client.increment_flow_control_window(100_000, stream)
    wire.run()

    got = wire.got[stream]
    assert (got.messages, got.status) == ([b"y" * 100_000], 5)
    assert got.trailers["grpc-message"] == "50 %25 %C3%BC%0A"
    assert not wire.heard[0].left


def test_a_held_call_hears_nothing_and_its_caller_runs_out_of_credit() -> None:
    wire = Wire(limits=SMALL, on_message=lambda heard, _: heard.call.hold())
    stream, other = wire.open(), wire.open()
    wire.run()
    for _ in range(6):
        wire.say(stream, framed(b"m" * 10_000))
        wire.run()

    assert len(wire.heard[0].messages) == 1
    assert wire.client.local_flow_control_window(stream) < 10_005

    wire.say(other, framed(b"passes"))
    wire.run()

    assert wire.heard[1].messages == [b"passes"]

    for _ in range(5):
        wire.heard[0].call.release()
    wire.run()

    assert len(wire.heard[0].messages) == 6
    assert wire.client.local_flow_control_window(stream) > 40_000


def test_a_caller_that_takes_nothing_is_not_heard() -> None:
    wire = Wire(on_message=lambda heard, _: heard.call.send(b"z" * 400_000))
    stream = wire.open()
    wire.say(stream, framed(b"again") * 20)
    wire.run(credit=False)

    assert len(wire.heard[0].messages) == 3  # a megabyte waits


def test_a_reset_is_heard_once_and_nothing_is_sent_after_it(wire: Wire) -> None:
    stream = wire.open()
    wire.say(stream, framed(b"m"))
    wire.run()
    wire.client.reset_stream(stream)
    wire.run()
    wire.heard[0].call.send(b"late")
    wire.heard[0].call.finish()
    wire.run()

    assert wire.heard[0].left
    assert not wire.got[stream].data


def test_a_call_that_was_finished_early_takes_what_still_comes(wire: Wire) -> None:
    stream = wire.open()
    wire.run()
    wire.heard[0].call.finish(Status.UNAVAILABLE, "not now")
    wire.say(stream, framed(b"crosses"))
    wire.run()

    assert (wire.got[stream].status, wire.got[stream].reset) == (14, 0)
    assert wire.gone_away is None
    assert not wire.heard[0].messages


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (CallError(Status.FAILED_PRECONDITION, "why"), 9, "why"),
        (KeyError("secret"), 13, "the call could not be served"),
    ],
)
def test_what_a_listener_raises_ends_its_call_alone(error: Exception, status: int, words: str) -> None:
    def fail(_: Heard, data: bytes) -> None:
        if data == b"bad":
            raise error

    wire = Wire(on_message=fail)
    bad, good = wire.open(), wire.open()
    wire.say(bad, framed(b"bad"))
    wire.say(good, framed(b"good"))
    wire.run()

    assert (wire.got[bad].status, wire.got[bad].headers["grpc-message"]) == (status, words)
    assert wire.heard[0].left
    assert not wire.got[good].headers
    assert wire.heard[1].messages == [b"good"]


def test_a_method_that_cannot_begin_ends_its_call() -> None:
    def refuse(_: Call) -> Listener:
        raise CallError(Status.UNAVAILABLE, "closed")

    wire = Wire(refuse)
    stream = wire.open()
    wire.run()

    assert wire.got[stream].status == 14


@pytest.mark.parametrize(
    ("begin", "status"),
    [(b"\1\0\0\0\1m", 12), ((300_001).to_bytes(5, "big"), 8), (b"\0\0\0\0\5m", 13)],
    ids=["compressed", "too long", "cut off"],
)
def test_messages_that_cannot_be_taken_end_their_call(begin: bytes, status: int) -> None:
    wire = Wire(limits=SMALL)
    stream = wire.open()
    wire.say(stream, begin, last=status == 13)
    wire.run()

    assert wire.got[stream].status == status
    assert wire.heard[0].left


def test_what_is_no_call_of_ours_is_refused(wire: Wire) -> None:
    nothing, plain = wire.open(path="/s/Other"), wire.open(content_type="text/plain")
    wire.run()

    assert wire.got[nothing].status == 12
    assert wire.got[plain].headers[":status"] == "415"
    assert not wire.heard


def test_calls_beyond_the_limit_are_refused_and_may_be_tried_again() -> None:
    wire = Wire(limits=SMALL)
    streams = [wire.open() for _ in range(3)]  # before the caller has heard of the limit
    wire.run()

    assert [wire.got[stream].reset for stream in streams] == [None, None, 7]


def test_a_callers_table_is_followed_until_it_hears_that_none_is_kept() -> None:
    wire = Wire()
    wire.open(x_long="value " * 10)
    second = wire.open(x_long="value " * 10)  # refers to what the first one taught
    wire.run()
    third, fourth = wire.open(x_long="value " * 10), wire.open(x_long="value " * 10)
    for stream in (second, third, fourth):
        wire.say(stream, framed(b"m"))
    wire.run()

    assert [len(heard.messages) for heard in wire.heard] == [0, 1, 1, 1]


def test_who_leaves_ends_the_calls_under_way_and_takes_no_more(wire: Wire) -> None:
    wire.open()
    wire.run()
    wire.connection.leave()

    assert not wire.closed

    wire.heard[0].call.send(b"last")
    wire.heard[0].call.finish()

    assert wire.closed
    assert framed(b"last") in b"".join(wire.said)


def test_a_lost_connection_ends_every_call(wire: Wire) -> None:
    wire.open()
    wire.open()
    wire.run()
    wire.connection.lost()
    wire.heard[0].call.send(b"late")

    assert [heard.left for heard in wire.heard] == [True, True]
    assert not wire.said
