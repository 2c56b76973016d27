"""One request on its way: to the agent that was chosen, and its answer back, piece by piece.

Problem: a worker may refuse, die before its first token, or die in the middle; a client may go at any time.
Idea: nothing is sent to the client before the first piece of an answer's body has come, so that until then another
worker can be tried without anyone noticing.
The client's part comes first, then the place, then what is counted: no defect of the counting leaves anyone waiting.
Trade-off: a head waits for its body; engines send both together.
Invariant: a client gets one whole answer, one error, or a connection or stream that visibly broke; never a second
answer mixed into the first.
"""

from dataclasses import dataclass
from typing import Final

import orjson
import structlog

from inferplane_api.proto.worker_pb2 import (
    OUTCOME_CLIENT_GONE,
    OUTCOME_ENGINE_ERROR,
    OUTCOME_ENGINE_LOST,
    OUTCOME_OK,
    OUTCOME_REFUSED,
    Outcome,
)
from inferplane_router.core.naming import service_key
from inferplane_router.core.objective import limits_of
from inferplane_router.core.values import Routed
from inferplane_router.gateway import headers
from inferplane_router.gateway.attainment import FAULTS, Course, judge
from inferplane_router.gateway.data_plane import DataPlane, Placement, Wish
from inferplane_router.gateway.errors import GatewayError, UpstreamLostError, answer
from inferplane_router.gateway.headers import HeaderWriter
from inferplane_router.gateway.meters import GatewayMeters, ServiceMeters
from inferplane_router.gateway.request_trace import begin_trace
from inferplane_runtime.http.api import Call, Exchange, Headers, Request, ResponseHead, Upstream, UpstreamFailure
from inferplane_runtime.tracing.tracer import Tracer

MAX_TRIES: Final = 4
MAX_LOSSES: Final = 2
"""Engines that one request may have been the end of."""
_ERROR_STATUS: Final = 400
_SERVER_ERROR: Final = 500
_UNREACHED: Final = 503
"""An agent's retryable answer where nothing came to its engine; another status says that the engine was lost."""
_LAST_EVENT: Final = b"data: [DONE]\n\n"
"""Ends a stream for its client, which may ask for the next turn before the connection says so."""
_TRY_ELSEWHERE: Final = (UpstreamFailure.REFUSED, UpstreamFailure.LOST, UpstreamFailure.MALFORMED)
_log = structlog.get_logger("inferplane.gateway")


@dataclass(frozen=True, slots=True)
class ForwardContext:
    """What every request of a gateway shares."""

    plane: DataPlane
    upstream: Upstream
    writer: HeaderWriter
    meters: GatewayMeters
    tracer: Tracer | None = None
    """None: nothing is traced."""


