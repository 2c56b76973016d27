"""Requests to upstreams over keep-alive connections, answered by direct calls.

Problem: a client library costs more than the proxying itself, and hides what a router must know: whether anything was
sent, whether anything came back.
Idea: one protocol object a connection, taken from a stack per address; a task exists only while a connection is made.
A kept connection may have been closed by its peer just as we wrote to it: if it was reused and not one byte of an
answer came, the request is sent once more on a fresh connection.
Invariant: a sink hears one head at most, then exactly one of end and failure, and nothing after `cancel`; calls come
from the loop, never from inside `send`.
"""

import asyncio
import time
from collections.abc import Callable
from typing import cast

import structlog

from inferplane_runtime.http.api import Call, Request, ResponseSink, UpstreamFailure
from inferplane_runtime.http.encoding import encode_request_head
from inferplane_runtime.http.response_parser import MalformedResponse, ResponseParser

_TICK_S = 0.25
_JOIN_BELOW = 64 * 1024
_NEVER = float("inf")
_log = structlog.get_logger("inferplane.http")


def split_address(address: str) -> tuple[str, int]:
    """Split host:port, with brackets around an IPv6 host."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"address {address!r} is not host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


class UpstreamPool:
    """The pool; bounds are per address.

    `idle_s` stays below the five seconds after which uvicorn, under vLLM, closes a kept connection.
    """

    def __init__(
        self,
        *,
        connect_timeout_s: float = 5.0,
        idle_s: float = 4.0,
        max_idle: int = 256,
        max_connections: int = 8192,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.now = clock
        self._connect_timeout_s = connect_timeout_s
        self._idle_s = idle_s
        self._max_idle = max_idle
        self._max_connections = max_connections
        self._idle: dict[str, list[UpstreamConnection]] = {}
        self._open: dict[str, int] = {}
        self._active: set[UpstreamCall] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def send(self, address: str, request: Request, sink: ResponseSink, *, silence_s: float) -> Call:
        """Send `request` to host:port; `silence_s` is the longest time between two bytes of the answer."""
        call = UpstreamCall(self, address, request, sink, silence_s)
        self._active.add(call)
        if self._timer is None:
            self._tick()
        idle = self._idle.get(address)
        while idle:
            connection = idle.pop()
            if connection.usable:
                connection.carry(call, reused=True)
                return call
        self.dial(call)
        return call

    def sweep(self, now: float) -> None:
        """Act on every deadline that has passed."""
        for call in [c for c in self._active if c.deadline <= now]:
            call.expired()
        for address, idle in list(self._idle.items()):
            while idle and idle[0].idle_since + self._idle_s <= now:
                idle.pop(0).close()
            if not idle:
                del self._idle[address]

    def idle_connections(self, address: str) -> int:
        return len(self._idle.get(address, ()))

    async def close(self) -> None:
        """Drop every call and connection."""
        for call in list(self._active):
            call.cancel()
        for idle in self._idle.values():
            for connection in idle:
                connection.close()
        self._idle.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Called by calls and connections.

    def dial(self, call: "UpstreamCall") -> None:
        """Make a fresh connection for `call`."""
        loop = asyncio.get_running_loop()
        if self._open.get(call.address, 0) >= self._max_connections:
            reason = f"more than {self._max_connections} connections to {call.address}"
            loop.call_soon(call.failed, UpstreamFailure.REFUSED, reason)
            return
        task = loop.create_task(self._connect(call), name=f"connect {call.address}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        call.dialing = task

    async def _connect(self, call: "UpstreamCall") -> None:
        address = call.address
        self._open[address] = self._open.get(address, 0) + 1
        try:
            host, port = split_address(address)
            async with asyncio.timeout(self._connect_timeout_s):
                loop = asyncio.get_running_loop()
                _, connection = await loop.create_connection(lambda: UpstreamConnection(self, address), host, port)
        except TimeoutError:
            self._undialed(call, f"connecting to {address} took longer than {self._connect_timeout_s} s")
        except (OSError, ValueError) as error:
            self._undialed(call, f"cannot connect to {address}: {error}")
        except asyncio.CancelledError:
            self._forget(address)
            raise
        else:
            call.dialing = None
            if call.over:
                self.release(connection)
            else:
                connection.carry(call, reused=False)

    def _undialed(self, call: "UpstreamCall", reason: str) -> None:
        self._forget(call.address)
        call.dialing = None
        call.failed(UpstreamFailure.REFUSED, reason)

    def release(self, connection: "UpstreamConnection") -> None:
        """Keep a connection for the next request."""
        idle = self._idle.setdefault(connection.address, [])
        if len(idle) >= self._max_idle:
            connection.close()
            return
        connection.idle_since = self.now()
        idle.append(connection)

    def lost(self, connection: "UpstreamConnection") -> None:
        self._forget(connection.address)
        idle = self._idle.get(connection.address)
        if idle and connection in idle:
            idle.remove(connection)

    def _forget(self, address: str) -> None:
        count = self._open.get(address, 0) - 1
        if count > 0:
            self._open[address] = count
        else:
            self._open.pop(address, None)

    def finished(self, call: "UpstreamCall") -> None:
        self._active.discard(call)

    def _tick(self) -> None:
        self.sweep(self.now())
        if self._active or self._idle:
            self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._tick)
        else:
            self._timer = None


class UpstreamCall:
    """One request on its way; the pool's `Call`."""

    __slots__ = (
        "_paused",
        "_pool",
        "_silence_s",
        "_sink",
        "address",
        "connection",
        "deadline",
        "dialing",
        "over",
        "request",
    )

    def __init__(
        self, pool: UpstreamPool, address: str, request: Request, sink: ResponseSink, silence_s: float
    ) -> None:
        self._pool = pool
        self._sink = sink
        self._silence_s = silence_s
        self._paused = False
        self.address = address
        self.request = request
        self.connection: UpstreamConnection | None = None
        self.dialing: asyncio.Task[None] | None = None
        self.deadline = _NEVER
        self.over = False

    def cancel(self) -> None:
        """Drop the request and its connection."""
        if self.over:
            return
        self._finish()
        if self.dialing is not None:
            self.dialing.cancel()
        if self.connection is not None:
            self.connection.drop()

    def pause(self) -> None:
        """Stop reading the answer."""
        if not self._paused and not self.over:
            self._paused = True
            self.deadline = _NEVER  # the silence is ours
            if self.connection is not None:
                self.connection.pause()

    def resume(self) -> None:
        """Go on reading."""
        if self._paused and not self.over:
            self._paused = False
            self.heard()
            if self.connection is not None:
                self.connection.resume()

    # Called by the pool and the connection.

    def heard(self) -> None:
        if not self._paused:
            self.deadline = self._pool.now() + self._silence_s

    def expired(self) -> None:
        if self.connection is not None:
            self.connection.drop()
        self.failed(UpstreamFailure.TIMEOUT, f"no byte from {self.address} for {self._silence_s} s")

    def failed(self, failure: UpstreamFailure, detail: str) -> None:
        if not self.over:
            self._finish()
            self._sink.on_failure(failure, detail)

    def deliver(self, parser: ResponseParser, *, head: bool) -> None:
        """Tell the sink what arrived; it may cancel at any of these calls."""
        if head and parser.head is not None:
            self._sink.on_head(parser.head)
        data = parser.take()
        if data and not self.over:
            self._sink.on_body(data)

    def ended(self) -> None:
        if not self.over:
            self._finish()
            self._sink.on_end()

    def _finish(self) -> None:
        self.over = True
        self.deadline = _NEVER
        self._pool.finished(self)

    @property
    def paused(self) -> bool:
        return self._paused


