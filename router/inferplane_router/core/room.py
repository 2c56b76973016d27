"""How many requests a decode target takes now: what its engine admits, what keeps the pace, what a newcomer can bear.

Problem: an engine admits hundreds of requests, and every one more makes all of them slower; a worker that has just come
attracts everything, since nothing waits there.  Idea: a limit a target, written where the choice looks for it.  The
largest batch whose step is predicted to keep the service's TPOT for as many requests as the objective asks: what is
predicted is a mean, around which requests spread as much as predictions have been wrong; and for the first seconds of a
target that joins others a growing part of what those carry.
Trade-off: one context length for all of a service's requests.  What is learned of steps holds the prefills between
them, so the limit falls while an engine is busy with prompts, and gives it time to get out of that; a batch of an
eighth of what the engine admits is always allowed, since an objective that cannot be kept must not cost all throughput.
Invariant: a limit is never below `LEAST`, and a service whose targets all came together is not slowed down.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from math import pi, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np

from inferplane_router.core.score_kernels import (
    CONTEXT_TOKENS,
    IN_FLIGHT,
    STEP_BASE,
    STEP_CONTEXT,
    STEP_FACTOR,
    STEP_REQUEST,
    STEP_SPREAD,
    Floats,
    Slots,
)

if TYPE_CHECKING:
    from inferplane_router.core.fleet import Fleet

LEAST: Final = 4
_LEAST_BATCH: Final = 8
_LEAST_PART: Final = 8
"""One of so many of the requests that an engine admits is always let in."""
_USUAL_MOST: Final = 256
"""What is taken for an engine's own limit when it did not say."""
_START_S: Final = 10.0
_PERIOD_S: Final = 0.1
_USUAL_CONTEXT: Final = 1024.0
_CHANGE: Final = 0.05
"""Smaller changes of a limit are not written: every one makes a new picture of the fleet."""


@dataclass(slots=True)
class Room:
    """Follows one fleet."""

    context: float = _USUAL_CONTEXT
    """Tokens of a usual request in decoding."""
    _first: float | None = None
    _came: dict[int, float] = field(default_factory=dict[int, float])
    """Since when a target may be used; those that came with the first are not in it."""
    _known: frozenset[int] = frozenset()
    _due: float = float("-inf")

    def follow(
        self, fleet: "Fleet", now: float, tpot_s: float, *, percentile: float = 50.0, at_once: bool = False
    ) -> None:
        """Write the limits, at most ten times a second unless `at_once`."""
        if now < self._due and not at_once:
            return
        self._due = now + _PERIOD_S
        self._notice(fleet, now)
        limits = np.minimum(fleet.declared, self._paced(fleet, tpot_s, percentile))
        self._begin_slowly(fleet, now, limits)
        if _differ(limits, fleet.limits):
            fleet.limit(limits)

    def _notice(self, fleet: "Fleet", now: float) -> None:
        usable = frozenset(np.flatnonzero(fleet.ready_decode & ~fleet.suspect).tolist())
        if self._first is None and usable:
            self._first = now
        together = self._first is None or now - self._first < _START_S
        for slot in usable - self._known:
            self._came[slot] = float("-inf") if together else now
        self._known = usable
        self._came = {slot: came for slot, came in self._came.items() if slot in usable and now - came < _START_S}

    def _paced(self, fleet: "Fleet", tpot_s: float, percentile: float) -> Slots:
        """Return the largest batch that keeps the pace, for every target."""
        requests = float(fleet.load.rows[:, IN_FLIGHT].sum())
        if requests >= LEAST:
            self.context = float(fleet.load.rows[:, CONTEXT_TOKENS].sum()) / requests
        speeds = fleet.speeds
        mean_s = tpot_s / (1.0 + _errors_at(percentile) * speeds[:, STEP_SPREAD])
        step_s = mean_s / np.maximum(speeds[:, STEP_FACTOR], 1e-3)
        each_s = speeds[:, STEP_REQUEST] + speeds[:, STEP_CONTEXT] * self.context
        most: Floats = (step_s - speeds[:, STEP_BASE]) / np.maximum(each_s, 1e-9)
        least = np.maximum(_LEAST_BATCH, np.minimum(fleet.declared, _USUAL_MOST) // _LEAST_PART)
        return np.clip(most, least, 1 << 40).astype(np.int64)

    def _begin_slowly(self, fleet: "Fleet", now: float, limits: Slots) -> None:
        settled = [slot for slot in self._known if slot not in self._came]
        if not self._came or not settled:
            return
        carried = float(fleet.load.rows[settled, IN_FLIGHT].max())
        for slot, came in self._came.items():
            part = max(float(LEAST), carried * (now - came) / _START_S)
            limits[slot] = min(int(limits[slot]), int(part))


@lru_cache
def _errors_at(percentile: float) -> float:
    """Return how many mean absolute errors above the mean a normal distribution has its percentile."""
    return max(0.0, NormalDist().inv_cdf(percentile / 100.0)) * sqrt(pi / 2)


def _differ(new: Slots, old: Slots) -> bool:
    return bool((np.abs(new - old) > _CHANGE * np.minimum(new, old)).any())