class Forward:
    """Carries one request; the sink of its upstream answers."""

    __slots__ = (
        "_begun",
        "_call",
        "_context",
        "_exchange",
        "_first_at",
        "_head",
        "_last",
        "_last_at",
        "_losses",
        "_meters",
        "_pieces",
        "_placement",
        "_request",
        "_routed",
        "_status",
        "_trace",
        "_tries",
        "_wish",
    )

    def __init__(self, context: ForwardContext, request: Request, exchange: Exchange, wish: Wish) -> None:
        self._context = context
        self._request = request
        self._exchange = exchange
        self._wish = wish
        self._meters: ServiceMeters = context.meters.of(service_key(wish.model.service))
        self._placement: Placement | None = None
        self._routed: Routed | None = None
        self._call: Call | None = None
        self._head: ResponseHead | None = None
        self._tries = self._losses = 0
        self._status = 0
        self._pieces = 0
        self._last = b""
        self._begun = context.plane.now()
        self._trace = begin_trace(context.tracer, request, wish, self._begun) if context.tracer is not None else None
        self._first_at = self._last_at = 0.0

    def begin(self) -> None:
        """Look for a place and send the request there."""
        self._meters.running.value += 1
        self._exchange.on_disconnect(self._gone)
        self._exchange.on_pressure(self._pressed)
        placement = self._context.plane.place(self._wish, self._placed)
        self._placement = placement
        if self._exchange.closed:  # answered within `place`
            placement.complete(OUTCOME_OK)

    # Called by the data plane.

    def _placed(self, result: Routed | GatewayError) -> None:
        if isinstance(result, GatewayError):
            self._fail(result)
            return
        self._tries += 1
        self._routed = result
        self._head = None
        wish, model = self._wish, self._wish.model
        fields = self._context.writer.to_agent(self._request.headers, result, wish.particulars)
        if self._trace is not None:
            queued_s = self._placement.queued_s if self._placement is not None else 0.0
            fields = self._trace.placed(result, fields, self._context.plane.now(), queued_s=queued_s)
        outgoing = Request(self._request.method, wish.path, self._request.query, fields, wish.body.encoded())
        silence_s = model.service.request_timeout_s
        self._call = self._context.upstream.send(result.decode.address, outgoing, self, silence_s=silence_s)

    # Called by the upstream.

    def on_head(self, head: ResponseHead) -> None:
        """Hold the head until its body begins, or try elsewhere."""
        retryable = head.status >= _SERVER_ERROR and head.headers.get(headers.RETRY) is not None
        if retryable and self._another_may_try(lost=head.status != _UNREACHED):
            call, self._call = self._call, None
            if call is not None:
                call.cancel()
            self._retry("refused")
            return
        self._head = head

    def on_body(self, data: bytes) -> None:
        """Pass a piece on."""
        now = self._context.plane.now()
        self._pieces += 1
        self._last = data
        if data.endswith(_LAST_EVENT) and self._placement is not None:
            self._placement.complete(OUTCOME_OK)
        if self._exchange.started or self._head is None:
            if self._wish.body.stream:
                self._meters.itl.observe(now - self._last_at)
            self._last_at = now
            self._exchange.write(data)
            return
        self._last_at = now
        self._start(self._head, data)
        self._first_at = now
        if self._trace is not None:
            self._trace.began(now)
        if self._wish.body.stream:
            self._meters.ttft.observe(now - self._begun)

    def on_end(self) -> None:
        """Complete the answer."""
        self._call = None
        head = self._head
        if head is not None and not self._exchange.started:
            self._start(head)
        self._exchange.end()
        if self._wish.body.stream and self._pieces > 1:
            self._meters.tpot.observe((self._last_at - self._first_at) / (self._pieces - 1))
        self._finish(outcome_of(head.status if head else _SERVER_ERROR))

    def on_failure(self, failure: UpstreamFailure, detail: str) -> None:
        """Try elsewhere while the client has seen nothing; say what happened otherwise."""
        self._call = None
        log = _log.bind(request_id=self._wish.request_id, failure=failure.value, detail=detail)
        if self._exchange.started:
            log.warning("an answer broke off")
            self._break_off()
        elif failure in _TRY_ELSEWHERE and self._another_may_try(lost=failure is not UpstreamFailure.REFUSED):
            log.info("trying another worker")
            self._retry(failure.value)
        else:
            log.warning("no answer")
            self._fail(UpstreamLostError(failure))
        self._context.meters.failures.labels(*self._meters.service, failure.value).inc()

    # Called by the client's side.

    def _gone(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.cancel()
        self._meters.disconnects.value += 1
        self._finish(OUTCOME_CLIENT_GONE)

    def _pressed(self, on: bool) -> None:  # noqa: FBT001 - the exchange's signature
        if self._call is not None:
            self._call.pause() if on else self._call.resume()

    # Inside.

    def _start(self, head: ResponseHead, data: bytes = b"") -> None:
        exposed = self._routed if self._wish.model.service.expose_headers else None
        shown = headers.to_client(head.headers, self._wish.request_id, exposed=exposed)
        self._status = head.status
        self._exchange.start(ResponseHead(head.status, shown), data)

    def _another_may_try(self, *, lost: bool) -> bool:
        """Bound what one request can cost: what kills the second engine too would go on through a fleet."""
        self._losses += lost
        return self._tries < MAX_TRIES and not (lost and self._losses >= MAX_LOSSES)

    def _retry(self, cause: str) -> None:
        placement, routed = self._placement, self._routed
        self._context.meters.retries.labels(*self._meters.service, cause).inc()
        if placement is None or routed is None:
            raise RuntimeError("a retry before the first try")
        if self._trace is not None:
            self._trace.retried(cause, self._context.plane.now(), routed.decode.worker_id)
        placement.again(routed.decode.worker_id)

    def _fail(self, error: GatewayError) -> None:
        response = answer(error, headers=((b"x-request-id", self._wish.request_id.encode()),))
        self._status = response.status
        self._exchange.respond(response)
        if self._trace is not None:
            self._trace.refused(error, self._context.plane.now())
        self._finish(error.outcome)

    def _break_off(self) -> None:
        """End a stream with an error event where one can stand; reset anything else."""
        streamed = self._head is not None and _is_event_stream(self._head.headers)
        if streamed and self._last.endswith(b"\n\n"):
            message = {"message": "the worker was lost while it answered", "type": "upstream_error", "code": 502}
            self._exchange.write(b"data: %b\n\n" % orjson.dumps({"error": message}))
            self._exchange.end()
        else:
            self._exchange.abort()
        self._finish(OUTCOME_ENGINE_LOST)

    def _finish(self, outcome: Outcome) -> None:
        if self._placement is not None:
            self._placement.complete(outcome)
        meters = self._meters
        meters.running.value -= 1
        if self._status:
            meters.answered(self._status)
        meters.duration.observe(self._context.plane.now() - self._begun)
        meters.ended(self._wish.route.value, OUTCOME_LABELS[outcome])
        if self._wish.body.stream:
            self._judge(outcome)
        if self._trace is not None:
            now, fault = self._context.plane.now(), outcome in FAULTS
            self._trace.over(OUTCOME_LABELS[outcome], now, status=self._status, fault=fault)

    def _judge(self, outcome: Outcome) -> None:
        """Count whether a stream was within its objective."""
        wish, pieces = self._wish, self._pieces
        course = Course(
            outcome,
            status=self._head.status if self._head else 0,
            begun=self._begun,
            first=self._first_at if pieces else None,
            last=self._last_at,
            pieces=pieces,
            over=self._context.plane.now(),
        )
        asked = self._placement.ask if self._placement is not None else None
        ttft_s, tpot_s = limits_of(wish.asking(None) if asked is None else asked)
        verdict = judge(course, ttft_s=ttft_s, tpot_s=tpot_s)
        self._meters.judged(verdict, priority=wish.hints.priority, tenant=wish.tenant)


OUTCOME_LABELS: Final = {value: name.removeprefix("OUTCOME_").lower() for name, value in Outcome.items()}


def outcome_of(status: int) -> Outcome:
    if status < _ERROR_STATUS:
        return OUTCOME_OK
    return OUTCOME_ENGINE_ERROR if status != 503 else OUTCOME_REFUSED  # noqa: PLR2004 - an engine or agent that is busy


def _is_event_stream(fields: Headers) -> bool:
    return (fields.get(b"content-type") or b"").startswith(b"text/event-stream")
