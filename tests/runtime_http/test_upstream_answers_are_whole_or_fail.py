"""The client's half: parsing of answers, and the pool against real sockets on the loopback."""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_runtime.http.api import Exchange, Headers, Limits, Request, Response, ResponseHead, UpstreamFailure
from inferplane_runtime.http.client import UpstreamPool, split_address
from inferplane_runtime.http.response_parser import MalformedResponse, ResponseParser
from inferplane_runtime.http.server import HttpServer
from inferplane_runtime.http.testing import CollectingSink

GET = Request(b"GET", b"/")

ANSWERS: dict[str, tuple[bytes, bytes, bool]] = {
    "content-length": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"hi", True),
    "chunked": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n1\r\n!\r\n0\r\n\r\n", b"hi!", True),
    "close": (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", b"hi", False),
    "interim": (
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nx: y\r\n\r\n"
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        ),
        b"",
        True,
    ),
    "no body": (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
    "1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", b"x", False),
}


@pytest.mark.parametrize(("data", "body", "keep"), ANSWERS.values(), ids=ANSWERS.keys())
def test_an_answer_is_read_by_its_own_framing(data: bytes, body: bytes, keep: bool) -> None:  # noqa: FBT001 - parameter
    parser = ResponseParser()
    got = b""
    for i in range(len(data)):
        assert not parser.complete
        parser.feed(data[i : i + 1])
        got += parser.take()

    assert (parser.complete, got, parser.keep_alive) == (True, body, keep)


def test_an_answer_without_framing_ends_with_its_connection() -> None:
    parser = ResponseParser()
    parser.feed(b"HTTP/1.1 200 OK\r\n\r\nsome")
    parser.feed(b"thing")

    assert not parser.complete
    assert parser.take() == b"something"
    assert parser.eof()


def test_the_answer_to_head_has_no_body_whatever_its_length_says() -> None:
    parser = ResponseParser()
    parser.begin(head_only=True)
    parser.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")

    assert parser.complete
    assert not parser.keep_alive


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["not HTTP", "two lengths", "upgrade", "two answers", "bad chunk"],
)
def test_what_is_no_single_answer_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedResponse):
        ResponseParser().feed(data)


@settings(deadline=None)
@given(pieces=st.lists(st.binary(min_size=1, max_size=50), max_size=6), at=st.lists(st.integers(0, 400), max_size=8))
def test_payload_survives_any_split(pieces: list[bytes], at: list[int]) -> None:
    framed = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in pieces)
    stream = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + framed + b"0\r\n\r\n"
    points = sorted({min(i, len(stream)) for i in at} | {0, len(stream)})
    parser = ResponseParser()
    got = b""
    for a, b in itertools.pairwise(points):
        parser.feed(stream[a:b])
        got += parser.take()

    assert got == b"".join(pieces)
    assert parser.complete


@pytest.mark.parametrize(
    ("address", "expected"),
    [("1.2.3.4:80", ("1.2.3.4", 80)), ("[::1]:8000", ("::1", 8000)), ("pod-0.svc:1", ("pod-0.svc", 1))],
)
def test_an_address_is_host_and_port(address: str, expected: tuple[str, int]) -> None:
    assert split_address(address) == expected


