"""One request from its acceptance to its report.

A job is the sink of its engine's answer and is driven by callbacks alone: no task belongs to it.  It is finished
exactly once, by whichever comes first: the answer's end, a failure, or the client's going.
Streams are passed on piece by piece; unstreamed answers of generating routes are collected, because their head carries
the number of cached tokens, which the engine says at the body's end.
"""

from collections.abc import Mapping
from typing import Any, Self

from inferplane_runtime.http.api import (
    Call,
    Exchange,
    Headers,
    Request,
    Response,
    ResponseHead,
    UpstreamFailure,
)
from inferplane_workers.agent import body as bodies
from inferplane_workers.agent import usage as usages
from inferplane_workers.agent.adapter_wording import Wording
from inferplane_workers.agent.adapters import Use
from inferplane_workers.agent.body import Body, Shape
from inferplane_workers.agent.engine_adapter import HandoffOrder
from inferplane_workers.agent.errors import EngineLostError, EngineUnreachableError, answer
from inferplane_workers.agent.handoff import Handoff
from inferplane_workers.agent.handoff_run import HandoffRun
from inferplane_workers.agent.job_context import JobContext
from inferplane_workers.agent.job_trace import begin_trace
from inferplane_workers.agent.ledger import Entry, Ticket
from inferplane_workers.agent.meeting_run import MeetingRun
from inferplane_workers.agent.routing_headers import Routing, answer_headers, engine_headers
from inferplane_workers.agent.sse import UsageFilter
from inferplane_workers.agent.timeline import Outcome, Side, Timeline
from inferplane_workers.agent.usage import Usage

_COLLECT_LIMIT = 64 * 1024 * 1024
_SERVER_ERROR = 500
_OK = 200
_ERROR_EVENT = b'data: {"error"'
"""Begins a stream that is no answer."""


