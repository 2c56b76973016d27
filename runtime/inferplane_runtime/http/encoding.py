"""Heads and chunks as bytes.

A proxy copies header fields from one peer to another, so this is where a field that belongs to one connection only
(hop by hop) must be left behind and where a value with a line break must never pass: it would start a new field.
Invariant: the bytes returned contain exactly one line a field, and the framing is the caller's, never the fields'.
"""

from collections.abc import Iterable
from http import HTTPStatus

HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    )
)
_FRAMING = HOP_BY_HOP | {b"content-length"}
_REQUEST_OWN = _FRAMING | {b"host", b"expect"}
_STATUS_LINES = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in HTTPStatus}
_NO_CONTENT = frozenset((HTTPStatus.NO_CONTENT.value, HTTPStatus.NOT_MODIFIED.value))
_FIRST_FINAL = HTTPStatus.OK.value
_WITHOUT_BODY = frozenset((b"GET", b"HEAD", b"DELETE", b"OPTIONS"))
_COLON = b": "
_LINE_END = b"\r\n"
LAST_CHUNK = b"0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

Pairs = Iterable[tuple[bytes, bytes]]


def encode_response_head(status: int, pairs: Pairs, framing: bytes) -> bytes:
    """Build a head; `framing` is complete lines, each ended by CR LF."""
    line = _STATUS_LINES.get(status) or b"HTTP/1.1 %d Unknown\r\n" % status
    return _checked(line, [_COLON.join(pair) for pair in pairs if pair[0] not in _FRAMING], framing)


def encode_request_head(method: bytes, target: bytes, host: bytes, pairs: Pairs, body_length: int) -> bytes:
    """Build a request's head for the connection to `host`."""
    fields = [_COLON.join(pair) for pair in pairs if pair[0] not in _REQUEST_OWN]
    framing = b"" if not body_length and method in _WITHOUT_BODY else b"content-length: %d\r\n" % body_length
    return _checked(b"%b %b HTTP/1.1\r\nhost: %b\r\n" % (method, target, host), fields, framing)


def _checked(line: bytes, fields: list[bytes], framing: bytes) -> bytes:
    head = line + _LINE_END.join([*fields, framing + _LINE_END])
    # Counting line ends sees every injected CR or LF at the cost of two scans.
    ends = line.count(b"\r\n") + len(fields) + framing.count(b"\r\n") + 1
    if head.count(b"\n") != ends or head.count(b"\r") != ends or b"\0" in head:
        raise ValueError("a header field contains a line break or NUL")
    return head


def encode_chunk(data: bytes) -> bytes:
    """Frame one piece of a chunked body; `data` must not be empty, since an empty chunk ends the body."""
    if not data:
        raise ValueError("an empty chunk would end the body")
    return b"%x\r\n%b\r\n" % (len(data), data)


def allows_body(status: int) -> bool:
    return status >= _FIRST_FINAL and status not in _NO_CONTENT
