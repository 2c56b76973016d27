"""Whether waiting can help, and when to come back if it cannot.

Problem: under more work than capacity a queue makes everybody late, and clients that are refused come back together.
Idea: the wait is predicted from the pace at which requests are served; who cannot be served in time is told at once.
A burst is let wait, as long as the service allows; only when somebody has been late all the time for a while is it
`Strain`, and then nobody is let wait longer than keeps its limit.  Those who are refused get appointments one after the
other, as far apart as the service can take them.
Trade-off: the pace is Little's law over recent requests, half by number and half by work; it lags by one request.
Invariant: a refusal says a time between one second and a minute.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

_SETTLED: Final = 8
"""Completions from which the pace is believed."""
_LEAST_RETRY_S: Final = 1.0
_MOST_RETRY_S: Final = 60.0
_SPREAD_S: Final = 10.0
"""How far apart those are told to come back who could be served next: nobody knows whether all of them will."""
_LEAST_INTERVAL_S: Final = 5.0
_HOLD_SHARE: Final = 0.3
_LEAST_HOLD_S: Final = 0.2
_LEAST_SHARE: Final = 0.5
"""Part of its limit for which a request is let wait, however long its own prompt takes."""


@dataclass(slots=True)
class Pace:
    """How fast room comes free: how long requests keep their place, recent ones counting more.

    Times between completions would not do: they hold the idle time too, and after a quiet hour a burst that a full
    service works off in seconds would be refused as hopeless.
    """

    held_s: float = 0.0
    work: float = 1.0
    """Uncached tokens of a usual request."""
    completions: int = 0

    def completed(self, held_s: float, work: float = 1.0) -> None:
        self.completions += 1
        gain = max(0.05, 1 / self.completions)
        self.held_s += gain * (held_s - self.held_s)
        self.work += gain * (max(1.0, work) - self.work)

    def wait_s(self, count: int, work: float, in_flight: int) -> float | None:
        """Predict the wait behind so many requests with so much work; None before enough was seen."""
        if self.completions < _SETTLED:
            return None
        return (1 + 0.5 * (count + work / self.work)) * self.each_s(in_flight)

    def each_s(self, in_flight: int) -> float:
        """Return the time between two places that come free."""
        return self.held_s / max(1, in_flight)


def patience_s(limit_s: float, own_s: float) -> float:
    """Return how long a request may wait: what its limit leaves beside its own time, at least half of the limit.

    A prompt so long that it misses its limit by itself is let wait too: otherwise it would never be served.
    """
    return max(_LEAST_SHARE * limit_s, limit_s - own_s)


def hold_s(limit_s: float) -> float:
    """Return how much prefill may wait at an engine, where nobody can overtake it any more.

    It is the service's, not a request's: who has a tight limit must not find every queue too long for itself while
    those with a loose one fill them.
    """
    return max(_LEAST_HOLD_S, _HOLD_SHARE * limit_s)


@dataclass(slots=True)
class Strain:
    """More work than capacity, as opposed to a burst: somebody was late all the time, for a while."""

    _since: float | None = None
    _last: float = 0.0

    def trouble(self, now: float, limit_s: float) -> None:
        """Somebody is late, or would be."""
        self.rest(now, limit_s)
        if self._since is None:
            self._since = now
        self._last = now

    def rest(self, now: float, limit_s: float) -> None:
        """Forget trouble that is over."""
        if self._since is not None and now - self._last > _interval_s(limit_s):
            self._since = None

    def lasts(self, now: float, limit_s: float) -> bool:
        self.rest(now, limit_s)
        return self._since is not None and now - self._since >= _interval_s(limit_s)


def _interval_s(limit_s: float) -> float:
    return max(_LEAST_INTERVAL_S, 2 * limit_s)


@dataclass(slots=True)
class Appointments:
    """When those who are refused should come back."""

    jitter: Callable[[], float] = field(default=lambda: 0.5)
    """Draws from [0, 1): replicas of a router do not know each other's appointments."""
    _next: float = 0.0

    def give(self, now: float, *, wait_s: float, each_s: float) -> float:
        """Return in how many seconds to come back, given the wait for one who would join now."""
        begins = now + wait_s
        self._next = min(max(self._next, begins) + each_s, begins + _SPREAD_S)
        return min(_MOST_RETRY_S, max(_LEAST_RETRY_S, (self._next - now) * (0.9 + 0.2 * self.jitter())))

    def free(self, now: float) -> None:
        """Follow that there is room for whoever comes: nobody waits for an appointment any more."""
        self._next = min(self._next, now)