class UpstreamConnection(asyncio.Protocol):
    """One connection to an upstream; carries one call at a time."""

    __slots__ = ("_call", "_heard", "_parser", "_pool", "_reused", "address", "idle_since", "transport")

    transport: asyncio.Transport

    def __init__(self, pool: UpstreamPool, address: str) -> None:
        self._pool = pool
        self._parser = ResponseParser()
        self._call: UpstreamCall | None = None
        self._heard = False
        self._reused = False
        self.address = address
        self.idle_since = 0.0

    @property
    def usable(self) -> bool:
        return not self.transport.is_closing()

    def carry(self, call: UpstreamCall, *, reused: bool) -> None:
        """Send `call`'s request here."""
        request = call.request
        target = request.path + b"?" + request.query if request.query else request.path
        body = request.body
        try:
            head = encode_request_head(request.method, target, self.address.encode(), request.headers.pairs, len(body))
        except ValueError as error:
            self._pool.release(self)
            asyncio.get_running_loop().call_soon(call.failed, UpstreamFailure.MALFORMED, str(error))
            return
        self._call, call.connection = call, self
        self._reused, self._heard = reused, False
        self._parser.begin(head_only=request.method == b"HEAD")
        if len(body) < _JOIN_BELOW:
            self.transport.write(head + body)
        else:
            self.transport.write(head)
            self.transport.write(body)
        call.heard()
        if call.paused:
            self.pause()

    def pause(self) -> None:
        self.transport.pause_reading()

    def resume(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def drop(self) -> None:
        """Forget the call and reset the connection: its peer sees the client go."""
        self._call = None
        self.transport.abort()

    def close(self) -> None:
        self.transport.close()

    # Called by the loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        call, parser = self._call, self._parser
        if call is None:  # nobody asked: whatever it is, it must not become the answer to the next request
            self.transport.abort()
            return
        self._heard = True
        had_head = parser.head is not None
        try:
            parser.feed(data)
        except MalformedResponse as error:
            self._malformed(call, parser, str(error), had_head=had_head)
            return
        call.heard()
        call.deliver(parser, head=not had_head)
        if parser.complete and self._call is call:
            self._complete(call)

    def _malformed(self, call: UpstreamCall, parser: ResponseParser, detail: str, *, had_head: bool) -> None:
        if parser.complete:  # the answer is whole; what follows it is not, and ends the connection
            call.deliver(parser, head=not had_head)
            self._finish(call, reuse=False)
            return
        self.drop()
        call.failed(UpstreamFailure.MALFORMED, f"{self.address} answered what is not HTTP: {detail}")

    def _complete(self, call: UpstreamCall) -> None:
        self._finish(call, reuse=self._parser.keep_alive and not self.transport.get_write_buffer_size())

    def _finish(self, call: UpstreamCall, *, reuse: bool) -> None:
        self._call = None
        if reuse and not self.transport.is_closing():
            if call.paused:
                self.transport.resume_reading()
            self._pool.release(self)
        else:
            self.transport.close()
        call.ended()

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.lost(self)
        call, self._call = self._call, None
        if call is None:
            return
        if self._parser.eof():
            call.ended()
        elif self._reused and not self._heard and not call.paused:
            call.connection = None
            call.deadline = _NEVER
            self._pool.dial(call)
        else:
            call.failed(
                UpstreamFailure.LOST, f"{self.address} closed the connection: {exc or 'before the answer ended'}"
            )
