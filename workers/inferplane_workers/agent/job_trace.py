"""The agent's part of a request's trace: the request here, its prefill elsewhere, and what the own engine does.

What lies between two moments of the timeline (prefill, transfer, decode) becomes a step when the request has ended, so
that a token costs nothing.  The engine gets a `traceparent` of its own and may go on below it.
Invariant: whatever is open when the job ends is ended with it.
"""

import math
from dataclasses import replace
from typing import Final

from inferplane_runtime.http.api import Headers, Request
from inferplane_runtime.tracing.span import Attributes, Span, SpanKind
from inferplane_runtime.tracing.tracer import Tracer, traced
from inferplane_workers.agent.routing_headers import Routing
from inferplane_workers.agent.seams import DataPathSettings
from inferplane_workers.agent.timeline import Outcome, Side, Timeline

_FAULTS: Final = frozenset({Outcome.ENGINE_ERROR, Outcome.ENGINE_LOST, Outcome.REFUSED, Outcome.DEADLINE})


class JobTrace:
    """One traced request."""

    __slots__ = ("_engine", "_prefill", "_request", "_tracer")

    def __init__(self, tracer: Tracer, request: Span) -> None:
        self._tracer = tracer
        self._request = request
        self._prefill: Span | None = None
        self._engine: Span | None = None

    def to_prefill(self, request: Request, address: str, at: float) -> Request:
        """Begin a call to a prefill worker; return the request with which it goes on."""
        of: Attributes = {"server.address": address}
        self._prefill = self._tracer.step(self._request, "prefill", at, kind=SpanKind.CLIENT, of=of)
        return replace(request, headers=traced(request.headers, self._prefill))

    def prefilled(self, at: float, *, worker: str, fault: str) -> None:
        """End the call to a prefill worker; `fault` says why it gave nothing."""
        if self._prefill is None:
            return
        if fault:
            self._request.happened(at, "hand-off failed", worker=worker, cause=fault)
        self._prefill.attributes["inferplane.worker"] = worker
        self._prefill.end(at, fault)

    def to_engine(self, headers: Headers, at: float, *, transfer: bool) -> Headers:
        """Begin a try at the own engine; return the headers with which it goes on."""
        if self._engine is not None:
            self._request.happened(at, "engine asked again")
            self._engine.end(at, "the engine did not answer")
        of: Attributes = {"inferplane.transfer": transfer}
        self._engine = self._tracer.step(self._request, "engine", at, kind=SpanKind.CLIENT, of=of)
        return traced(headers, self._engine)

    def over(self, timeline: Timeline, outcome: Outcome, status: int, at: float, *, streamed: bool) -> None:
        """End everything that is open."""
        fault = outcome.name.lower() if outcome in _FAULTS else ""
        if self._engine is not None:
            if streamed and timeline.begun:
                self._stages(self._engine, timeline)
            self._engine.end(at, fault)
        if self._prefill is not None:
            self._prefill.end(at, fault)
        request = self._request
        request.attributes |= {"inferplane.outcome": outcome.name.lower(), "http.response.status_code": status}
        if timeline.prefill_worker:
            request.attributes["inferplane.prefill_worker"] = timeline.prefill_worker
        request.end(at, fault)

    def _stages(self, engine: Span, timeline: Timeline) -> None:
        """Tell the engine's time apart: until the first token, and from there."""
        pulled = not math.isnan(timeline.prefill_answered) and bool(timeline.prefill_worker)
        name = "transfer" if pulled else "local prefill"
        self._tracer.step(engine, name, timeline.engine_sent).end(timeline.first_token)
        self._tracer.step(engine, "decode", timeline.first_token).end(timeline.last_token)


def begin_trace(
    tracer: Tracer, request: Request, routing: Routing, settings: DataPathSettings, side: Side, *, at: float
) -> JobTrace | None:
    """Go on with a request's trace; None where it is not traced."""
    span = tracer.begin(f"worker {side.name.lower()}", request.headers, at)
    if span is None:
        return None
    span.attributes |= {
        "url.path": request.path.decode("latin-1"),
        "inferplane.worker": settings.worker_id,
        "inferplane.role": side.name.lower(),
        "inferplane.request_id": routing.request_id,
        "inferplane.prompt_tokens": routing.prompt_tokens,
        "inferplane.uncached_tokens": routing.uncached_tokens,
    }
    return JobTrace(tracer, span)
