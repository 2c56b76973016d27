"""The shell around one hand-off: it asks the machine what to do, and does it.

It sends the prefill half and the confirmation itself; what concerns the own engine or the client is the job's to do.
"""

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import quote

from inferplane_runtime.http.api import Headers, Request, Response, ResponseHead, UpstreamFailure
from inferplane_workers.agent.handoff import (
    CancelDecode,
    CancelPrefill,
    Confirm,
    Effect,
    Event,
    Fail,
    Handoff,
    SendDecode,
    SendPrefill,
)
from inferplane_workers.agent.job_context import JobContext
from inferplane_workers.agent.job_trace import JobTrace
from inferplane_workers.agent.prefill_call import PrefillCall
from inferplane_workers.agent.routing_headers import Routing
from inferplane_workers.agent.timeline import Timeline

_CONFIRM_SILENCE_S = 5.0


class HandoffOwner(Protocol):
    """What a hand-off has its job do."""

    def send_decode(self, transfer: Mapping[str, Any] | None) -> None: ...

    def cancel_decode(self) -> None: ...

    def give_up(self) -> None: ...


class HandoffRun:
    """Carries one hand-off out; `over` ends it."""

    __slots__ = (
        "_body",
        "_call",
        "_context",
        "_handoff",
        "_over",
        "_owner",
        "_request",
        "_routing",
        "_timeline",
        "_trace",
    )

    holds_head = False

    def __init__(
        self,
        handoff: Handoff,
        *,
        context: JobContext,
        owner: HandoffOwner,
        request: Request,
        routing: Routing,
        body: Mapping[str, Any],
        timeline: Timeline,
        trace: JobTrace | None = None,
    ) -> None:
        self._handoff = handoff
        self._context = context
        self._owner = owner
        self._request = request
        self._routing = routing
        self._body = body
        self._timeline = timeline
        self._trace = trace
        self._call: PrefillCall | None = None
        self._over = False

    @property
    def refusal(self) -> Response | None:
        """What the prefill side said, if it refused."""
        return self._call.refusal if self._call else None

    def begin(self) -> None:
        self._on(Event.BEGIN)

    def first_token(self) -> None:
        self._on(Event.FIRST_TOKEN)

    def engine_failed(self, *, lost: bool) -> None:
        del lost  # it is asked once more without the transfer, also when it was away for a moment
        self._on(Event.ENGINE_FAILED)

    def client_gone(self) -> None:
        self._on(Event.CLIENT_GONE)

    def ended(self, *, whole: bool) -> None:
        del whole
        self._on(Event.ENDED)

    def _on(self, event: Event) -> None:
        self._run(self._handoff.on(event, now=self._context.now()))
        self._timeline.failed_prefill = self._handoff.failed

    def over(self) -> None:
        """Hear no more of the prefill side: the job has ended."""
        self._over = True
        self._call = None  # it holds this run: a ring would wait for the garbage collector

    def cancel_prefill(self) -> None:
        if self._call is not None:
            self._call.cancel()

    def _run(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case SendPrefill(address):
                    self._send_prefill(address)
                case SendDecode(transfer):
                    self._owner.send_decode(transfer)
                case Confirm(address, pulled):
                    self._confirm(address, pulled=pulled)
                case CancelPrefill():
                    self.cancel_prefill()
                case CancelDecode():
                    self._owner.cancel_decode()
                case Fail():
                    self._owner.give_up()

    def _send_prefill(self, address: str) -> None:
        context = self._context
        if not context.peers.trusted(address, self._routing.request_id):
            self._timeline.damaged_prefill.append(address)
            context.observer.handoff_failed(address, "its blocks arrive damaged")
            self._run(self._handoff.on(Event.PREFILL_FAILED, now=context.now()))
            return
        self._timeline.prefill_sent = context.now()
        self._call = PrefillCall(
            upstream=context.upstream,
            address=address,
            request=self._traced(address),
            routing=self._routing,
            dp_rank=self._routing.prefill_rank(self._handoff.tried - 1),
            body=self._body,
            adapter=context.adapter,
            silence_s=context.settings.prefill_silence_s,
            done=self._prefill_done,
        )
        self._call.begin()

    def _traced(self, address: str) -> Request:
        if self._trace is None:
            return self._request
        return self._trace.to_prefill(self._request, address, self._context.now())

    def _prefill_done(self, call: PrefillCall) -> None:
        if self._over:
            return
        now = self._context.now()
        if self._trace is not None:
            self._trace.prefilled(now, worker=call.worker or call.address, fault=call.cause)
        if call.event is Event.PREFILL_ANSWERED and call.transfer is not None:
            self._timeline.prefill_answered = now
            self._timeline.prefill_worker = call.worker or call.address
            self._timeline.prefill_usage = call.usage
            self._context.peers.used(call.address, now)
        elif call.event is not Event.PREFILL_REJECTED:
            self._context.observer.handoff_failed(call.address, call.cause)
        self._run(self._handoff.on(call.event, now=now, transfer=call.transfer))
        self._timeline.failed_prefill = self._handoff.failed

    def _confirm(self, address: str, *, pulled: bool) -> None:
        state = b'{"state":"pulled"}' if pulled else b'{"state":"abandoned"}'
        request = Request(
            b"POST",
            b"/handoff/" + quote(self._routing.request_id, safe="").encode(),
            headers=Headers(((b"content-type", b"application/json"),)),
            body=state,
        )
        # Best effort: a confirmation that is lost costs a draining worker the rest of its lease, nothing else.
        self._context.upstream.send(address, request, _Ignored(), silence_s=_CONFIRM_SILENCE_S)


class _Ignored:
    """Hears an answer that changes nothing."""

    __slots__ = ()

    def on_head(self, head: ResponseHead) -> None: ...

    def on_body(self, data: bytes) -> None: ...

    def on_end(self) -> None: ...

    def on_failure(self, failure: UpstreamFailure, detail: str) -> None: ...
