"""Which requests are traced, and the spans of those that are.

Problem: a trace is of use only whole, so every process on a request's way must come to the same decision.
Idea: whoever came first decides and says so in `traceparent`; only a request without one is drawn for, here.
Trade-off: a client that marks all of its requests is traced in all of them; the exporter's bound holds against that.
"""

from collections.abc import Callable
from random import Random

from inferplane_runtime.http.api import Headers
from inferplane_runtime.tracing.context import TRACEPARENT, TRACESTATE, SpanContext, read_traceparent
from inferplane_runtime.tracing.span import Attributes, Span, SpanKind


class Tracer:
    """Makes spans; `ended` takes each when it has ended."""

    __slots__ = ("_ended", "_random", "_ratio")

    def __init__(self, *, ratio: float, rng: Random, ended: Callable[[Span], None]) -> None:
        self._ratio = ratio
        self._random = rng
        self._ended = ended

    def begin(self, name: str, headers: Headers, at: float) -> Span | None:
        """Begin a request's first span here; None where the request is not traced."""
        given = headers.get(TRACEPARENT)
        caller = read_traceparent(given) if given is not None else None
        if caller is None:
            if self._random.random() >= self._ratio:
                return None
            return self._span(name, SpanKind.SERVER, self._random.randbytes(16), b"", at)
        if not caller.sampled:
            return None
        state = (headers.get(TRACESTATE) or b"").decode("latin-1")
        return self._span(name, SpanKind.SERVER, caller.trace_id, caller.span_id, at, state=state)

    def step(
        self, parent: Span, name: str, at: float, *, kind: SpanKind = SpanKind.INTERNAL, of: Attributes | None = None
    ) -> Span:
        """Begin a step of `parent`."""
        context = parent.context
        return self._span(name, kind, context.trace_id, context.span_id, at, state=parent.state, attributes=of)

    def _span(
        self,
        name: str,
        kind: SpanKind,
        trace_id: bytes,
        parent: bytes,
        at: float,
        *,
        state: str = "",
        attributes: Attributes | None = None,
    ) -> Span:
        context = SpanContext(trace_id, self._random.randbytes(8))
        return Span(name, kind, context, begun=at, ended=self._ended, parent=parent, state=state, attributes=attributes)


def traced(headers: Headers, span: Span) -> Headers:
    """Let whoever gets these headers go on under `span`."""
    return headers.without((TRACEPARENT,)).plus((TRACEPARENT, span.context.header))
