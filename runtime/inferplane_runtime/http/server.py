"""An HTTP/1.1 server whose handlers are plain calls: no task, future or queue per request.

Problem: at thousands of streams the cost of a Python server is its machinery per request and per chunk.
Idea: one protocol object a connection, one exchange a request, and everything is a direct call in the loop's thread.
Deadlines are one number per connection, looked at by one timer for all of them.
Trade-off: handlers must not block, and a client that half-closes counts as gone (it cannot be told from one that left).
Invariant: answers leave in the order of their requests; an answer that began either ends whole or resets.
"""

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, cast

import structlog

from inferplane_runtime.certificates import ServedCertificate
from inferplane_runtime.http.api import Handler, Limits, Request, Response
from inferplane_runtime.http.encoding import CONTINUE, encode_response_head
from inferplane_runtime.http.errors import json_error
from inferplane_runtime.http.exchange import ServerExchange
from inferplane_runtime.http.request_parser import ReadPhase, RequestParser

_TICK_S = 0.25
_BACKLOG = 1024
_LINGER_S = 5.0
_LINGER_BYTES = 256 * 1024 * 1024
_NEVER = float("inf")
_NOT_WATCHED = -1
_log = structlog.get_logger("inferplane.http")


class ServerMetrics(Protocol):
    """What a server counts."""

    def connection_opened(self) -> None: ...

    def connection_closed(self) -> None: ...

    def rejected(self, status: int, /) -> None:
        """Count a message refused before any handler saw it."""
        ...


