"""The server's side of a connection, on a transport in memory: order, framing, deadlines, pressure, closing."""

import errno
import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_runtime.http.api import Exchange, Headers, Limits, Request, Response, ResponseHead
from inferplane_runtime.http.server import HttpServer, ServerConnection
from inferplane_runtime.http.testing import MemoryTransport

LIMITS = Limits(
    max_body_bytes=1000,
    header_timeout_s=10,
    body_timeout_s=60,
    least_body_rate=5,
    idle_timeout_s=75,
    max_connections=2,
)
GET = b"GET /%d HTTP/1.1\r\nhost: a\r\n\r\n"
SSE = ResponseHead(200, Headers(((b"content-type", b"text/event-stream"),)))


class World:
    """A server without a network, whose handler only notes what it is given."""

    def __init__(self, handler: Callable[[Request, Exchange], None] | None = None) -> None:
        self.now = 1000.0
        self.seen: list[tuple[Request, Exchange]] = []
        self.server = HttpServer(handler or self.note, limits=LIMITS, clock=lambda: self.now)

    def note(self, request: Request, exchange: Exchange) -> None:
        self.seen.append((request, exchange))

    def connect(self) -> "Client":
        return Client(self.server)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.server.sweep(self.now)


class Client:
    def __init__(self, server: HttpServer) -> None:
        self.connection = ServerConnection(server)
        self.transport = MemoryTransport(self.connection)

    def send(self, data: bytes) -> None:
        self.connection.data_received(data)

    @property
    def got(self) -> bytes:
        return bytes(self.transport.written)

    @property
    def statuses(self) -> list[int]:
        return [int(part[:3]) for part in self.got.split(b"HTTP/1.1 ")[1:]]


def test_pipelined_requests_are_handled_one_at_a_time_and_answered_in_order() -> None:
    world = World()
    client = world.connect()
    client.send(GET % 1 + GET % 2)
    client.send(GET % 3)

    assert [request.path for request, _ in world.seen] == [b"/1"]
    assert not client.transport.reading

    for i in range(3):
        world.seen[i][1].respond(Response(200, body=b"%d" % i))

    assert client.got.count(b"HTTP/1.1 200") == 3
    assert [request.path for request, _ in world.seen] == [b"/1", b"/2", b"/3"]
    assert client.transport.reading


def test_a_request_before_a_malformed_one_still_gets_its_answer() -> None:
    world = World()
    client = world.connect()
    client.send(GET % 1 + b"garbage\r\n\r\n")
    world.seen[0][1].respond(Response(200))

    assert client.statuses == [200, 400]


def test_a_streamed_answer_is_chunked_in_http_1_1_and_ended_by_closing_in_http_1_0() -> None:
    world = World()
    new, old = world.connect(), world.connect()
    new.send(GET % 1)
    old.send(b"GET / HTTP/1.0\r\n\r\n")
    for _, exchange in world.seen:
        exchange.start(SSE)
        exchange.write(b"data: 1\n\n")
        exchange.write(b"")
        exchange.end()

    assert new.got.endswith(b"transfer-encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n0\r\n\r\n")
    assert old.got.endswith(b"connection: close\r\n\r\ndata: 1\n\n")
    assert old.transport.eof


def test_a_head_request_gets_the_head_alone() -> None:
    world = World(lambda _, exchange: exchange.respond(Response(200, body=b"body")))
    client = world.connect()
    client.send(b"HEAD / HTTP/1.1\r\nhost: a\r\n\r\n")

    assert client.got == b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_that_has_no_body_gets_none(status: int) -> None:
    world = World(lambda _, exchange: exchange.respond(Response(status, body=b"body")))
    client = world.connect()
    client.send(GET % 1)

    assert client.got.endswith(b"\r\n\r\n")
    assert b"content-length" not in client.got


