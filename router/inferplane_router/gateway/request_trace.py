"""The gateway's part of a request's trace: the request, each search for a place, each try at a worker.

A try's context goes to the agent in `traceparent`, so that what the agent does stands below the try.
Invariant: it decides nothing; whatever is called here, in whatever order, the request goes the same way.
"""

from inferplane_router.core.values import Routed
from inferplane_router.gateway.data_plane import Wish
from inferplane_router.gateway.errors import GatewayError
from inferplane_runtime.http.api import Headers, Request
from inferplane_runtime.tracing.span import Attributes, Span, SpanKind
from inferplane_runtime.tracing.tracer import Tracer, traced


class RequestTrace:
    """One traced request."""

    __slots__ = ("_request", "_step", "_tracer", "_tries", "_wish")

    def __init__(self, tracer: Tracer, request: Span, wish: Wish) -> None:
        self._tracer = tracer
        self._request = request
        self._wish = wish
        self._tries = 0
        self._step = tracer.step(request, "pick", request.begun)

    def placed(self, routed: Routed, headers: Headers, at: float, *, queued_s: float) -> Headers:
        """Go from the search to a try; return the headers with which the agent goes on."""
        self._step.attributes |= _choice(routed, self._block_size, queued_s)
        self._step.end(at)
        self._tries += 1
        of: Attributes = {
            "server.address": routed.decode.address,
            "inferplane.worker": routed.decode.worker_id,
            "inferplane.try": self._tries,
        }
        self._step = self._tracer.step(self._request, "forward", at, kind=SpanKind.CLIENT, of=of)
        return traced(headers, self._step)

    def retried(self, cause: str, at: float, worker_id: str) -> None:
        """Go from a try that failed to the next search."""
        self._request.happened(at, "retry", cause=cause, worker=worker_id)
        self._step.end(at, cause)
        self._step = self._tracer.step(self._request, "pick", at)

    def began(self, at: float) -> None:
        """Note the first piece of the answer."""
        self._step.happened(at, "first piece")
        self._request.attributes["inferplane.ttft_s"] = at - self._request.begun

    def refused(self, error: GatewayError, at: float) -> None:
        """Note why there is no answer of a worker."""
        self._request.attributes["http.response.status_code"] = error.status
        self._request.happened(at, "refused", message=error.message)

    def over(self, outcome: str, at: float, *, status: int, fault: bool) -> None:
        """End everything that is open."""
        if status:
            self._request.attributes["http.response.status_code"] = status
        self._request.attributes["inferplane.outcome"] = outcome
        said = outcome if fault else ""
        self._step.end(at, said)
        self._request.end(at, said)

    @property
    def _block_size(self) -> int:
        facts = self._wish.model.facts
        return facts.key_space.block_size if facts is not None else 0


def begin_trace(tracer: Tracer, request: Request, wish: Wish, at: float) -> RequestTrace | None:
    """Begin a request's trace; None where it is not traced."""
    path = wish.path.decode("ascii")
    span = tracer.begin(f"POST {path}", request.headers, at)
    if span is None:
        return None
    span.attributes |= {
        "http.request.method": "POST",
        "url.path": path,
        "gen_ai.request.model": wish.model.model_name,
        "inferplane.service": wish.model.service.name,
        "inferplane.namespace": wish.model.service.namespace,
        "inferplane.request_id": wish.request_id,
        "inferplane.stream": wish.body.stream,
        "inferplane.priority": wish.hints.priority,
    }
    if wish.tenant:
        span.attributes["inferplane.tenant"] = wish.tenant
    return RequestTrace(tracer, span, wish)


def _choice(routed: Routed, block_size: int, queued_s: float) -> Attributes:
    hit = routed.prefill_cached_tokens
    return {
        "inferplane.worker": routed.decode.worker_id,
        "inferplane.prefill_worker": routed.prefill[0].worker_id if routed.prefill else "",
        "inferplane.prompt_tokens": routed.prompt_tokens,
        "inferplane.hit_tokens": hit,
        "inferplane.hit_blocks": hit // block_size if block_size else 0,
        "inferplane.predicted_ttft_s": routed.ttft_s,
        "inferplane.queue_s": queued_s,
    }
