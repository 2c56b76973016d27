"""`apa`: use against a target with a dead band, after AIBrix's APA.

Source: AIBrix's documentation of its autoscalers: ceil(pods x use / target) when use is more than a tenth off the
target either way; at most twice as many in a step, down after 300 s of wanting less.
"""

import math
from dataclasses import dataclass

from inferplane_simulator.scaling import Staff

PERIOD_S = 10.0


@dataclass(slots=True)
class Band:
    target: float
    """Requests that one worker has at once."""
    tolerance: float = 0.1
    most_up: float = 2.0
    down_s: float = 300.0
    _less_since_s: float | None = None

    def wanted(self, staff: Staff, now: float) -> int:
        here = max(1, staff.wanted)
        use = staff.concurrency / max(1, staff.ready) / self.target
        wanted = math.ceil(max(1, staff.ready) * use) if abs(use - 1.0) > self.tolerance else here
        if wanted >= here:
            self._less_since_s = None
            return min(wanted, math.ceil(here * self.most_up))
        self._less_since_s = now if self._less_since_s is None else self._less_since_s
        return wanted if now - self._less_since_s >= self.down_s else here
