"""What is read at a glance, because all of it is there, must be what llhttp makes of the same bytes."""

from hypothesis import example, given
from hypothesis import strategies as st

from inferplane_runtime.http.api import Limits
from inferplane_runtime.http.request_parser import Incoming, ReadPhase, RequestParser
from inferplane_runtime.http.whole_request import whole_request

LIMITS = Limits(max_body_bytes=60, max_header_bytes=300)
LINES = (
    b"POST /v1/x HTTP/1.1",
    b"GET /v1/x HTTP/1.1",
    b"POST /v1/x?a=b HTTP/1.1",
    b"POST /a#b HTTP/1.1",
    b"POST / HTTP/1.0",
)
FIELDS = (
    b"host: a", b"Host: b", b"content-length: 2", b"Content-Length: 2 ", b"content-length: 02", b"content-length: +2",
    b"content-length: 3", b"transfer-encoding: chunked", b"connection: keep-alive", b"connection: close",
    b"Connection: Keep-Alive", b"proxy-connection: close", b"upgrade: h2c", b"expect: 100-continue", b"keep-alive: 5",
    b"te: trailers", b"x: a b", b"x:a", b"x : a", b" x: a", b"x: ", b"x:", b": x", b"x: a: b", b"x(: a", b"x: \xc3\xa9",
    b"x: a\tb", b"x: a\rb", b"x: a\nb", b"x: a\0b", b"accept: */*", b"x-long: " + b"y" * 120,
)  # fmt: skip
BODIES = (b"", b"h", b"hi", b"hi!", b"hiGET / HTTP/1.1\r\n\r\n", b"h" * 61)

messages = st.tuples(
    st.sampled_from(LINES), st.lists(st.sampled_from(FIELDS), max_size=6), st.sampled_from(BODIES)
).map(lambda parts: b"\r\n".join((parts[0], *parts[1], b"", parts[2])))
plain = st.tuples(st.permutations((b"host: a", b"content-length: 2")), st.sampled_from(FIELDS), st.integers(0, 2)).map(
    lambda parts: b"\r\n".join((LINES[0], *parts[0][: parts[2]], parts[1], *parts[0][parts[2] :], b"", b"hi"))
)


@given(st.one_of(messages, plain))
@example(b"POST /v1/x HTTP/1.1\r\nhost: a\r\nproxy-connection: close\r\ncontent-length: 2\r\n\r\nhi")
def test_one_read_gives_what_two_give(data: bytes) -> None:
    request = whole_request(data, LIMITS)
    if request is None:
        return
    parser = RequestParser(LIMITS)
    parser.feed(data[:1])
    parser.feed(data[1:])

    assert list(parser.ready) == [Incoming(request, keep_alive=True, version="1.1")]
    assert (parser.rejection, parser.phase) == (None, ReadPhase.IDLE)


def test_what_clients_send_is_taken_at_a_glance() -> None:
    data = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: a:8000\r\nAccept-Encoding: gzip\r\nConnection: keep-alive\r\n"
        b"Authorization: Bearer x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    )
    request = whole_request(data, Limits())

    assert request is not None
    assert (request.path, request.body) == (b"/v1/chat/completions", b"{}")
    assert request.headers.get(b"authorization") == b"Bearer x"


def test_a_request_at_a_glance_may_follow_one_in_pieces() -> None:
    data = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi"
    parser = RequestParser(LIMITS)
    for piece in (data, data[:20], data[20:], data, data[:-1], data[-1:]):
        parser.feed(piece)

    assert [incoming.request.body for incoming in parser.ready] == [b"hi"] * 4
    assert parser.rejection is None
