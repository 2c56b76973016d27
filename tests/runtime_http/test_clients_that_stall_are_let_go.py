"""Clients that trickle a body, never read, or sit there: each holds its connection for a bounded time."""

from hypothesis import given
from hypothesis import strategies as st

from inferplane_runtime.http.api import Exchange, Headers, Limits, Request, Response, ResponseHead
from inferplane_runtime.http.server import HttpServer, ServerConnection
from inferplane_runtime.http.testing import MemoryTransport

LIMITS = Limits(body_timeout_s=60, idle_timeout_s=75, stall_timeout_s=60, least_body_rate=1024)
GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n"
SSE = ResponseHead(200, Headers(((b"content-type", b"text/event-stream"),)))


class Visit:
    """One connection to a server whose handler only notes what it is given."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.exchanges: list[Exchange] = []
        self.left = 0
        self.server = HttpServer(self.note, limits=LIMITS, clock=lambda: self.now)
        self.connection = ServerConnection(self.server)
        self.transport = MemoryTransport(self.connection)

    def note(self, _: Request, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        exchange.on_disconnect(self.leave)

    def leave(self) -> None:
        self.left += 1

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.server.sweep(self.now)

    def fall_behind(self, unsent: int = 300_000) -> None:
        self.transport.unsent = unsent
        self.connection.pause_writing()

    @property
    def open(self) -> bool:
        return bool(self.server.connections)


def test_a_body_that_trickles_ends_though_it_is_never_silent() -> None:
    visit = Visit()
    visit.connection.data_received(POST)
    for _ in range(30):
        visit.advance(10)
        if b" 408 " in visit.transport.written:
            break
        visit.connection.data_received(b"x")

    assert b" 408 " in visit.transport.written
    assert visit.now - 1000 <= 80


@given(st.integers(2000, 100_000))
def test_a_slow_body_that_goes_on_is_let_come(rate: int) -> None:
    visit = Visit()
    visit.connection.data_received(POST)
    sent = 0
    while sent < 1_000_000:
        visit.advance(10)
        piece = min(10 * rate, 1_000_000 - sent)
        visit.connection.data_received(b"x" * piece)
        sent += piece

    assert len(visit.exchanges) == 1


def test_a_client_that_never_reads_is_reset_and_its_request_ends() -> None:
    visit = Visit()
    visit.connection.data_received(GET)
    visit.exchanges[0].start(SSE, b"data: 1\n\n")
    visit.fall_behind()
    visit.advance(59)

    assert visit.open
    visit.advance(2)
    assert visit.transport.aborted
    assert visit.left == 1
    assert not visit.open


def test_a_client_that_reads_slowly_is_not() -> None:
    visit = Visit()
    visit.connection.data_received(GET)
    visit.exchanges[0].start(SSE, b"data: 1\n\n")
    visit.fall_behind()
    for _ in range(10):
        visit.transport.unsent -= 1000
        visit.advance(61)

    assert visit.open
    visit.connection.resume_writing()
    visit.advance(10_000)
    assert visit.open  # the engine may think for as long as it likes


def test_a_client_that_leaves_a_whole_answer_unread_is_reset() -> None:
    visit = Visit()
    visit.connection.data_received(GET)
    visit.fall_behind()
    visit.exchanges[0].respond(Response(200, body=b"x" * 300_000))
    visit.advance(61)

    assert visit.transport.aborted
    assert not visit.open


def test_one_that_was_to_be_closed_is_reset_when_it_takes_nothing_more() -> None:
    visit = Visit()
    visit.connection.data_received(GET)
    visit.transport.unsent = 1000  # less than what counts as pressure
    visit.exchanges[0].respond(Response(200, body=b"x" * 1000))
    visit.advance(76)

    assert visit.open
    visit.advance(61)
    assert visit.transport.aborted
    assert not visit.open


def test_after_a_slow_answer_the_next_request_is_read() -> None:
    visit = Visit()
    visit.connection.data_received(GET)
    visit.fall_behind()
    visit.exchanges[0].respond(Response(200, body=b"x" * 300_000))
    visit.transport.unsent = 0
    visit.connection.resume_writing()
    visit.connection.data_received(GET)

    assert len(visit.exchanges) == 2
    visit.exchanges[1].respond(Response(200))
    visit.advance(76)
    assert not visit.open
