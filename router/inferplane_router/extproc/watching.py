"""Requests behind a proxy, held against their objective and traced by what their agents report.

Problem: a proxy takes the answer past the picker, so nobody here sees its first piece or its end.
Idea: the agent that gave it reports its times; with the wait for a place before them they are what a gateway measures.
What no worker answered is known here, and judged when it ends.
Trade-off: the ways between client, proxy and agent are in none of these times; without a report nothing is judged.
Invariant: a request is judged at most once, and not by a worker that gave it nothing while another one answered.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from inferplane_api.proto.worker_pb2 import ROLE_DECODE, Outcome, RequestReport
from inferplane_router.core.naming import service_key
from inferplane_router.core.objective import limits_of
from inferplane_router.core.values import Routed
from inferplane_router.gateway.attainment import FAULTS, Course, judge
from inferplane_router.gateway.data_plane import Placement, Wish
from inferplane_router.gateway.errors import GatewayError
from inferplane_router.gateway.forward import OUTCOME_LABELS
from inferplane_router.gateway.meters import GatewayMeters, ServiceMeters
from inferplane_router.gateway.request_trace import RequestTrace, begin_trace
from inferplane_runtime.http.api import Headers, Request
from inferplane_runtime.tracing.context import TRACEPARENT
from inferplane_runtime.tracing.tracer import Tracer

MOST_AWAITED: Final = 20_000
_ERROR: Final = 400
_NOTHING: Final = Headers()
_Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Terms:
    """What a stream is held against, and under whose name it is counted."""

    meters: ServiceMeters
    ttft_s: float
    tpot_s: float
    priority: int
    tenant: str


class Watch:
    """All requests that are watched, by what their reports are known by."""

    def __init__(self, *, now: Callable[[], float], meters: GatewayMeters, tracer: Tracer | None = None) -> None:
        self.now = now
        self._meters = meters
        self._tracer = tracer
        self._awaited: dict[_Key, Watched] = {}

    def begin(self, wish: Wish, headers: Headers, at: float) -> "Watched | None":
        """Watch a request; None where there is nothing to see: no stream, and no trace of it."""
        trace = None
        if self._tracer is not None:
            trace = begin_trace(self._tracer, Request(b"POST", wish.path, b"", headers), wish, at)
        if trace is None and not wish.body.stream:
            return None
        watched = Watched(self, (wish.request_id, wish.nonce), trace, begun=at)
        self._awaited[watched.key] = watched
        if len(self._awaited) > MOST_AWAITED:
            next(iter(self._awaited.values())).give_up()
        return watched

    def terms(self, placement: Placement) -> Terms:
        """Return what a stream is held against, of what was asked for it."""
        wish = placement.wish
        ttft_s, tpot_s = limits_of(wish.asking(None) if placement.ask is None else placement.ask)
        return Terms(self._meters.of(service_key(wish.model.service)), ttft_s, tpot_s, wish.hints.priority, wish.tenant)

    def reported(self, report: RequestReport) -> None:
        """Take what an agent says of a request that is over; most are not watched here."""
        watched = self._awaited.get((report.request_id, report.nonce))
        if watched is not None and report.side == ROLE_DECODE:
            watched.reported(report)

    def forget(self, key: _Key) -> None:
        self._awaited.pop(key, None)


class Watched:
    """One request, from the wish to the agent's report."""

    __slots__ = ("_begun", "_left", "_placed", "_report", "_status", "_terms", "_trace", "_watch", "key")

    def __init__(self, watch: Watch, key: _Key, trace: RequestTrace | None, *, begun: float) -> None:
        self.key = key
        self._watch = watch
        self._trace = trace
        self._begun = self._placed = begun
        self._left = False
        """The proxy has said its last: the report alone is waited for."""
        self._status = 0
        self._report: RequestReport | None = None
        self._terms: Terms | None = None

    def found(self, found: Routed | GatewayError, placement: Placement) -> Headers:
        """Take what the search came to; return the headers with which the agent goes on."""
        at = self._placed = self._watch.now()
        if placement.wish.body.stream:
            self._terms = self._watch.terms(placement)
        if self._trace is None:
            return _NOTHING
        if isinstance(found, GatewayError):
            self._trace.refused(found, at)
            return _NOTHING
        return self._trace.placed(found, _NOTHING, at, queued_s=placement.queued_s)

    def left(self, outcome: Outcome, status: int, *, served: bool) -> None:
        """Take the proxy's last word; `served`: a worker may have given the answer, or still give it."""
        self._status = status
        if not served or status >= _ERROR:
            self._conclude(Course(outcome, status, self._begun, None, self._begun, 0, self._watch.now()))
            return
        self._left, report, self._report = True, self._report, None
        if report is not None and _answered(report, status):
            self._conclude(self._course(report))

    def reported(self, report: RequestReport) -> None:
        """Judge by an agent's report, or keep it until the proxy has said what it answered."""
        if self._left:
            self._conclude(self._course(report))
        else:
            self._report = report

    def give_up(self) -> None:
        """Wait no longer: what became of it is not known."""
        self._watch.forget(self.key)
        if self._trace is not None:
            self._trace.over("unreported", self._watch.now(), status=self._status, fault=False)
            self._trace = None

    def _course(self, report: RequestReport) -> Course:
        first = self._placed + report.ttft_s if report.ttft_s > 0 else None
        pieces = 0 if first is None else report.output_tokens if report.tpot_s > 0 else 1
        last = (first or self._placed) + (report.tpot_s * (pieces - 1) if pieces > 1 else 0.0)
        status = self._status or report.status
        return Course(report.outcome, status, self._begun, first, last, pieces, self._watch.now())

    def _conclude(self, course: Course) -> None:
        self._watch.forget(self.key)
        if self._terms is not None:
            _count(course, self._terms)
        if self._trace is not None:
            if course.first is not None:
                self._trace.began(course.first)
            said, fault = OUTCOME_LABELS[course.outcome], course.outcome in FAULTS
            self._trace.over(said, course.over, status=course.status, fault=fault)


def passed_on(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Return what is to be set on the request so that the agent's spans stand below the try."""
    return [pair for pair in headers.pairs if pair[0] == TRACEPARENT]


def _answered(report: RequestReport, status: int) -> bool:
    """Whether it is of the worker that gave the proxy its answer, even if no token came with it."""
    return report.ttft_s > 0 or status in {0, report.status}


def _count(course: Course, terms: Terms) -> None:
    if course.answered and course.first is not None:
        terms.meters.ttft.observe(course.first - course.begun)
        if course.pieces > 1:
            terms.meters.tpot.observe((course.last - course.first) / (course.pieces - 1))
    verdict = judge(course, ttft_s=terms.ttft_s, tpot_s=terms.tpot_s)
    terms.meters.judged(verdict, priority=terms.priority, tenant=terms.tenant)
