"""Answers out of a byte stream, sans I/O.

Invariant: payload comes out exactly as it was framed in, once; an answer counts as complete only when its framing says
so (or, without framing, when its peer has closed).  Anything after a complete answer is an error, since requests are
not pipelined.
"""

import httptools

from inferplane_runtime.http.api import Headers, ResponseHead
from inferplane_runtime.http.encoding import allows_body

_MAX_HEAD_BYTES = 256 * 1024
_OK = 200


class MalformedResponse(Exception):  # noqa: N818 - says what arrived
    """The peer does not speak HTTP, or not about this request."""


class ResponseParser:
    """Call `begin` for each request, `feed` what arrives, then look at `head`, `take()` and `complete`."""

    __slots__ = (
        "_head_bytes",
        "_head_only",
        "_pairs",
        "_parser",
        "_pieces",
        "complete",
        "head",
        "keep_alive",
        "until_close",
    )

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self.begin(head_only=False)

    def begin(self, *, head_only: bool) -> None:
        """Expect the answer to one request (`head_only`: to HEAD)."""
        self.head: ResponseHead | None = None
        self.complete = False
        self.keep_alive = False
        self.until_close = False
        self._head_only = head_only
        self._head_bytes = 0
        self._pairs: list[tuple[bytes, bytes]] = []

    def feed(self, data: bytes) -> None:
        """Take in bytes; raises `MalformedResponse`."""
        if self.complete:
            raise MalformedResponse("bytes after the end of the answer")
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise MalformedResponse("the peer switched protocols") from None
        except httptools.HttpParserError as error:
            if not (self.complete and self._head_only):
                raise MalformedResponse(str(error) or type(error).__name__) from None
        if self.head is None:
            self._head_bytes += len(data)
            if self._head_bytes > _MAX_HEAD_BYTES:
                raise MalformedResponse("the head of the answer is too large")

    def eof(self) -> bool:
        """Take note that the peer closed; return whether that completes the answer."""
        if self.head is not None and self.until_close:
            self.complete = True
        return self.complete

    def take(self) -> bytes:
        """Return the payload that arrived since the last call."""
        pieces = self._pieces
        if not pieces:
            return b""
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        return data

    # Called by llhttp.

    def on_message_begin(self) -> None:
        if self.complete:
            raise MalformedResponse("a second answer to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.head is None:
            self._pairs.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        pairs, self._pairs = tuple(self._pairs), []
        if status < _OK:
            return  # interim: the real one follows
        names = [name for name, _ in pairs]
        self.head = ResponseHead(status, Headers(pairs))
        self.until_close = allows_body(status) and b"content-length" not in names and b"transfer-encoding" not in names
        self.keep_alive = self._parser.should_keep_alive() and not self.until_close
        if self._head_only:
            self.complete, self.keep_alive, self.until_close = True, False, False

    def on_body(self, data: bytes) -> None:
        if not self._head_only:
            self._pieces.append(data)

    def on_message_complete(self) -> None:
        if self.head is not None:
            self.complete = True