@pytest.mark.parametrize("address", ["", "host", ":80", "host:", "host:http"])
def test_what_is_no_address_is_said_to_be_none(address: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        split_address(address)


class Now:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.value = 0.0

    def __call__(self) -> float:
        return self.value


Scenario = Callable[[UpstreamPool, Now], Awaitable[None]]


def against_pool(scenario: Scenario) -> None:
    async def main() -> None:
        now = Now()
        pool = UpstreamPool(clock=now)
        try:
            await scenario(pool, now)
        finally:
            await pool.close()

    uvloop.run(main())


async def raw_server(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> tuple[asyncio.Server, str]:
    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    return server, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


def test_connections_are_kept_and_used_again() -> None:
    async def scenario(pool: UpstreamPool, now: Now) -> None:
        ports: list[int] = []

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            ports.append(writer.get_extra_info("peername")[1])
            while await reader.readline():
                if await reader.readuntil(b"\r\n\r\n"):
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            writer.close()

        server, address = await raw_server(talk)
        for _ in range(3):
            sink = CollectingSink()
            pool.send(address, GET, sink, silence_s=5)
            await sink.wait()

            assert sink.body == b"ok"

        assert len(ports) == 1
        assert pool.idle_connections(address) == 1

        now.value = 10
        pool.sweep(10)

        assert pool.idle_connections(address) == 0

        server.close()

    against_pool(scenario)


def test_a_request_on_a_kept_connection_that_its_peer_just_closed_is_sent_again() -> None:
    async def scenario(pool: UpstreamPool, now: Now) -> None:  # noqa: ARG001 - one signature for all
        served = 0
        second = asyncio.Event()

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal served
            await reader.readuntil(b"\r\n\r\n")
            served += 1
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n%d" % served)
            await reader.read(1)  # the next request arrives, and is met by a close
            writer.close()
            second.set()

        server, address = await raw_server(talk)
        bodies: list[bytes] = []
        for _ in range(2):
            sink = CollectingSink()
            pool.send(address, GET, sink, silence_s=5)
            await sink.wait()
            bodies.append(sink.body)

        assert bodies == [b"1", b"2"]
        assert second.is_set()

        server.close()

    against_pool(scenario)


def test_a_fresh_connection_that_is_lost_before_the_answer_is_not_tried_again() -> None:
    async def scenario(pool: UpstreamPool, now: Now) -> None:  # noqa: ARG001 - one signature for all
        connections = 0

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            await reader.readuntil(b"\r\n\r\n")
            writer.close()

        server, address = await raw_server(talk)
        sink = CollectingSink()
        pool.send(address, GET, sink, silence_s=5)
        await sink.wait()

        assert sink.failure is not None
        assert sink.failure[0] is UpstreamFailure.LOST
        assert connections == 1

        server.close()

    against_pool(scenario)


def test_an_answer_that_breaks_off_is_lost() -> None:
    async def scenario(pool: UpstreamPool, now: Now) -> None:  # noqa: ARG001 - one signature for all
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n")
            writer.close()

        server, address = await raw_server(talk)
        sink = CollectingSink()
        pool.send(address, GET, sink, silence_s=5)
        await sink.wait()

        assert sink.body == b"hi"
        assert sink.failure is not None
        assert sink.failure[0] is UpstreamFailure.LOST

        server.close()

    against_pool(scenario)


def test_silence_ends_a_request_but_not_while_we_do_not_read() -> None:
    async def scenario(pool: UpstreamPool, now: Now) -> None:
        gone = asyncio.Event()

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n")
            with contextlib.suppress(ConnectionResetError):
                await reader.read()
            writer.close()
            gone.set()

        server, address = await raw_server(talk)
        sink = CollectingSink()
        call = pool.send(address, GET, sink, silence_s=5)
        while sink.body != b"hi":
            await sink.wait_for_news()
        call.pause()
        now.value = 100
        pool.sweep(100)

        assert sink.failure is None

        call.resume()
        pool.sweep(104)

        assert sink.failure is None

        pool.sweep(106)

        assert sink.failure is not None
        assert sink.failure[0] is UpstreamFailure.TIMEOUT

        await gone.wait()
        server.close()

    against_pool(scenario)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no.such.host.invalid:80", "nonsense"])
def test_no_connection_is_refused_and_told_from_the_loop(address: str) -> None:
    async def scenario(pool: UpstreamPool, now: Now) -> None:  # noqa: ARG001 - one signature for all
        sink = CollectingSink()
        pool.send(address, GET, sink, silence_s=5)

        assert sink.failure is None

        await sink.wait()

        assert sink.failure is not None
        assert sink.failure[0] is UpstreamFailure.REFUSED

    against_pool(scenario)


def test_what_does_not_speak_http_is_malformed() -> None:
    async def scenario(pool: UpstreamPool, now: Now) -> None:  # noqa: ARG001 - one signature for all
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"SSH-2.0-x\r\n")
            writer.close()

        server, address = await raw_server(talk)
        sink = CollectingSink()
        pool.send(address, GET, sink, silence_s=5)
        await sink.wait()

        assert sink.failure is not None
        assert sink.failure[0] is UpstreamFailure.MALFORMED

        server.close()

    against_pool(scenario)


def test_a_proxy_of_both_halves_cancels_upstream_when_the_client_goes() -> None:
    async def scenario(pool: UpstreamPool, now: Now) -> None:  # noqa: ARG001 - one signature for all
        cancelled = asyncio.Event()

        def engine(_: Request, exchange: Exchange) -> None:
            exchange.on_disconnect(cancelled.set)
            exchange.start(ResponseHead(200, Headers()))
            exchange.write(b"token")

        upstream = HttpServer(engine, limits=Limits())
        await upstream.start("127.0.0.1", 0)
        sink = CollectingSink()
        call = pool.send(f"127.0.0.1:{upstream.port}", GET, sink, silence_s=5)
        while sink.body != b"token":
            await sink.wait_for_news()
        call.cancel()
        await cancelled.wait()

        assert not sink.ended
        assert sink.failure is None

        upstream.close()

    against_pool(scenario)


def test_a_drain_finishes_what_runs_and_accepts_nothing_more() -> None:
    async def scenario(pool: UpstreamPool, now: Now) -> None:  # noqa: ARG001 - one signature for all
        waiting: asyncio.Queue[Exchange] = asyncio.Queue()
        server = HttpServer(lambda _, exchange: waiting.put_nowait(exchange), limits=Limits())
        await server.start("127.0.0.1", 0)
        address = f"127.0.0.1:{server.port}"
        running, late = CollectingSink(), CollectingSink()
        pool.send(address, GET, running, silence_s=5)
        exchange = await waiting.get()
        drain = asyncio.create_task(server.drain(30))
        await asyncio.sleep(0)
        pool.send(address, GET, late, silence_s=5)
        await late.wait()
        exchange.respond(Response(200, body=b"done"))
        await running.wait()

        assert await drain == 0
        assert running.body == b"done"
        assert late.failure is not None
        assert late.failure[0] is UpstreamFailure.REFUSED

    against_pool(scenario)


def test_a_drain_that_is_cancelled_as_its_last_connection_ends_is_cancelled() -> None:
    async def scenario(pool: UpstreamPool, now: Now) -> None:  # noqa: ARG001 - one signature for all
        waiting: asyncio.Queue[Exchange] = asyncio.Queue()
        server = HttpServer(lambda _, exchange: waiting.put_nowait(exchange), limits=Limits())
        await server.start("127.0.0.1", 0)
        running = CollectingSink()
        pool.send(f"127.0.0.1:{server.port}", GET, running, silence_s=5)
        await waiting.get()
        drain = asyncio.create_task(server.drain(30))
        await asyncio.sleep(0)
        for connection in list(server.connections):
            server.closed(connection)
        drain.cancel()
        with pytest.raises(asyncio.CancelledError):
            await drain
        server.close()

    against_pool(scenario)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_megabyte_goes_both_ways_on_either_loop(run: Callable[[Awaitable[None]], None]) -> None:
    async def main() -> None:
        server = HttpServer(
            lambda request, exchange: exchange.respond(Response(200, body=request.body)), limits=Limits()
        )
        await server.start("127.0.0.1", 0)
        pool = UpstreamPool()
        body = bytes(range(256)) * 4096
        sink = CollectingSink()
        pool.send(f"127.0.0.1:{server.port}", Request(b"POST", b"/", body=body), sink, silence_s=5)
        await sink.wait()
        await pool.close()
        await server.drain(1)

        assert sink.body == body

    run(main())
