"""Fakes of the HTTP seam: an exchange that records, an upstream that a test plays, a transport in memory."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from inferplane_runtime.http.api import Headers, Request, Response, ResponseHead, ResponseSink, UpstreamFailure


class RecordedExchange:
    """An `Exchange` that keeps what was sent on it."""

    def __init__(self) -> None:
        self.head: ResponseHead | None = None
        self.pieces: list[bytes] = []
        self.started = False
        self.closed = False
        self.ended = False
        self.aborted = False
        self._over = asyncio.Event()
        self._gone: Callable[[], None] | None = None
        self._pressure: Callable[[bool], None] | None = None

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def status(self) -> int | None:
        return self.head.status if self.head else None

    def respond(self, response: Response) -> None:
        if self.closed:
            return
        self.start(ResponseHead(response.status, response.headers))
        self.pieces.append(response.body)
        self.end()

    def start(self, head: ResponseHead, data: bytes = b"") -> None:
        if self.closed:
            return
        if self.started:
            raise RuntimeError("the answer has begun already")
        self.started = True
        self.head = head
        if data:
            self.pieces.append(data)

    def write(self, data: bytes) -> None:
        if not self.closed:
            self.pieces.append(data)

    def end(self) -> None:
        if not self.closed:
            self.ended = self.closed = True
            self._forget()

    def abort(self) -> None:
        if not self.closed:
            self.aborted = self.closed = True
            self._forget()

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        self._gone = callback

    def on_pressure(self, callback: Callable[[bool], None]) -> None:
        self._pressure = callback

    async def wait(self) -> None:
        """Return when the answer is complete or reset."""
        await self._over.wait()

    def disconnect(self) -> None:
        """Play a client that goes away."""
        if not self.closed:
            self.closed = True
            gone = self._gone
            self._gone = self._pressure = None
            if gone:
                gone()

    def press(self, *, on: bool) -> None:
        """Play a client that falls behind, or has caught up."""
        if self._pressure:
            self._pressure(on)

    def _forget(self) -> None:
        self._gone = self._pressure = None
        self._over.set()


@dataclass
class PlayedCall:
    """A request that reached a `PlayedUpstream`; the test answers through `sink`."""

    address: str
    request: Request
    sink: ResponseSink
    silence_s: float
    cancelled: bool = False
    paused: bool = False

    def cancel(self) -> None:
        self.cancelled = True

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def answer(self, status: int, body: bytes = b"", headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        """Give a whole answer."""
        length = (b"content-length", b"%d" % len(body))
        self.sink.on_head(ResponseHead(status, Headers((*headers, length))))
        if body:
            self.sink.on_body(body)
        self.sink.on_end()

    def fail(self, failure: UpstreamFailure, detail: str = "played") -> None:
        self.sink.on_failure(failure, detail)


@dataclass
class PlayedUpstream:
    """An `Upstream` that only notes what is sent; tests play the other side."""

    calls: list[PlayedCall] = field(default_factory=list[PlayedCall])

    def send(self, address: str, request: Request, sink: ResponseSink, *, silence_s: float) -> PlayedCall:
        call = PlayedCall(address, request, sink, silence_s)
        self.calls.append(call)
        return call


class CollectingSink:
    """A `ResponseSink` that keeps everything; `wait` returns when the answer is over."""

    def __init__(self) -> None:
        self.head: ResponseHead | None = None
        self.pieces: list[bytes] = []
        self.ended = False
        self.failure: tuple[UpstreamFailure, str] | None = None
        self._over = asyncio.Event()
        self._news = asyncio.Event()

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    async def wait(self) -> "CollectingSink":
        await self._over.wait()
        return self

    async def wait_for_news(self) -> None:
        """Return when something arrived since the last call."""
        await self._news.wait()
        self._news.clear()

    def on_head(self, head: ResponseHead) -> None:
        assert self.head is None, "a second head"  # noqa: S101 - a fake that checks its caller
        self.head = head
        self._news.set()

    def on_body(self, data: bytes) -> None:
        assert self.head is not None, "payload before a head"  # noqa: S101 - see above
        self.pieces.append(data)
        self._news.set()

    def on_end(self) -> None:
        self._finish()
        self.ended = True

    def on_failure(self, failure: UpstreamFailure, detail: str) -> None:
        self._finish()
        self.failure = (failure, detail)

    def _finish(self) -> None:
        assert not self._over.is_set(), "a second end"  # noqa: S101 - see above
        self._over.set()
        self._news.set()


class MemoryTransport(asyncio.Transport):
    """A transport that keeps what is written and notes what is asked of it."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.written = bytearray()
        self.reading = True
        self.eof = False
        self.aborted = False
        self.unsent = 0
        """Bytes that the peer has not taken: set by tests of slow clients."""
        self._closing = False
        self._protocol = protocol
        protocol.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing:
            self.written += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.eof = True

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if not self.unsent:
                self._protocol.connection_lost(None)

    def abort(self) -> None:
        self.aborted = True
        lost, self.unsent = self._closing and self.unsent > 0, 0
        self.close()
        if lost:
            self._protocol.connection_lost(None)

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Accept any limits: memory is never slow."""

    def get_write_buffer_size(self) -> int:
        return self.unsent
