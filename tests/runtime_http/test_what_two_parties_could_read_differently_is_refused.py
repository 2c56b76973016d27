"""Every malformed or ambiguous request gets the status that says so, however its bytes are split."""

import itertools

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_runtime.http.api import Exchange, Limits, Request, Response
from inferplane_runtime.http.request_parser import RequestParser
from inferplane_runtime.http.server import HttpServer, ServerConnection
from inferplane_runtime.http.testing import MemoryTransport

LIMITS = Limits(max_body_bytes=100, max_header_bytes=2000)
HOST = b"Host: a\r\n"
POST = b"POST / HTTP/1.1\r\n" + HOST
GET = b"GET / HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

REFUSED: dict[str, tuple[bytes, int]] = {
    "content-length twice, equal": (POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi", 400),
    "content-length twice, different": (POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi", 400),
    "content-length as a list": (POST + b"Content-Length: 2, 2\r\n\r\nhi", 400),
    "content-length with a sign": (POST + b"Content-Length: +2\r\n\r\nhi", 400),
    "content-length with a space inside": (POST + b"Content-Length: 2 2\r\n\r\nhi", 400),
    "content-length beyond 64 bits": (POST + b"Content-Length: 99999999999999999999999\r\n\r\n", 400),
    "content-length empty": (POST + b"Content-Length: \r\n\r\n", 400),
    "content-length, then transfer-encoding": (
        POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "transfer-encoding, then content-length": (
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
        400,
    ),
    "content-length in the trailers": (CHUNKED + b"2\r\nhi\r\n0\r\nContent-Length: 5\r\n\r\n", 400),
    "transfer-encoding unknown": (POST + b"Transfer-Encoding: gzip\r\n\r\n", 501),
    "transfer-encoding a list": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
    "transfer-encoding nearly chunked": (POST + b"Transfer-Encoding: xchunked\r\n\r\n", 501),
    "transfer-encoding twice": (POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    "transfer-encoding behind a vertical tab": (POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n", 400),
    "transfer-encoding in HTTP/1.0": (
        b"POST / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "chunk size not a number": (CHUNKED + b"zz\r\nhi\r\n0\r\n\r\n", 400),
    "chunk size negative": (CHUNKED + b"-1\r\nhi\r\n0\r\n\r\n", 400),
    "chunk size with 0x": (CHUNKED + b"0x2\r\nhi\r\n0\r\n\r\n", 400),
    "chunk size beyond 64 bits": (CHUNKED + b"fffffffffffffffff\r\nhi\r\n0\r\n\r\n", 400),
    "chunk size ended by LF alone": (CHUNKED + b"2\nhi\r\n0\r\n\r\n", 400),
    "chunk size with a space": (CHUNKED + b"2 \r\nhi\r\n0\r\n\r\n", 400),
    "chunk longer than its size": (CHUNKED + b"2\r\nhiX\r\n0\r\n\r\n", 400),
    "folded header": (GET + b"X: a\r\n b\r\n\r\n", 400),
    "folded empty header": (GET + b"X:\r\n b\r\n\r\n", 400),
    "space before the colon": (GET + b"X : a\r\n\r\n", 400),
    "space before the first header": (b"GET / HTTP/1.1\r\n X: a\r\n" + HOST + b"\r\n", 400),
    "header name with a bracket": (GET + b"X(: a\r\n\r\n", 400),
    "header name empty": (GET + b": a\r\n\r\n", 400),
    "NUL in a value": (GET + b"X: a\0b\r\n\r\n", 400),
    "CR in a value": (GET + b"X: a\rb\r\n\r\n", 400),
    "LF in a value": (GET + b"X: a\nY: b\r\n\r\n", 400),
    "DEL in a value": (GET + b"X: a\x7fb\r\n\r\n", 400),
    "lines ended by LF alone": (b"GET / HTTP/1.1\nHost: a\n\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (GET + HOST + b"\r\n", 400),
    "HTTP/0.9": (b"GET /\r\n\r\n", 505),
    "HTTP/2.0": (b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 505),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00", 400),
    "unknown method": (b"FOO / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "lower-case method": (b"get / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "CONNECT": (b"CONNECT h:1 HTTP/1.1\r\n" + HOST + b"\r\n", 405),
    "fragment in the target": (b"GET /a#b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "byte beyond ASCII in the target": (b"GET /\xff HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "space in the target": (b"GET /a b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "target that is no path": (b"GET a HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "body announced too large": (POST + b"Content-Length: 101\r\n\r\n", 413),
    "body too large in chunks": (CHUNKED + b"65\r\n" + b"a" * 101 + b"\r\n0\r\n\r\n", 413),
    "huge header value": (GET + b"X: " + b"a" * 3000 + b"\r\n\r\n", 431),
    "huge header name": (GET + b"X" * 3000 + b": a\r\n\r\n", 431),
    "huge target": (b"GET /" + b"a" * 3000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 431),
    "too many headers": (GET + b"a:b\r\n" * 300 + b"\r\n", 431),
    "huge trailers": (CHUNKED + b"0\r\n" + b"a: b\r\n" * 1000 + b"\r\n", 431),
    "unknown expectation": (POST + b"Expect: x\r\nContent-Length: 2\r\n\r\n", 417),
}

ACCEPTED: dict[str, tuple[bytes, list[tuple[bytes, bytes, bytes]]]] = {
    "plain": (b"POST /x?y HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\n\r\nhi", [(b"/x", b"y", b"hi")]),
    "empty lines before": (b"\r\n\r\n" + GET + b"\r\n", [(b"/", b"", b"")]),
    "absolute target": (b"GET http://h/p?q HTTP/1.1\r\n" + HOST + b"\r\n", [(b"/p", b"q", b"")]),
    "absolute target without path": (b"GET http://h HTTP/1.1\r\n" + HOST + b"\r\n", [(b"/", b"", b"")]),
    "chunked": (CHUNKED + b"2\r\nhi\r\n1;ext=1\r\n!\r\n0\r\nX: trailer\r\n\r\n", [(b"/", b"", b"hi!")]),
    "upgrade declined, body kept": (
        POST + b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nContent-Length: 2\r\n\r\nhi" + GET + b"\r\n",
        [(b"/", b"", b"hi"), (b"/", b"", b"")],
    ),
    "upgrade declined, chunks kept": (
        POST + b"Upgrade: h2c\r\nConnection: Upgrade\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        [(b"/", b"", b"hi")],
    ),
    "upgrade declined, close kept": (
        POST + b"Upgrade: h2c\r\nConnection: Upgrade, close\r\nContent-Length: 2\r\n\r\nhi" + GET + b"\r\n",
        [(b"/", b"", b"hi")],
    ),
    "pipelined": ((GET + b"\r\n") * 3, [(b"/", b"", b"")] * 3),
    "nothing after close": (GET + b"Connection: close\r\n\r\n" + GET + b"\r\n", [(b"/", b"", b"")]),
    "HTTP/1.0 without host": (b"GET / HTTP/1.0\r\n\r\n", [(b"/", b"", b"")]),
}


def parsed(pieces: list[bytes]) -> tuple[list[tuple[bytes, bytes, bytes]], int | None]:
    parser = RequestParser(LIMITS)
    for piece in pieces:
        parser.feed(piece)
    requests = [(i.request.path, i.request.query, i.request.body) for i in parser.ready]
    return requests, parser.rejection.status if parser.rejection else None


def cut(data: bytes, at: list[int]) -> list[bytes]:
    points = sorted({min(i, len(data)) for i in at} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(points)]


def served(data: bytes) -> bytes:
    def handler(request: Request, exchange: Exchange) -> None:
        exchange.respond(Response(200, body=request.body))

    server = HttpServer(handler, limits=LIMITS, clock=lambda: 0.0)
    connection = ServerConnection(server)
    transport = MemoryTransport(connection)
    connection.data_received(data)
    return bytes(transport.written)


@pytest.mark.parametrize(("data", "status"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_request_is_answered_with_its_status_and_an_error_object(data: bytes, status: int) -> None:
    head, _, body = served(data).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nconnection: close" in head
    assert orjson.loads(body)["error"]["code"] == status


@pytest.mark.parametrize(("data", "status"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_request_is_refused_byte_by_byte_too(data: bytes, status: int) -> None:
    requests, refused = parsed([data[i : i + 1] for i in range(len(data))])

    assert refused == status
    assert requests == []


@pytest.mark.parametrize(("data", "expected"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_an_unusual_but_legal_request_is_read(data: bytes, expected: list[tuple[bytes, bytes, bytes]]) -> None:
    assert parsed([data]) == (expected, None)
    assert parsed([data[i : i + 1] for i in range(len(data))]) == (expected, None)


STREAMS = st.lists(
    st.sampled_from([case[0] for case in (*ACCEPTED.values(), *REFUSED.values())]), min_size=1, max_size=4
)


@settings(deadline=None)
@given(stream=STREAMS, at=st.lists(st.integers(0, 4000), max_size=12))
def test_how_a_stream_is_split_changes_nothing(stream: list[bytes], at: list[int]) -> None:
    data = b"".join(stream)

    assert parsed(cut(data, at)) == parsed([data])


def test_a_declined_upgrade_hides_no_refusal_that_follows_it() -> None:
    upgrade = b"POST / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 2\r\n\r\nhi"

    requests, refused = parsed([upgrade + b"GET /\r\n\r\n"])

    assert [body for _, _, body in requests] == [b"hi"]
    assert refused == 505


@settings(deadline=None)
@given(data=st.binary(max_size=400), prefix=st.sampled_from([b"", GET, CHUNKED, POST + b"Content-Length: 5\r\n\r\n"]))
def test_no_bytes_at_all_raise(data: bytes, prefix: bytes) -> None:
    parser = RequestParser(LIMITS)
    parser.feed(prefix + data)
    parser.eof()

    assert parser.rejection is None or 400 <= parser.rejection.status < 600
