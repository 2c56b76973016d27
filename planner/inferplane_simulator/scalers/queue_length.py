"""`hpa-queue`: Kubernetes' HorizontalPodAutoscaler on the mean number of waiting requests.

Source: the documentation of HorizontalPodAutoscaler (autoscaling/v2): desired = ceil(current x metric / target), a
tolerance of a tenth, at most twice as many or four more in 15 s, and down only to the highest count that was wanted in
the last 300 s.  Pods that are not ready count as if they had no queue.
"""

import math
from collections import deque
from dataclasses import dataclass, field

from inferplane_simulator.scaling import Staff

PERIOD_S = 15.0


@dataclass(slots=True)
class QueueLength:
    target: float = 5.0
    """Waiting requests of one worker."""
    tolerance: float = 0.1
    window_s: float = 300.0
    _wanted: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])

    def wanted(self, staff: Staff, now: float) -> int:
        here = max(1, staff.wanted)
        ratio = staff.waiting / here / self.target
        wanted = here if abs(ratio - 1.0) <= self.tolerance else math.ceil(here * ratio)
        self._wanted.append((now, wanted))
        while self._wanted[0][0] < now - self.window_s:
            self._wanted.popleft()
        stable = max(each for _, each in self._wanted)
        return min(wanted, max(2 * here, here + 4)) if wanted > here else min(here, max(1, stable))
