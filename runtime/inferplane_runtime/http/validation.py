"""What a request's head must satisfy before anything acts on it.

The parser below this (llhttp) refuses malformed bytes.  Here stand the rules that need the whole head: which framing
applies, which target form, exactly one host.  Wherever two parties could read a message differently it is refused:
an intermediary that is generous becomes the tool of request smuggling.
Invariant: a head that passes has one framing, and `content-length` and `transfer-encoding` never stand together.
"""

import re

from inferplane_runtime.http.errors import HttpReject
from inferplane_runtime.values import value

_TARGET = re.compile(rb"[!-~]+")
_DIGITS = re.compile(rb"[0-9]{1,18}")
_ABSOLUTE = re.compile(rb"https?://[^/?#]+", re.IGNORECASE)
MAX_FIELDS = 256
"""Header fields in one head; real clients send a tenth of that."""


@value(frozen=True, slots=True)
class Framing:
    """How a request is to be read, from its head alone."""

    path: bytes
    query: bytes
    content_length: int | None
    chunked: bool
    expects_continue: bool


def check_head(method: bytes, target: bytes, version: str, pairs: list[tuple[bytes, bytes]]) -> Framing:
    """Return the framing of a request, or raise `HttpReject` with the status that says what is wrong."""
    if version not in ("1.1", "1.0"):
        raise HttpReject(505, f"HTTP version {version} is not supported: use HTTP/1.1")
    if len(pairs) > MAX_FIELDS:
        raise HttpReject(431, f"more than {MAX_FIELDS} header fields")
    path, query = split_target(method, target)
    hosts = 0
    lengths: list[bytes] = []
    codings: list[bytes] = []
    expects = b""
    for name, given in pairs:
        if name == b"host":
            hosts += 1
        elif name == b"content-length":
            lengths.append(given)
        elif name == b"transfer-encoding":
            codings.append(given)
        elif name == b"expect":
            expects = given.lower()
    if hosts > 1 or (hosts == 0 and version == "1.1"):
        raise HttpReject(400, "exactly one host header is required")
    if expects and expects != b"100-continue":
        raise HttpReject(417, "the only expectation that can be met is 100-continue")
    chunked = _check_codings(codings, lengths, version)
    return Framing(path, query, _check_length(lengths), chunked, bool(expects) and version == "1.1")


def split_target(method: bytes, target: bytes) -> tuple[bytes, bytes]:
    """Split a request target (origin or absolute form) into path and query."""
    if method == b"CONNECT":
        raise HttpReject(405, "CONNECT is not supported")
    if not _TARGET.fullmatch(target) or b"#" in target:
        raise HttpReject(400, "invalid request target")
    if target[:1] != b"/":
        absolute = _ABSOLUTE.match(target)
        if absolute is None:
            if target == b"*" and method == b"OPTIONS":
                return target, b""
            raise HttpReject(400, "invalid request target: it must begin with / or http://")
        target = target[absolute.end() :]
        if target[:1] != b"/":
            target = b"/" + target
    path, _, query = target.partition(b"?")
    return path, query


def _check_length(lengths: list[bytes]) -> int | None:
    if not lengths:
        return None
    if len(lengths) > 1:
        raise HttpReject(400, "more than one content-length")
    if not _DIGITS.fullmatch(lengths[0]):
        raise HttpReject(400, "invalid content-length")
    return int(lengths[0])


def _check_codings(codings: list[bytes], lengths: list[bytes], version: str) -> bool:
    if not codings:
        return False
    if lengths:
        raise HttpReject(400, "content-length and transfer-encoding exclude each other")
    if version == "1.0":
        raise HttpReject(400, "transfer-encoding does not exist in HTTP/1.0")
    if len(codings) > 1 or codings[0].lower() != b"chunked":
        raise HttpReject(501, "the only transfer-encoding that is supported is chunked")
    return True
