"""The seam between HTTP and everything that uses it: values and narrow protocols, no I/O.

Server side: `Handler(request, exchange)` is called once the body is complete (bounded by `Limits`).
Client side: `Upstream.send(...)` starts a request; its answer comes through the four calls of a `ResponseSink`.
All calls are made in the event loop's thread and none of them blocks.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from inferplane_runtime.values import value


@value(frozen=True, slots=True)
class Headers:
    """Header fields in order of arrival; names are lower-case bytes."""

    pairs: tuple[tuple[bytes, bytes], ...] = ()

    def get(self, name: bytes) -> bytes | None:
        """Return the first value of `name` (lower case), or None."""
        for key, found in self.pairs:
            if key == name:
                return found
        return None

    def without(self, names: Iterable[bytes]) -> "Headers":
        """Drop every field whose name is in `names`."""
        drop = frozenset(names)
        return Headers(tuple(pair for pair in self.pairs if pair[0] not in drop))

    def plus(self, *pairs: tuple[bytes, bytes]) -> "Headers":
        return Headers(self.pairs + pairs)


@value(frozen=True, slots=True)
class Request:
    """A complete request: `path` and `query` are the target's halves, undecoded."""

    method: bytes
    path: bytes
    query: bytes = b""
    headers: Headers = field(default_factory=Headers)
    body: bytes = b""


@value(frozen=True, slots=True)
class Response:
    """A complete answer; content-length is added when it is written."""

    status: int
    headers: Headers = field(default_factory=Headers)
    body: bytes = b""


@value(frozen=True, slots=True)
class ResponseHead:
    """The head of an upstream's answer."""

    status: int
    headers: Headers


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a server; times in seconds, sizes in bytes."""

    max_body_bytes: int = 32 * 1024 * 1024
    max_header_bytes: int = 64 * 1024
    header_timeout_s: float = 10.0
    """From the first byte of a request to the end of its head."""
    body_timeout_s: float = 60.0
    """Longest silence while a body is awaited."""
    least_body_rate: int = 1024
    """Bytes a second, beyond `body_timeout_s`: a body that trickles holds a connection for ever."""
    stall_timeout_s: float = 60.0
    """A client that takes nothing of what waits for it is reset after this."""
    idle_timeout_s: float = 75.0
    """Keep-alive connections without a request are closed after this."""
    max_connections: int = 10_000
    high_water_bytes: int = 256 * 1024
    """A client that reads slower than its answer comes pauses the upstream beyond this."""


class Exchange(Protocol):
    """One request's way back to its client."""

    def respond(self, response: Response) -> None:
        """Send a complete answer; exactly one of `respond` and `start` is called."""
        ...

    def start(self, head: ResponseHead, data: bytes = b"") -> None:
        """Begin a streamed answer: with content-length as given in `head`, chunked otherwise.

        `data` is the first piece of the body; it leaves together with the head.
        """
        ...

    def write(self, data: bytes) -> None:
        """Send a piece of the body (payload, not framing)."""
        ...

    def end(self) -> None:
        """Complete a streamed answer."""
        ...

    def abort(self) -> None:
        """Reset the connection: an answer that has begun cannot be completed."""
        ...

    @property
    def started(self) -> bool: ...

    @property
    def closed(self) -> bool:
        """True when the client is gone or the answer is complete."""
        ...

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """Call back once if the client goes before the answer is complete."""
        ...

    def on_pressure(self, callback: Callable[[bool], None]) -> None:
        """Call back with True when the client reads too slowly, with False when it has caught up."""
        ...


class Handler(Protocol):
    def __call__(self, request: Request, exchange: Exchange, /) -> None: ...


class UpstreamFailure(StrEnum):
    """Why an upstream gave no complete answer."""

    REFUSED = "refused"  # no connection: nothing was sent
    LOST = "lost"  # connection lost before the answer's end
    TIMEOUT = "timeout"  # silent for too long
    MALFORMED = "malformed"  # not HTTP


class ResponseSink(Protocol):
    """Receives one upstream answer: head, body pieces, then exactly one of end and failure."""

    def on_head(self, head: ResponseHead, /) -> None: ...

    def on_body(self, data: bytes, /) -> None:
        """One piece of payload, framing removed, as it arrived (not split or joined by events)."""
        ...

    def on_end(self) -> None: ...

    def on_failure(self, failure: UpstreamFailure, detail: str, /) -> None: ...


class Call(Protocol):
    """A request on its way to an upstream."""

    def cancel(self) -> None:
        """Drop it: the connection is closed, the sink hears nothing more."""
        ...

    def pause(self) -> None:
        """Stop reading the answer (back-pressure)."""
        ...

    def resume(self) -> None: ...


class Upstream(Protocol):
    """A pool of keep-alive connections to any number of addresses."""

    def send(self, address: str, request: Request, sink: ResponseSink, *, silence_s: float) -> Call:
        """Send `request` to host:port; `silence_s` is the longest time between two bytes of the answer."""
        ...
