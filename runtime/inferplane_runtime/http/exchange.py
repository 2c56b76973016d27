"""One request's way back to its client: framing of the answer, and news of the client.

Invariant: a client never takes a truncated answer for a whole one.  What began and cannot be completed (a body shorter
than its content-length, an upstream that broke off) resets the connection.
"""

from collections.abc import Callable
from typing import Protocol

from inferplane_runtime.http.api import Response, ResponseHead
from inferplane_runtime.http.encoding import LAST_CHUNK, allows_body, encode_chunk, encode_response_head

_JOIN_BELOW = 64 * 1024
"""Bodies below this are joined with their head: one buffer, one segment."""


class _Transport(Protocol):
    def write(self, data: bytes, /) -> None: ...


class _Connection(Protocol):
    @property
    def transport(self) -> _Transport: ...

    @property
    def draining(self) -> bool: ...

    def finished(self, *, keep_alive: bool) -> None: ...

    def abort(self) -> None: ...


class ServerExchange:
    """The server's `Exchange`."""

    __slots__ = (
        "_chunked",
        "_connection",
        "_gone",
        "_head_only",
        "_keep_alive",
        "_left",
        "_pressure",
        "_version",
        "closed",
        "started",
        "under_pressure",
    )

    def __init__(self, connection: _Connection, *, keep_alive: bool, version: str, head_only: bool) -> None:
        self.started = False
        self.closed = False
        self.under_pressure = False
        self._connection = connection
        self._keep_alive = keep_alive
        self._version = version
        self._head_only = head_only
        self._chunked = False
        self._left: int | None = None
        self._gone: Callable[[], None] | None = None
        self._pressure: Callable[[bool], None] | None = None

    def respond(self, response: Response) -> None:
        """Send a complete answer."""
        if self.closed:
            return
        self._begin()
        body = b"" if self._head_only or not allows_body(response.status) else response.body
        length = b"content-length: %d\r\n" % len(response.body) if allows_body(response.status) else b""
        head = encode_response_head(response.status, response.headers.pairs, length + self._connection_line())
        self.started = True
        write = self._connection.transport.write
        if len(body) < _JOIN_BELOW:
            write(head + body)
        else:
            write(head)
            write(body)
        self._finish()

    def start(self, head: ResponseHead, data: bytes = b"") -> None:
        """Begin a streamed answer, with its first piece where there is one already."""
        if self.closed:
            return
        self._begin()
        length = head.headers.get(b"content-length")
        if not allows_body(head.status):
            framing, self._left = b"", 0
        elif length is not None:
            framing, self._left = b"content-length: %d\r\n" % int(length), int(length)
        elif self._version == "1.0":
            framing, self._keep_alive = b"", False  # the end of the connection is the end of the body
        else:
            framing, self._chunked = b"transfer-encoding: chunked\r\n", True
        if self._head_only:
            self._left = 0
        encoded = encode_response_head(head.status, head.headers.pairs, framing + self._connection_line())
        self.started = True
        if data and len(data) < _JOIN_BELOW:
            self._send(data, before=encoded)
        else:
            self._connection.transport.write(encoded)
            self.write(data)

    def write(self, data: bytes) -> None:
        """Send a piece of the body."""
        if not data or self.closed:
            return
        if not self.started:
            raise RuntimeError("write before start")
        self._send(data)

    def end(self) -> None:
        """Complete a streamed answer."""
        if self.closed:
            return
        if not self.started:
            raise RuntimeError("end before start")
        if self._left:
            self.abort()
            return
        if self._chunked and not self._head_only:
            self._connection.transport.write(LAST_CHUNK)
        self._finish()

    def abort(self) -> None:
        """Reset the connection."""
        if not self.closed:
            self.closed = True
            self._forget()
            self._connection.abort()

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """Call back when the client goes before the answer is complete (at once if it has)."""
        if self.closed:
            callback()
        else:
            self._gone = callback

    def on_pressure(self, callback: Callable[[bool], None]) -> None:
        """Call back when the client falls behind and when it has caught up."""
        self._pressure = callback

    # Called by the connection.

    def client_gone(self) -> None:
        if self.closed:
            return
        self.closed = True
        gone = self._gone
        self._forget()
        if gone is not None:
            gone()

    def pressed(self, *, on: bool) -> None:
        self.under_pressure = on
        if self._pressure is not None and not self.closed:
            self._pressure(on)

    # Inside.

    def _send(self, data: bytes, before: bytes = b"") -> None:
        if self._head_only:
            data = b""
        elif self._chunked:
            data = encode_chunk(data)
        elif self._left is not None:
            self._left -= len(data)
            if self._left < 0:  # what exceeds the length would be read as the next answer
                self.abort()
                return
        if before or data:
            self._connection.transport.write(before + data)

    def _begin(self) -> None:
        if self.started:
            raise RuntimeError("the answer has begun already")
        if self._connection.draining:
            self._keep_alive = False

    def _connection_line(self) -> bytes:
        if not self._keep_alive:
            return b"connection: close\r\n"
        return b"connection: keep-alive\r\n" if self._version == "1.0" else b""

    def _finish(self) -> None:
        self.closed = True
        self._forget()
        self._connection.finished(keep_alive=self._keep_alive)

    def _forget(self) -> None:
        self._gone = None
        self._pressure = None
