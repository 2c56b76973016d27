"""Ended spans on their way to a collector: kept until the next batch, sent, and forgotten.

Problem: a collector may be slow, gone or wrong, and requests must not notice.
Idea: a list with a bound; `flush` sends what is in it by the pool that requests use, one batch at a time.
Trade-off: a batch that is refused is lost, and counted: spans are not worth a second memory of them.
Invariant: never more than `most` spans wait, and never more than one batch is on its way.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from inferplane_runtime.clock import Clock
from inferplane_runtime.http.api import Call, Headers, Request, ResponseHead, Upstream, UpstreamFailure
from inferplane_runtime.metrics.instruments import Cells
from inferplane_runtime.tracing import otlp
from inferplane_runtime.tracing.span import Span

MOST: Final = 4096
_BATCH: Final = 128
"""Writing a span takes ten microseconds, in the loop that serves requests."""
_SILENCE_S: Final = 5.0
_LAST_S: Final = 1.0
_REFUSED: Final = 300
_HEADERS: Final = Headers(((b"content-type", b"application/x-protobuf"),))
_log = structlog.get_logger("inferplane.tracing")


class SpanExporter:
    """Takes spans with `take`, sends them with `flush`, which is to be called about once a second."""

    def __init__(
        self,
        endpoint: str,
        *,
        upstream: Upstream,
        resource: Mapping[str, str],
        clock: Clock,
        counted: Cells,
        most: int = MOST,
    ) -> None:
        address, _, path = endpoint.removeprefix("http://").partition("/")
        self._address = address
        self._path = b"/" + path.encode()
        self._upstream = upstream
        self._resource = dict(resource)
        self._clock = clock
        self._most = most
        self._waiting: list[Span] = []
        self._sent: _Sent | None = None
        self._well = True
        self._exported, self._failed, self._dropped = (
            counted.labels(outcome) for outcome in ("exported", "failed", "dropped")
        )

    def take(self, span: Span) -> None:
        """Keep a span for the next batch, or drop it where too many wait."""
        if len(self._waiting) < self._most:
            self._waiting.append(span)
        else:
            self._dropped.value += 1

    def flush(self) -> None:
        """Send a batch, unless one is on its way."""
        if self._sent is not None or not self._waiting:
            return
        batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
        wall_of = self._clock.wall() - self._clock.monotonic()
        body = otlp.encode(batch, self._resource, wall_of=wall_of)
        self._sent = _Sent(self, len(batch))
        request = Request(b"POST", self._path, headers=_HEADERS, body=body)
        self._sent.call = self._upstream.send(self._address, request, self._sent, silence_s=_SILENCE_S)

    async def close(self) -> None:
        """Send what is left, and wait a moment for it."""
        try:
            async with asyncio.timeout(_LAST_S):
                while self._waiting or self._sent is not None:
                    self.flush()
                    if self._sent is not None:
                        await self._sent.over.wait()
        except TimeoutError:
            _log.warning("spans are lost: the collector did not take them in time", spans=len(self._waiting))
        if self._sent is not None and self._sent.call is not None:
            self._sent.call.cancel()

    def arrived(self, spans: int, fault: str) -> None:
        """Take what became of a batch; called by the batch."""
        self._sent = None
        (self._failed if fault else self._exported).value += spans
        if fault and self._well:
            _log.warning("a collector does not take spans", address=self._address, fault=fault)
        elif not fault and not self._well:
            _log.info("the collector takes spans again", address=self._address)
        self._well = not fault
        if self._well and len(self._waiting) >= _BATCH:
            self.flush()


class _Sent:
    """One batch on its way; the sink of the collector's answer."""

    __slots__ = ("_exporter", "_spans", "_status", "call", "over")

    def __init__(self, exporter: SpanExporter, spans: int) -> None:
        self._exporter = exporter
        self._spans = spans
        self._status = 0
        self.call: Call | None = None
        self.over = asyncio.Event()

    def on_head(self, head: ResponseHead) -> None:
        self._status = head.status

    def on_body(self, data: bytes) -> None: ...

    def on_end(self) -> None:
        self._conclude("" if self._status < _REFUSED else f"status {self._status}")

    def on_failure(self, failure: UpstreamFailure, detail: str) -> None:
        self._conclude(f"{failure.value}: {detail}")

    def _conclude(self, fault: str) -> None:
        self.over.set()
        self._exporter.arrived(self._spans, fault)
