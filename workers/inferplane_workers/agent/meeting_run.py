"""The shell around one meeting of two halves: it asks the machine what to do, and does it.

The prefill half goes to a prefill agent with the place where the two engines meet; the own half is the job's to send.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from inferplane_runtime.http.api import Request, Response
from inferplane_workers.agent import handoff
from inferplane_workers.agent.job_context import JobContext
from inferplane_workers.agent.job_trace import JobTrace
from inferplane_workers.agent.meeting import CancelDecode, CancelPrefill, Effect, Event, GiveUp, Meet, Meeting
from inferplane_workers.agent.prefill_call import PrefillCall
from inferplane_workers.agent.routing_headers import Rendezvous, Routing
from inferplane_workers.agent.timeline import Timeline

_EVENTS: Final[Mapping[handoff.Event, Event]] = {
    handoff.Event.PREFILL_ANSWERED: Event.PREFILL_ANSWERED,
    handoff.Event.PREFILL_FAILED: Event.PREFILL_FAILED,
    handoff.Event.PREFILL_REJECTED: Event.PREFILL_REJECTED,
}


class MeetingOwner(Protocol):
    """What a meeting has its job do."""

    def send_decode(self, transfer: Mapping[str, Any] | None) -> None: ...

    def cancel_decode(self) -> None: ...

    def give_up(self) -> None: ...


class MeetingRun:
    """Carries one meeting out; `over` ends it."""

    __slots__ = (
        "_body",
        "_call",
        "_context",
        "_meeting",
        "_over",
        "_owner",
        "_request",
        "_routing",
        "_timeline",
        "_trace",
    )

    holds_head = True
    """An engine may begin to answer before the blocks have come: nothing is passed on before the first piece."""

    def __init__(
        self,
        candidates: tuple[str, ...],
        *,
        context: JobContext,
        owner: MeetingOwner,
        request: Request,
        routing: Routing,
        body: Mapping[str, Any],
        timeline: Timeline,
        trace: JobTrace | None = None,
    ) -> None:
        self._meeting = Meeting(candidates, draw=context.draw_room)
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
        """What the prefill side said, if it found fault with the request; all else may go better elsewhere."""
        rejected = self._call is not None and self._call.event is handoff.Event.PREFILL_REJECTED
        return self._call.refusal if self._call and rejected else None

    def begin(self) -> None:
        self._on(Event.BEGIN)

    def first_token(self) -> None:
        self._on(Event.FIRST_TOKEN)

    def engine_failed(self, *, lost: bool) -> None:
        self._on(Event.DECODE_LOST if lost else Event.DECODE_FAILED)

    def client_gone(self) -> None:
        self._on(Event.CLIENT_GONE)

    def ended(self, *, whole: bool) -> None:
        self._on(Event.ENDED if whole else Event.BROKEN)

    def over(self) -> None:
        """Hear no more of the prefill side: the job has ended."""
        self._over = True

    def cancel_prefill(self) -> None:
        if self._call is not None:
            self._call.cancel()

    def _on(self, event: Event) -> None:
        self._run(self._meeting.on(event))
        self._timeline.failed_prefill = self._meeting.failed

    def _run(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case Meet(address, room):
                    self._meet(address, room)
                case CancelPrefill():
                    self.cancel_prefill()
                case CancelDecode():
                    self._owner.cancel_decode()
                case GiveUp():
                    self._owner.give_up()

    def _meet(self, address: str, room: int) -> None:
        context = self._context
        place = Rendezvous(_host(address), context.settings.bootstrap_port, room)
        dp_rank = self._routing.prefill_rank(self._meeting.tried - 1)
        self._timeline.prefill_sent = context.now()
        self._timeline.prefill_worker = address
        self._timeline.prefill_usage = None
        call = PrefillCall(
            upstream=context.upstream,
            address=address,
            request=self._traced(address),
            routing=self._routing,
            dp_rank=dp_rank,
            body=self._body,
            adapter=context.adapter,
            silence_s=context.settings.prefill_silence_s,
            done=self._prefill_done,
            rendezvous=place,
        )
        self._call = call
        # The own half first: the prefill half may fail at once, and then this one is ended.
        self._owner.send_decode(context.adapter.meeting_fields(place, dp_rank))
        if self._call is call and not self._over:
            call.begin()

    def _traced(self, address: str) -> Request:
        if self._trace is None:
            return self._request
        return self._trace.to_prefill(self._request, address, self._context.now())

    def _prefill_done(self, call: PrefillCall) -> None:
        if self._over or call is not self._call:
            return
        event = _EVENTS[call.event]
        if self._trace is not None:
            self._trace.prefilled(self._context.now(), worker=call.worker or call.address, fault=call.cause)
        if event is Event.PREFILL_ANSWERED:
            self._timeline.prefill_answered = self._context.now()
            self._timeline.prefill_worker = call.worker or call.address
            self._timeline.prefill_usage = call.usage
        elif event is Event.PREFILL_FAILED:
            self._context.observer.handoff_failed(call.address, call.cause)
        self._on(event)


def _host(address: str) -> str:
    host, _, _ = address.rpartition(":")
    return host.strip("[]")