def test_100_continue_is_sent_once_and_only_when_the_body_is_acceptable() -> None:
    world = World()
    good, large = world.connect(), world.connect()
    good.send(b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
    large.send(b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2000\r\n\r\n")

    assert good.got == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert large.statuses == [413]

    good.send(b"h")
    good.send(b"i")

    assert good.got == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert world.seen[0][0].body == b"hi"


def test_an_answer_shorter_than_its_length_resets_the_connection() -> None:
    world = World()
    client = world.connect()
    client.send(GET % 1)
    exchange = world.seen[0][1]
    exchange.start(ResponseHead(200, Headers(((b"content-length", b"5"),))))
    exchange.write(b"four")
    exchange.end()

    assert client.transport.aborted


def test_an_answer_longer_than_its_length_resets_the_connection() -> None:
    world = World()
    client = world.connect()
    client.send(GET % 1)
    exchange = world.seen[0][1]
    exchange.start(ResponseHead(200, Headers(((b"content-length", b"3"),))))
    exchange.write(b"four")

    assert client.transport.aborted
    assert not client.got.endswith(b"four")


def test_a_header_value_with_a_line_break_never_leaves() -> None:
    world = World(lambda _, exchange: exchange.respond(Response(200, Headers(((b"x", b"a\r\nset-cookie: b"),)))))
    client = world.connect()
    client.send(GET % 1)

    assert b"set-cookie" not in client.got
    assert client.statuses == [500]


def test_a_handler_that_fails_costs_its_own_request_only() -> None:
    def handler(request: Request, exchange: Exchange) -> None:
        if request.path == b"/1":
            raise KeyError("secret")
        exchange.respond(Response(200))

    world = World(handler)
    client = world.connect()
    client.send(GET % 1 + GET % 2)

    assert client.statuses == [500, 200]
    assert b"secret" not in client.got


def test_hop_by_hop_fields_stay_on_their_hop() -> None:
    fields = ((b"connection", b"x-a"), (b"keep-alive", b"5"), (b"transfer-encoding", b"gzip"), (b"x-b", b"1"))
    world = World(lambda _, exchange: exchange.respond(Response(200, Headers(fields))))
    client = world.connect()
    client.send(GET % 1)

    assert client.got == b"HTTP/1.1 200 OK\r\nx-b: 1\r\ncontent-length: 0\r\n\r\n"


def test_a_client_that_leaves_is_reported_once_and_can_be_written_to_in_vain() -> None:
    world = World()
    client = world.connect()
    client.send(GET % 1)
    exchange = world.seen[0][1]
    calls: list[str] = []
    exchange.on_disconnect(lambda: calls.append("gone"))
    exchange.start(SSE)
    client.transport.close()
    exchange.write(b"data: x\n\n")
    exchange.end()
    exchange.abort()

    assert calls == ["gone"]
    assert exchange.closed


def test_a_complete_answer_is_no_disconnect() -> None:
    world = World()
    client = world.connect()
    client.send(GET % 1)
    calls: list[str] = []
    world.seen[0][1].on_disconnect(lambda: calls.append("gone"))
    world.seen[0][1].respond(Response(200))
    client.transport.close()

    assert calls == []


def test_a_slow_reader_is_reported_and_relieved() -> None:
    world = World()
    client = world.connect()
    client.send(GET % 1)
    pressure: list[bool] = []
    world.seen[0][1].on_pressure(pressure.append)
    client.connection.pause_writing()
    client.connection.resume_writing()

    assert pressure == [True, False]


def test_a_slow_head_is_answered_408_however_it_trickles() -> None:
    world = World()
    client = world.connect()
    world.advance(70)
    for byte in b"GET / HT":
        client.send(bytes([byte]))
        world.advance(1.3)

    assert client.statuses == [408]


def test_a_body_that_stalls_is_answered_408_and_one_that_goes_on_is_not() -> None:
    world = World()
    stalled, slow = world.connect(), world.connect()
    head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 900\r\n\r\n"
    for client in (stalled, slow):
        client.send(head)
    for _ in range(3):
        world.advance(40)
        slow.send(b"x" * 300)

    assert stalled.statuses == [408]
    assert [request.body for request, _ in world.seen] == [b"x" * 900]


def test_an_idle_connection_is_closed_without_a_word() -> None:
    world = World()
    client = world.connect()
    client.send(GET % 1)
    world.advance(1000)

    assert not client.transport.is_closing()

    world.seen[0][1].respond(Response(204))
    world.advance(76)

    assert client.transport.is_closing()
    assert client.statuses == [204]


def test_a_truncated_body_is_answered_400() -> None:
    world = World()
    client = world.connect()
    client.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nx")
    client.connection.eof_received()

    assert client.statuses == [400]
    assert world.seen == []


def test_a_refused_client_that_still_sends_is_read_until_it_stops_so_that_it_sees_the_answer() -> None:
    world = World()
    client = world.connect()
    client.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2000\r\n\r\n")

    assert client.transport.eof
    assert not client.transport.is_closing()

    client.send(b"x" * 2000)
    world.advance(6)

    assert client.transport.is_closing()
    assert client.statuses == [413]


def test_an_answer_to_a_client_that_has_just_gone_is_no_fault_of_the_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_connected() -> None:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    world = World()
    client = world.connect()
    monkeypatch.setattr(client.transport, "write_eof", not_connected)
    client.send(b"GET / HTTP/1.0\r\n\r\n")
    world.seen[0][1].respond(Response(200))

    assert client.transport.aborted
    assert client.statuses == [200]


def test_one_connection_too_many_is_told_so() -> None:
    world = World()
    first, second, third = world.connect(), world.connect(), world.connect()

    assert third.statuses == [503]
    assert first.got == second.got == b""


def test_while_draining_the_last_answer_says_close() -> None:
    world = World()
    client, idle = world.connect(), world.connect()
    idle.send(GET % 1)
    world.seen[0][1].respond(Response(200))
    client.send(GET % 2)
    begin_draining(world)
    world.seen[1][1].respond(Response(200))

    assert idle.transport.is_closing()
    assert b"connection: close" in client.got
    assert client.transport.is_closing()


def begin_draining(world: World) -> None:
    world.server.draining = True
    for connection in list(world.server.connections):
        connection.close_if_idle()


def test_while_draining_a_connection_that_is_new_may_still_send_its_first_request() -> None:
    world = World()
    slow, silent = world.connect(), world.connect()
    begin_draining(world)
    world.advance(9)
    slow.send(GET % 1)
    world.seen[0][1].respond(Response(200))
    world.advance(2)

    assert slow.statuses == [200]
    assert b"connection: close" in slow.got
    assert slow.transport.is_closing()
    assert silent.transport.is_closing()
    assert silent.got == b""


def test_while_draining_a_connection_has_a_heads_time_for_its_first_request() -> None:
    world = World()
    begin_draining(world)
    late = world.connect()
    world.advance(11)

    assert late.transport.is_closing()


def test_a_connection_that_is_made_after_the_end_is_reset() -> None:
    world = World()
    world.server.close()
    late = world.connect()

    assert late.transport.aborted
    assert not world.server.connections


@settings(deadline=None)
@given(
    bodies=st.lists(st.binary(max_size=60), min_size=1, max_size=5),
    chunked=st.booleans(),
    at=st.lists(st.integers(0, 1500), max_size=10),
)
def test_every_body_comes_back_whole_and_in_order(bodies: list[bytes], chunked: bool, at: list[int]) -> None:  # noqa: FBT001 - drawn
    world = World(lambda request, exchange: exchange.respond(Response(200, body=request.body)))
    client = world.connect()
    stream = b"".join(encoded(body, chunked=chunked) for body in bodies)
    points = sorted({min(i, len(stream)) for i in at} | {0, len(stream)})
    for a, b in itertools.pairwise(points):
        client.send(stream[a:b])

    assert client.got == b"".join(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(b), b) for b in bodies)


def encoded(body: bytes, *, chunked: bool) -> bytes:
    if not chunked:
        return b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    pieces = b"".join(b"%x\r\n%b\r\n" % (len(body[i : i + 7]), body[i : i + 7]) for i in range(0, len(body), 7))
    return b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n%b0\r\n\r\n" % pieces
