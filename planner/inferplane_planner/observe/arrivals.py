"""Arrivals counted by interval, and which intervals were heard whole.

Problem.  A count of nothing means that nobody asked or that nobody was heard, and a planner that takes one for the
other empties a busy service.
Idea.  Every source says when it is heard and when it is lost.  An interval is whole when at least one source is known
and all of them were heard from its beginning to its end; the count of another is a lower bound.
Trade-off.  Arrivals count when they are heard, by the planner's clock: a late one lands in a later interval, and no two
machines' clocks are compared.
Invariants.  A request counts once, whoever tells of it how often.  Memory is bounded.
"""

import math
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Final

from inferplane_planner.core.contract import Count

_IDS_KEPT: Final = 65_536
_GAPS: Final = 512
_LEAST_GAPS: Final = 32
_MOST_BURST: Final = 8.0


@dataclass(slots=True)
class Arrivals:
    """`interval_s` is the length of an interval; `began_s` the moment from which on somebody listens."""

    interval_s: float
    began_s: float
    _heard: dict[str, bool] = field(default_factory=dict[str, bool])
    _counts: dict[int, int] = field(default_factory=dict[int, int])
    _broken: set[int] = field(default_factory=set[int])
    _marked: int = 0
    _told: int = 0
    _ids: OrderedDict[str, None] = field(default_factory=OrderedDict[str, None])
    _last_s: float = -math.inf
    _gaps: deque[float] = field(default_factory=lambda: deque[float](maxlen=_GAPS))

    def __post_init__(self) -> None:
        self._marked = self._told = self._interval(self.began_s)
        self._broken.add(self._marked)

    def hear(self, source: str, now: float) -> None:
        """Note that a source is heard from now on."""
        self._mark(now)
        self._heard[source] = True

    def lose(self, source: str, now: float) -> None:
        """Note that a source that should be heard is not."""
        self._mark(now)
        self._heard[source] = False
        self._broken.add(self._interval(now))

    def forget(self, source: str, now: float) -> None:
        """Note that a source is no more."""
        self._mark(now)
        self._heard.pop(source, None)

    @property
    def blind(self) -> bool:
        """Whether no source is heard."""
        return not any(self._heard.values())

    def arrive(self, request_id: str, now: float) -> bool:
        """Count a request; return whether it was news."""
        if request_id in self._ids:
            return False
        self._ids[request_id] = None
        if len(self._ids) > _IDS_KEPT:
            self._ids.popitem(last=False)
        interval = max(self._interval(now), self._told)
        self._counts[interval] = self._counts.get(interval, 0) + 1
        if now >= self._last_s > -math.inf:
            self._gaps.append(now - self._last_s)
        self._last_s = now
        return True

    def take(self, now: float) -> tuple[Count, ...]:
        """Return the intervals that have ended since the last call."""
        self._mark(now)
        ended = range(self._told, self._interval(now))
        self._told = max(self._told, self._interval(now))
        found = tuple(self._count(interval) for interval in ended)
        self._broken = {interval for interval in self._broken if interval >= self._told}
        return found

    @property
    def open_requests(self) -> int:
        """Requests of the interval that has not ended."""
        return self._counts.get(self._told, 0)

    @property
    def burst(self) -> float:
        """Squared coefficient of variation of the gaps between arrivals, in quarters; 1 while too few are known."""
        if len(self._gaps) < _LEAST_GAPS:
            return 1.0
        mean = sum(self._gaps) / len(self._gaps)
        if mean <= 0:
            return 1.0
        variance = sum((gap - mean) ** 2 for gap in self._gaps) / len(self._gaps)
        return min(_MOST_BURST, max(1.0, round(variance / mean**2 * 4.0) / 4.0))

    def _count(self, interval: int) -> Count:
        return Count(
            ended_s=(interval + 1) * self.interval_s,
            requests=self._counts.pop(interval, 0),
            whole=interval not in self._broken,
        )

    def _mark(self, now: float) -> None:
        """Mark the intervals since the last call in which not all sources were heard."""
        current = self._interval(now)
        if not self._heard or not all(self._heard.values()):
            self._broken.update(range(self._marked, current + 1))
        self._marked = max(self._marked, current)

    def _interval(self, now: float) -> int:
        return math.floor(now / self.interval_s)