class Job:
    """One request in force."""

    __slots__ = (
        "_body",
        "_call",
        "_collected",
        "_context",
        "_done",
        "_exchange",
        "_failure",
        "_filter",
        "_handoff",
        "_head",
        "_holding",
        "_raw",
        "_request",
        "_shape",
        "_side",
        "_size",
        "_streaming",
        "_ticket",
        "_timeline",
        "_trace",
        "_use",
        "_wording",
        "model",
        "routing",
    )

    def __init__(
        self,
        context: JobContext,
        request: Request,
        exchange: Exchange,
        routing: Routing,
        *,
        side: Side,
        raw: bytes = b"",
        model: str = "",
        body: Body | None = None,
        shape: Shape | None = None,
        use: Use | None = None,
        names: Mapping[bytes, bytes] | None = None,
    ) -> None:
        self._context = context
        self._use = use
        table = use.table if use is not None else names
        self._wording = Wording(table) if table else None
        self._request = request
        self._exchange = exchange
        self.routing = routing
        self.model = shape.model if shape else model
        self._side = side
        self._raw = raw
        self._body = body
        self._shape = shape
        self._timeline = Timeline(accepted=context.now())
        self._trace = (
            begin_trace(context.tracer, request, routing, context.settings, side, at=self._timeline.accepted)
            if context.tracer is not None
            else None
        )
        self._handoff: HandoffRun | MeetingRun | None = None
        self._ticket: Ticket | None = None
        self._call: Call | None = None
        self._head: ResponseHead | None = None
        self._filter: UsageFilter | None = None
        self._collected: list[bytes] = []
        self._size = 0
        self._streaming = False
        self._holding = False
        self._failure: Response | None = None
        self._done = False

    @classmethod
    def plain(
        cls,
        context: JobContext,
        request: Request,
        exchange: Exchange,
        routing: Routing,
        *,
        raw: bytes = b"",
        model: str = "",
        use: Use | None = None,
        names: Mapping[bytes, bytes] | None = None,
    ) -> Self:
        """Make a job that forwards bytes as they are; with `use`, `raw` names the adapter as the engine does.

        `names` are put into the answer in the place of the engine's.
        """
        side = context.settings.role
        return cls(context, request, exchange, routing, side=side, raw=raw, model=model, use=use, names=names)

    @classmethod
    def prefill(
        cls,
        context: JobContext,
        request: Request,
        exchange: Exchange,
        routing: Routing,
        *,
        body: Body,
        shape: Shape,
        use: Use | None = None,
    ) -> Self:
        """Make the prefill half of a hand-off that another agent runs."""
        half = context.adapter.prefill_half(body, routing)
        return cls(context, request, exchange, routing, side=Side.PREFILL, body=half, shape=shape, use=use)

    @classmethod
    def decode(
        cls,
        context: JobContext,
        request: Request,
        exchange: Exchange,
        routing: Routing,
        *,
        body: Body,
        shape: Shape,
        use: Use | None = None,
    ) -> Self:
        """Make a request that ends here, with a hand-off where the router wants one and it can be had."""
        job = cls(context, request, exchange, routing, side=Side.DECODE, body=body, shape=shape, use=use)
        if routing.prefill and shape.handoff_possible:
            job._handoff = job._hand_off(body)
        return job

    def _hand_off(self, body: Body) -> HandoffRun | MeetingRun:
        context, traits = self._context, self._context.adapter.traits
        candidates, request, routing = self.routing.prefill, self._request, self.routing
        if traits.handoff_order == HandoffOrder.CONCURRENT:
            return MeetingRun(
                candidates,
                context=context,
                owner=self,
                request=request,
                routing=routing,
                body=body,
                timeline=self._timeline,
                trace=self._trace,
            )
        handoff = Handoff(
            candidates,
            deadline_s=min(context.settings.handoff_deadline_s, traits.lease_s / 2),
            local_prefill=traits.decode_can_prefill,
        )
        return HandoffRun(
            handoff,
            context=context,
            owner=self,
            request=request,
            routing=routing,
            body=body,
            timeline=self._timeline,
            trace=self._trace,
        )

    def begin(self) -> None:
        context = self._context
        if not context.live:
            context.busy_since = self._timeline.accepted
        context.live.add(self)
        if self._request.method != b"GET":
            self._ticket = context.ledger.accept(_entry(self.routing))
            context.observer.accepted(self.routing, self._side)
        self._exchange.on_disconnect(self._client_gone)
        if self._handoff is not None:
            self._handoff.begin()
        else:
            self.send_decode(None)

    # The own engine.

    def send_decode(self, transfer: Mapping[str, Any] | None) -> None:
        context = self._context
        self._head = None
        self._holding = False
        self._collected = []
        self._size = 0
        if transfer is None:
            self._timeline.prefill_worker = ""
            self._timeline.prefill_usage = None
        self._timeline.engine_sent = context.now()
        headers = engine_headers(self._request.headers, self.routing)
        if self._trace is not None:
            headers = self._trace.to_engine(headers, self._timeline.engine_sent, transfer=transfer is not None)
        request = Request(
            self._request.method, self._request.path, self._request.query, headers, self._engine_body(transfer)
        )
        self._call = context.upstream.send(
            context.settings.engine_address, request, self, silence_s=context.settings.engine_silence_s
        )

    def _engine_body(self, transfer: Mapping[str, Any] | None) -> bytes:
        if self._body is None:
            return self._raw
        body = self._body if transfer is None else self._context.adapter.decode_half(self._body, transfer)
        if self._streams and self._side is Side.DECODE:
            body = dict(body)
            bodies.ask_for_usage(body)
        if self._use is not None:
            body = {**body, "model": self._context.engine_model(self._use)}
        return bodies.write(body)

    @property
    def _streams(self) -> bool:
        return self._shape is not None and self._shape.stream

    def on_head(self, head: ResponseHead) -> None:
        self._context.progress_at = self._context.now()
        if self._may_retry and head.status >= _SERVER_ERROR:
            self.cancel_decode()
            self._engine_failed(None)
            return
        self._head = head
        if self._body is not None and not _is_stream(head):
            return  # collected: see on_end
        self._holding = self._handoff is not None and self._handoff.holds_head
        if not self._holding:
            self._start_stream(head)

    def _start_stream(self, head: ResponseHead) -> None:
        self._streaming = True
        if self._body is not None and self._shape is not None and self._streams and head.status == _OK:
            self._filter = UsageFilter(
                self._shape.wish, many=self._shape.choices > 1, fingerprint=self._context.fingerprint
            )
        self._exchange.on_pressure(self._on_pressure)
        self._exchange.start(ResponseHead(head.status, self._answer_headers(head)))

    def on_body(self, data: bytes) -> None:
        context = self._context
        now = context.now()
        context.progress_at = now
        if self._holding and self._head is not None:
            self._holding = False
            if data.startswith(_ERROR_EVENT):
                self.cancel_decode()
                self._engine_failed(None)
                return
            self._start_stream(self._head)
        if not self._streaming:
            self._collect(data)
            return
        timeline = self._timeline
        if not timeline.begun:
            self._first_token()
        timeline.token(now)
        if self._filter is not None:
            data = self._filter.feed(data)
        if self._wording is not None:
            data = self._wording.feed(data)
        if data:
            self._exchange.write(data)

    def on_end(self) -> None:
        now = self._context.now()
        if self._streaming:
            self._end_stream()
        else:
            self._timeline.token(now)
            self._end_whole()

    def on_failure(self, failure: UpstreamFailure, detail: str) -> None:
        del detail  # an address and a system's words: for the log of the HTTP client, not for clients
        if self._done:
            return
        if self._exchange.started:
            self._exchange.abort()
            self._finish(Outcome.ENGINE_LOST, self._head.status if self._head else 0)
            return
        error = (
            EngineUnreachableError("the engine of this worker does not answer")
            if failure is UpstreamFailure.REFUSED
            else EngineLostError("the engine of this worker was lost before its answer was complete")
        )
        self._engine_failed(answer(error))

    def fail(self, message: str) -> None:
        """End the job from outside: the engine was found dead or hung."""
        if self._done:
            return
        self.cancel_decode()
        if self._handoff is not None:
            self._handoff.cancel_prefill()
        if self._exchange.started:
            self._exchange.abort()
        else:
            self._exchange.respond(answer(EngineLostError(message)))
        self._finish(Outcome.ENGINE_LOST, 502)

    @property
    def _may_retry(self) -> bool:
        """A transfer may be what the engine could not do: without it, it is asked once more."""
        return self._handoff is not None and bool(self._timeline.prefill_worker) and not self._exchange.started

    def _engine_failed(self, response: Response | None) -> None:
        self._failure = response
        if self._handoff is not None:
            self._handoff.engine_failed(lost=response is not None)
        else:
            self.give_up()

    def give_up(self) -> None:
        refusal = self._handoff.refusal if self._handoff else None
        response = self._failure or refusal or answer(EngineLostError("no worker could prefill"))
        self._exchange.respond(response)
        self._finish(Outcome.ENGINE_LOST, response.status)

    def _first_token(self) -> None:
        if self._ticket is not None:
            self._context.ledger.prefill_done(self._ticket)
        if self._handoff is not None:
            self._handoff.first_token()

    def _collect(self, data: bytes) -> None:
        self._collected.append(data)
        self._size += len(data)
        if self._size > _COLLECT_LIMIT and self._head is not None:
            self._streaming = True
            self._exchange.start(ResponseHead(self._head.status, self._answer_headers(self._head)))
            for piece in self._collected:
                self._exchange.write(piece if self._wording is None else self._wording.feed(piece))
            self._collected = []

    def _end_stream(self) -> None:
        if self._filter is not None:
            self._write_rest(self._filter.finish())
            if self._filter.fingerprint_seen:
                self._context.fingerprint = self._filter.fingerprint_seen
        if self._wording is not None:
            self._write_rest(self._wording.finish())
        self._exchange.end()
        status = self._head.status if self._head else 0
        self._finish(Outcome.OK if status < 400 else Outcome.ENGINE_ERROR, status)  # noqa: PLR2004 - HTTP

    def _write_rest(self, data: bytes) -> None:
        if data:
            self._exchange.write(data)

    def _end_whole(self) -> None:
        head = self._head or ResponseHead(502, Headers())
        raw = b"".join(self._collected)
        if self._wording is not None:
            raw = self._wording.whole(raw)
        usage, fields = usages.from_answer(raw) if head.status == _OK else (None, None)
        self._first_token()
        if self._side is Side.PREFILL and fields is not None:
            self._note_offer(fields)
        headers = self._answer_headers(head).without((b"content-length",))
        cached = self._cached(usage)
        if cached is not None:
            headers = headers.plus((b"x-inferplane-cached-tokens", b"%d" % cached))
        self._exchange.respond(Response(head.status, headers, raw))
        outcome = Outcome.OK if head.status == _OK else _outcome_of(head.status)
        self._finish(outcome, head.status, usage)

    def _note_offer(self, fields: Mapping[str, Any]) -> None:
        if self._context.adapter.transfer_of(fields) is not None:
            self._context.transfers.offered(self.routing.request_id, self._context.now())

    def _cached(self, usage: Usage | None) -> int | None:
        remote = self._timeline.prefill_usage
        if remote is not None and remote.cached is not None:
            return remote.cached
        return usage.cached if usage else None

    def _answer_headers(self, head: ResponseHead) -> Headers:
        ours: tuple[tuple[bytes, bytes], ...] = (
            (b"x-inferplane-worker", self._context.settings.worker_id.encode("latin-1")),
        )
        if self._timeline.prefill_worker:
            ours += ((b"x-inferplane-prefill-worker", self._timeline.prefill_worker.encode("latin-1")),)
        headers = answer_headers(head.headers)
        if self._filter is not None or self._wording is not None:
            headers = headers.without((b"content-length",))
        return headers.plus(*ours)

    def _on_pressure(self, slow: bool) -> None:  # noqa: FBT001 - the exchange's callback
        if self._call is None:
            return
        if slow:
            self._call.pause()
        else:
            self._call.resume()

    def _client_gone(self) -> None:
        if self._done:
            return
        if self._handoff is not None:
            self._handoff.client_gone()
        else:
            self.cancel_decode()
        self._finish(Outcome.CLIENT_GONE, 499)

    def cancel_decode(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.cancel()

    def _finish(self, outcome: Outcome, status: int, usage: Usage | None = None) -> None:
        if self._done:
            return
        self._done = True
        self._call = None
        context = self._context
        context.live.discard(self)
        if self._handoff is not None:
            self._handoff.ended(whole=outcome is Outcome.OK)
            self._handoff.over()
            self._handoff = None  # it holds this job: a ring would wait for the garbage collector
        if self._use is not None:
            self._use.end()
        if self._trace is not None:
            self._trace.over(self._timeline, outcome, status, context.now(), streamed=self._streaming)
        if usage is None and self._filter is not None:
            usage = self._filter.usage
        if self._ticket is None:
            return
        context.ledger.finish(self._ticket, output_tokens=usage.output if usage else 0)
        context.observer.reported(
            self._timeline.report(
                routing=self.routing,
                outcome=outcome,
                status=status,
                model=self.model,
                side=self._side,
                streamed=self._streaming and self._filter is not None,
                usage=usage,
                now=context.now(),
            )
        )


def _entry(routing: Routing) -> Entry:
    return Entry(
        request_id=routing.request_id,
        router_epoch=routing.router_epoch,
        dp_rank=routing.dp_rank,
        prompt_tokens=routing.prompt_tokens,
        uncached_tokens=routing.uncached_tokens,
        tenant=routing.tenant,
        adapter=routing.adapter,
        adapter_revision=routing.adapter_revision,
        priority=routing.priority,
        nonce=routing.nonce,
    )


def _is_stream(head: ResponseHead) -> bool:
    kind = head.headers.get(b"content-type") or b""
    return kind.startswith(b"text/event-stream")


def _outcome_of(status: int) -> Outcome:
    return Outcome.BAD_REQUEST if 400 <= status < _SERVER_ERROR else Outcome.ENGINE_ERROR  # noqa: PLR2004 - HTTP
