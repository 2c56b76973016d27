"""The account that one router process keeps: looks at the core now and then, and writes down what is new.

Nothing is done on the way of a request but to note the id of one that ended.
Invariant: a disk that is full or gone costs lines, never requests.
"""

from collections import Counter, deque
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import orjson
import structlog

from inferplane_api.proto.router_pb2 import PICK_OUTCOME_ROUTED, DecisionRecord
from inferplane_api.proto.worker_pb2 import ROLE_PREFILL, RequestReport
from inferplane_observability.incident.happening import Happening, Kind, written
from inferplane_router.chronicle.comparing import already_ill, failed_answers, failed_handoffs, happened
from inferplane_router.chronicle.ended import ended
from inferplane_router.chronicle.pacing import Paces
from inferplane_router.chronicle.plain import plain_fields
from inferplane_router.chronicle.rolled_file import RolledFile
from inferplane_router.core.naming import ServiceKey, service_key
from inferplane_router.core.records import Decision
from inferplane_router.core.router import RouterCore
from inferplane_router.core.values import ServiceView, Statistics
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_runtime.clock import Clock

EVENTS: Final = "events"
DECISIONS: Final = "decisions"
_SAMPLE_S: Final = 5.0
_ENDED: Final = 1024
"""Requests that ended and are not written yet; more in half a second are left out."""
_REFUSED: Final = 64
_AT_ONCE: Final = 100
"""Decisions written at one look: writing one out takes a tenth of a millisecond and more."""
_log = structlog.get_logger("inferplane.chronicle")


class Chronicle:
    """To be looked after every half second with `look`."""

    def __init__(self, core: RouterCore, meters: GatewayMeters, clock: Clock, folder: Path, *, most_bytes: int) -> None:
        self._core = core
        self._meters = meters
        self._clock = clock
        self._events = RolledFile(folder, EVENTS, most_bytes=most_bytes // 4)
        self._decisions = RolledFile(folder, DECISIONS, most_bytes=most_bytes * 3 // 4)
        self._paces = Paces()
        self._seen: Statistics | None = None
        self._sampled_at = float("-inf")
        self._sampled: dict[ServiceKey, Counter[str]] = {}
        self._ended: deque[str] = deque(maxlen=_ENDED)
        self._refused_until = clock.wall()
        self._well = True

    def ended(self, report: RequestReport) -> None:
        """Note the report of the side that answered."""
        if report.side != ROLE_PREFILL:
            self._ended.append(report.request_id)

    def look(self) -> None:
        """Write down what is new."""
        at, statistics = self._clock.wall(), self._core.statistics()
        decisions = self._decided(at)
        requests = [ended(it) for it in decisions]
        found = [
            *failed_handoffs(requests, statistics, at),
            *failed_answers(requests, at),
            *self._paces.take(requests, at),
        ]
        found += happened(self._seen, statistics, at) if self._seen is not None else already_ill(statistics, at)
        self._seen = statistics
        if self._clock.monotonic() - self._sampled_at >= _SAMPLE_S:
            self._sampled_at = self._clock.monotonic()
            found += [self._sample(it, at) for it in statistics.services]
        self._write(found, map(self._line, decisions))

    # Inside.

    def _line(self, decision: Decision) -> str:
        return orjson.dumps(plain_fields(DecisionRecord, self._core.account(decision))).decode()

    def _write(self, found: Iterable[Happening], decisions: Iterable[str]) -> None:
        try:
            self._events.append(written(it) for it in found)
            self._decisions.append(decisions)
        except OSError as error:
            if self._well:
                _log.warning("what happens cannot be written down", error=str(error))
            self._well = False
        else:
            self._well = True

    def _sample(self, service: ServiceView, at: float) -> Happening:
        """Count what came since the sample before."""
        key = service_key(service.settings)
        meters = self._meters.of(key)
        now = Counter(
            met=meters.streams("both", met=True),
            missed=meters.streams("both", met=False),
            arrived=sum(meters.duration.counts) + int(meters.running.value),
            refused=meters.refusals(),
            tokens=int(meters.prompt_tokens.sum),
        )
        before = self._sampled.get(key, Counter())
        self._sampled[key] = now
        numbers = {name: float(now[name] - before[name]) for name in now if now[name] != before[name]}
        numbers |= {"queued": float(service.queued), "in_flight": float(service.in_flight)}
        return Happening(at, Kind.LOAD, f"{service.namespace}/{service.name}", numbers=numbers)

    def _decided(self, at: float) -> list[Decision]:
        ids = [self._ended.popleft() for _ in range(min(_AT_ONCE, len(self._ended)))]
        ids += self._refusals(at)
        found = (self._core.decision(each) for each in dict.fromkeys(ids))
        return [decision for decision in found if decision is not None]

    def _refusals(self, at: float) -> list[str]:
        """Name the requests that got no place since the last look: no agent reports those."""
        since, self._refused_until = self._refused_until, at
        recent = (it for it in self._core.recent(_REFUSED) if since <= it.decided_at < at)
        return [it.ask.request_id for it in recent if it.outcome != PICK_OUTCOME_ROUTED]
