"""Fakes of what the agent's core is given: a clock, an exchange, an upstream, an observer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from inferplane_runtime.http.api import (
    Headers,
    Request,
    Response,
    ResponseHead,
    ResponseSink,
    UpstreamFailure,
)
from inferplane_workers.agent.data_path import DataPath
from inferplane_workers.agent.engine_adapter import ADAPTERS, EngineAdapter
from inferplane_workers.agent.gate import Gate, Phase
from inferplane_workers.agent.ledger import Change, Ledger
from inferplane_workers.agent.routing_headers import Routing
from inferplane_workers.agent.seams import DataPathSettings
from inferplane_workers.agent.timeline import Report, Side
from inferplane_workers.agent.transfers import Transfers

ENGINE = "127.0.0.1:8200"
JSON = Headers(((b"content-type", b"application/json"),))
STREAM = Headers(((b"content-type", b"text/event-stream; charset=utf-8"),))


class FakeExchange:
    """Records what a client would get."""

    def __init__(self) -> None:
        self.head: ResponseHead | None = None
        self.response: Response | None = None
        self.written: list[bytes] = []
        self.ended = False
        self.aborted = False
        self._gone: Callable[[], None] | None = None
        self._pressure: Callable[[bool], None] | None = None

    def respond(self, response: Response) -> None:
        assert self.response is None  # noqa: S101 - a fake checks its contract
        assert self.head is None  # noqa: S101
        self.response = response
        self.end()

    def start(self, head: ResponseHead, data: bytes = b"") -> None:
        assert self.response is None  # noqa: S101
        assert self.head is None  # noqa: S101
        self.head = head
        if data:
            self.written.append(data)

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def end(self) -> None:
        self.ended = True
        self._forget()

    def abort(self) -> None:
        self.aborted = True
        self._forget()

    @property
    def started(self) -> bool:
        return self.head is not None or self.response is not None

    @property
    def closed(self) -> bool:
        return self.ended or self.aborted

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        self._gone = callback

    def on_pressure(self, callback: Callable[[bool], None]) -> None:
        self._pressure = callback

    # What a test does to it.

    def leave(self) -> None:
        if self._gone is not None and not self.closed:
            self._gone()

    def press(self, *, slow: bool) -> None:
        if self._pressure is not None:
            self._pressure(slow)

    def _forget(self) -> None:
        self._gone = self._pressure = None

    @property
    def body(self) -> bytes:
        return self.response.body if self.response is not None else b"".join(self.written)

    @property
    def status(self) -> int:
        if self.response is not None:
            return self.response.status
        return self.head.status if self.head is not None else 0

    def header(self, name: bytes) -> bytes | None:
        headers = self.response.headers if self.response else self.head.headers if self.head else Headers()
        return headers.get(name)


@dataclass(slots=True)
class FakeCall:
    """One request that an upstream got; the test answers it."""

    address: str
    request: Request
    sink: ResponseSink
    cancelled: bool = False
    paused: bool = False

    def cancel(self) -> None:
        self.cancelled = True

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    # What a test does to it.

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = orjson.loads(self.request.body)
        return value

    def answer(self, body: bytes, *, status: int = 200, headers: Headers = JSON) -> None:
        self.sink.on_head(ResponseHead(status, headers))
        if not self.cancelled:
            self.sink.on_body(body)
        if not self.cancelled:
            self.sink.on_end()

    def begin_stream(self) -> None:
        self.sink.on_head(ResponseHead(200, STREAM))

    def fail(self, failure: UpstreamFailure = UpstreamFailure.LOST) -> None:
        self.sink.on_failure(failure, "fake")


class FakeUpstream:
    """Collects calls instead of making them."""

    def __init__(self) -> None:
        self.calls: list[FakeCall] = []

    def send(self, address: str, request: Request, sink: ResponseSink, *, silence_s: float) -> FakeCall:
        del silence_s
        call = FakeCall(address, request, sink)
        self.calls.append(call)
        return call

    @property
    def last(self) -> FakeCall:
        return self.calls[-1]

    def to(self, address: str) -> list[FakeCall]:
        return [call for call in self.calls if call.address == address]


@dataclass(slots=True)
class FakeObserver:
    """Remembers what it hears."""

    reports: list[Report] = field(default_factory=list[Report])
    routings: list[Routing] = field(default_factory=list[Routing])
    removed: list[str] = field(default_factory=list[str])
    failures: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def accepted(self, routing: Routing, side: Side) -> None:
        del side
        self.routings.append(routing)

    def reported(self, report: Report) -> None:
        self.reports.append(report)

    def stripped(self, fields: Sequence[str]) -> None:
        self.removed.extend(fields)

    def handoff_failed(self, address: str, cause: str) -> None:
        self.failures.append((address, cause))


class Bench:
    """A data path on fakes, with a clock that a test moves."""

    def __init__(self, *, role: Side = Side.DECODE, adapter: EngineAdapter | None = None) -> None:
        self.time = 1000.0
        self.upstream = FakeUpstream()
        self.observer = FakeObserver()
        self.entries: list[Change] = []
        self.ledger = Ledger(self.entries.append)
        self.transfers = Transfers(lease_s=30.0)
        self.gate = Gate(now=self.now, grace_s=2.0, on_change=lambda _phase, _detail: None)
        self.gate.move(Phase.READY)
        self.path = DataPath(
            settings=DataPathSettings(worker_id="w0", engine_address=ENGINE, role=role),
            adapter=adapter or ADAPTERS["vllm"],
            upstream=self.upstream,
            gate=self.gate,
            ledger=self.ledger,
            transfers=self.transfers,
            observer=self.observer,
            now=self.now,
        )

    def now(self) -> float:
        return self.time

    def send(
        self,
        body: object,
        *,
        path: bytes = b"/v1/completions",
        headers: Sequence[tuple[bytes, bytes]] = (),
        request_id: str = "r1",
    ) -> FakeExchange:
        raw = body if isinstance(body, bytes) else orjson.dumps(body)
        pairs = ((b"content-type", b"application/json"), (b"x-request-id", request_id.encode()), *headers)
        exchange = FakeExchange()
        self.path(Request(b"POST", path, b"", Headers(pairs), raw), exchange)
        return exchange
