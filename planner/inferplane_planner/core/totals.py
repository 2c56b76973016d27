"""How long a request's own time and its wait take together.

Problem.  A sample says what requests take by themselves, a queue what they wait; a limit and a percentile are of both.
Idea.  The wait is exponential or none, so how many are late at a moment is what each own time adds to one exponential:
with own times in order and those sums along them, a share is looked up and a percentile is solved for.  Sums are kept
as logarithms, since an own time may be thousands of mean waits.
Trade-off.  The wait of a request does not depend on its own time, as in any queue without priorities.
Invariant.  `within` grows with the limit, and `percentile` is the least limit with which it reaches a share.
"""

import math
from typing import Final

import numpy as np

from inferplane_planner.core.demand import Floats
from inferplane_planner.core.queueing import Wait

_NOTHING_S: Final = 1e-9
"""A mean wait that nobody could measure."""


class Total:
    """Own times of a sample of requests in seconds, each of which waits beforehand."""

    __slots__ = ("_mean_s", "_own", "_sums", "_waits")

    def __init__(self, wait: Wait, own: Floats) -> None:
        self._own = np.sort(own)
        self._waits, self._mean_s = wait.waits, wait.mean_of_waiting_s
        if wait.mean_of_waiting_s < _NOTHING_S:
            self._waits, self._mean_s = 0.0, 1.0
        waiting: Floats = np.logaddexp.accumulate(self._own / self._mean_s)
        self._sums = waiting
        """Logarithms of the sums of exp(own / mean wait) up to each."""

    def within(self, limit_s: float) -> float:
        """Return the share of requests that take no longer."""
        if math.isinf(self._mean_s):
            return 0.0
        begun = int(np.searchsorted(self._own, limit_s, side="right"))
        late = float(self._own.size - begun)
        if begun:
            late += self._waits * math.exp(self._sums[begun - 1] - limit_s / self._mean_s)
        return 1.0 - late / self._own.size

    def percentile(self, share: float) -> float:
        """Return the least time within which that share of requests is."""
        if math.isinf(self._mean_s):
            return math.inf
        size, may_be_late = self._own.size, (1.0 - share) * self._own.size
        late = np.arange(size - 1, -1, -1) + self._waits * np.exp(self._sums - self._own / self._mean_s)
        place = int(np.count_nonzero(late > may_be_late))
        left = may_be_late - (size - place)
        if place == 0 or left <= 0.0 or self._waits == 0.0:
            return float(self._own[min(place, size - 1)])
        reached = float(self._mean_s * (self._sums[place - 1] - math.log(left / self._waits)))
        return reached if place == size else min(reached, float(self._own[place]))