class HttpServer:
    """Serves `handler` on any number of sockets."""

    def __init__(
        self,
        handler: Handler,
        *,
        limits: Limits,
        metrics: ServerMetrics | None = None,
        certificate: ServedCertificate | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.now = clock
        self.handler = handler
        self.limits = limits
        self.metrics = metrics
        self.draining = False
        self.over = False
        self.connections: set[ServerConnection] = set()
        self._certificate = certificate
        self._servers: list[asyncio.Server] = []
        self._empty = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        """The port of the first socket."""
        return int(self._servers[0].sockets[0].getsockname()[1])

    async def start(self, host: str, port: int, *, reuse_port: bool = False) -> None:
        loop = asyncio.get_running_loop()
        self._listening(
            await loop.create_server(
                self._accept, host, port, backlog=_BACKLOG, reuse_port=reuse_port or None, **self._tls()
            )
        )

    async def start_sock(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._listening(await loop.create_server(self._accept, sock=sock, backlog=_BACKLOG, **self._tls()))

    def _listening(self, server: asyncio.Server) -> None:
        self._servers.append(server)
        if self._timer is None:
            self._tick()

    def _tls(self) -> dict[str, Any]:
        """Return what makes the loop speak TLS; a handshake has as much time as a head."""
        if self._certificate is None:
            return {}
        return {"ssl": self._certificate.context, "ssl_handshake_timeout": self.limits.header_timeout_s}

    def _accept(self) -> "ServerConnection":
        if self._certificate is not None:
            self._certificate.renew()
        return ServerConnection(self)

    def _tick(self) -> None:
        self.sweep(self.now())
        self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._tick)

    def sweep(self, now: float) -> None:
        """Act on every deadline that has passed."""
        for connection in [c for c in self.connections if c.deadline <= now]:
            connection.expired()

    def closed(self, connection: "ServerConnection") -> None:
        self.connections.discard(connection)
        if self.metrics:
            self.metrics.connection_closed()
        if not self.connections:
            self._empty.set()

    async def drain(self, deadline_s: float, *, lame_duck_s: float = 0.0) -> int:
        """Finish what runs and accept nothing more; return how many connections had to be reset.

        For `lame_duck_s` new connections are still served, each answer saying `connection: close`, so that those who
        have not yet heard of the drain lose nothing.  A connection without any request gets `header_timeout_s` more.
        """
        self.draining = True
        if lame_duck_s > 0:
            await asyncio.sleep(lame_duck_s)
        self._stop_listening()
        for connection in list(self.connections):
            connection.close_if_idle()
        if self.connections:
            self._empty.clear()
            # Not wait_for: in Python 3.11 it swallows a cancellation that comes with the last connection's end.
            with suppress(TimeoutError):
                async with asyncio.timeout(deadline_s):
                    await self._empty.wait()
        left = sum(connection.busy for connection in self.connections)
        self.close()
        return left

    def close(self) -> None:
        """Reset whatever is left, and what was accepted and is not yet made, and stop."""
        self.draining = self.over = True
        self._stop_listening()
        for connection in list(self.connections):
            connection.abort()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_listening(self) -> None:
        for server in self._servers:
            server.close()


class ServerConnection(asyncio.Protocol):
    """One client connection: reads requests, hands them over one at a time."""

    __slots__ = (
        "_advancing",
        "_awaited",
        "_body_began",
        "_body_bytes",
        "_current",
        "_lingered",
        "_lingering",
        "_parser",
        "_reading",
        "_served",
        "_unsent",
        "deadline",
        "server",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, server: HttpServer) -> None:
        self.server = server
        self.deadline = _NEVER
        self._parser = RequestParser(server.limits)
        self._current: ServerExchange | None = None
        self._advancing = False
        self._awaited = ReadPhase.IDLE
        self._reading = True
        self._served = False
        self._lingering = False
        self._lingered = 0
        self._body_began, self._body_bytes = 0.0, 0
        self._unsent = _NOT_WATCHED

    # Called by the loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        server = self.server
        full = len(server.connections) >= server.limits.max_connections
        server.connections.add(self)
        if server.metrics:
            server.metrics.connection_opened()
        self.transport.set_write_buffer_limits(high=server.limits.high_water_bytes)
        self.deadline = server.now() + server.limits.idle_timeout_s
        if full:
            self._reject(json_error(503, "too many connections", headers=((b"retry-after", b"1"),)))
        elif server.draining:
            self.close_if_idle()
        if server.over:  # accepted before, made only now
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._lingering:
            self._discard(len(data))
            return
        parser = self._parser
        self._body_bytes += len(data)
        parser.feed(data)
        if self._current is None:
            self._advance()
        elif parser.ready or parser.rejection is not None:
            self._pause_reading()

    def eof_received(self) -> None:
        self._parser.eof()
        if self._current is None and not self._lingering:
            self._advance()
        # Returning None closes the transport once what was written has left.

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's signature
        self.deadline = _NEVER
        self.server.closed(self)
        current, self._current = self._current, None
        if current is not None:
            current.client_gone()

    def pause_writing(self) -> None:
        self._watch()
        if self._current is not None:
            self._current.pressed(on=True)

    def resume_writing(self) -> None:
        if self._unsent != _NOT_WATCHED:
            self._unsent, self.deadline = _NOT_WATCHED, _NEVER
        if self._current is not None:
            self._current.pressed(on=False)
        elif not self._lingering and not self.transport.is_closing():
            self._advance()

    # Called by the exchange and the server.

    @property
    def busy(self) -> bool:
        """A request is being answered or received."""
        return self._current is not None or self._parser.phase in (ReadPhase.HEAD, ReadPhase.BODY)

    def finished(self, *, keep_alive: bool) -> None:
        """Go on after a complete answer."""
        self._current = None
        if not keep_alive:
            self._close_gracefully()
        elif not self._advancing:
            self._advance()

    @property
    def draining(self) -> bool:
        return self.server.draining

    def abort(self) -> None:
        self.transport.abort()

    def close_if_idle(self) -> None:
        """Close a connection that waits for nothing.

        A new one waits for its first request: who has just been let in is busy writing it, and is given a head's time.
        """
        if self._current is not None or self._parser.phase is not ReadPhase.IDLE or self._parser.ready:
            return
        if self._served:
            self.transport.close()
        else:
            self.deadline = min(self.deadline, self.server.now() + self.server.limits.header_timeout_s)

    def expired(self) -> None:
        if self._unsent != _NOT_WATCHED:
            self._look_at_unsent()
            return
        if self._lingering or self._parser.phase is ReadPhase.IDLE:
            self.deadline = _NEVER
            self.transport.abort() if self._lingering else self._close()
            return
        self._parser.expired()
        self._advance()

    # Inside.

    def _watch(self) -> None:
        """See to it that the client takes what waits for it."""
        self._unsent = self.transport.get_write_buffer_size()
        self.deadline = self.server.now() + self.server.limits.stall_timeout_s

    def _look_at_unsent(self) -> None:
        if 0 < self._unsent <= self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self._watch()

    def _close(self) -> None:
        """Close when all that was written has left, or the client takes no more of it."""
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._watch()

    def _advance(self) -> None:
        """Serve what has been read, one request after the other."""
        parser, transport = self._parser, self.transport
        self._advancing = True
        try:
            while self._current is None and not transport.is_closing() and not self._lingering:
                if parser.ready:
                    self._serve()
                elif parser.rejection is not None:
                    rejection = parser.rejection
                    self._reject(json_error(rejection.status, rejection.message))
                else:
                    self._await_bytes()
                    return
        finally:
            self._advancing = False

    def _serve(self) -> None:
        incoming = self._parser.ready.popleft()
        self._served = True
        self.deadline = _NEVER
        self._awaited = ReadPhase.IDLE
        request = incoming.request
        exchange = ServerExchange(
            self, keep_alive=incoming.keep_alive, version=incoming.version, head_only=request.method == b"HEAD"
        )
        self._current = exchange
        self._call(request, exchange)

    def _call(self, request: Request, exchange: ServerExchange) -> None:
        try:
            self.server.handler(request, exchange)
        except Exception:  # noqa: BLE001 - the request boundary: one broken request must not take the others with it
            _log.exception("handler failed", method=request.method, path=request.path)
            if exchange.started:
                exchange.abort()
            else:
                exchange.respond(json_error(500, "internal error"))

    def _await_bytes(self) -> None:
        server, parser = self.server, self._parser
        if not self._reading:
            self._reading = True
            self.transport.resume_reading()
        if self._unsent != _NOT_WATCHED:
            return  # an answer is still on its way: its own deadline stands
        if parser.phase is ReadPhase.IDLE:
            if server.draining:
                self.transport.close()
                return
            self.deadline = server.now() + server.limits.idle_timeout_s
        elif parser.phase is ReadPhase.HEAD:
            if self._awaited is not ReadPhase.HEAD:  # one deadline for the whole head, however it trickles
                self.deadline = server.now() + server.limits.header_timeout_s
        else:
            self.deadline = self._body_deadline()
        self._awaited = parser.phase
        if parser.continue_due:
            parser.continue_due = False
            self.transport.write(CONTINUE)

    def _body_deadline(self) -> float:
        """Return when the next piece of a body is due, the sooner the less has come."""
        now, limits = self.server.now(), self.server.limits
        if self._awaited is not ReadPhase.BODY:
            self._body_began, self._body_bytes = now, 0
        owed = self._body_began + self._body_bytes / limits.least_body_rate
        return min(now, owed) + limits.body_timeout_s

    def _pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self.transport.pause_reading()

    def _reject(self, response: Response) -> None:
        if self.server.metrics:
            self.server.metrics.rejected(response.status)
        framing = b"content-length: %d\r\nconnection: close\r\n" % len(response.body)
        self.transport.write(encode_response_head(response.status, response.headers.pairs, framing) + response.body)
        self._close_gracefully()

    def _close_gracefully(self) -> None:
        """Close so that the answer arrives: unread bytes of a client that still sends would reset it away."""
        if self._parser.phase is ReadPhase.DONE and self.transport.can_write_eof() and not self.transport.is_closing():
            self._lingering = True
            self.deadline = self.server.now() + _LINGER_S
            if not self._reading:
                self._reading = True
                self.transport.resume_reading()
            try:
                self.transport.write_eof()
            except OSError:  # the client has gone, which the loop tells only in its next round: nobody reads an answer
                self.transport.abort()
        else:
            self._close()

    def _discard(self, size: int) -> None:
        self._lingered += size
        if self._lingered > _LINGER_BYTES:
            self.transport.abort()
