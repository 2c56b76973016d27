"""`kpa`: concurrency over a stable and a panic window, after AIBrix's KPA, which is Knative's.

Source: AIBrix's documentation of its autoscalers: ceil(mean concurrency / target) over 180 s, and over 60 s in a
panic, which begins when the short window wants twice what is there; nothing goes while it lasts.
"""

import math
from collections import deque
from dataclasses import dataclass, field

from inferplane_simulator.scaling import Staff

PERIOD_S = 10.0


@dataclass(slots=True)
class PanicWindow:
    target: float
    """Requests that one worker has at once."""
    stable_s: float = 180.0
    panic_s: float = 60.0
    threshold: float = 2.0
    _seen: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])
    _panic_until_s: float = -math.inf

    def wanted(self, staff: Staff, now: float) -> int:
        self._seen.append((now, staff.concurrency))
        while self._seen[0][0] < now - self.stable_s:
            self._seen.popleft()
        stable, panic = self._count(now - self.stable_s), self._count(now - self.panic_s)
        if panic >= self.threshold * max(1, staff.ready):
            self._panic_until_s = now + self.stable_s
        return max(stable, panic, staff.wanted) if now < self._panic_until_s else stable

    def _count(self, since_s: float) -> int:
        recent = [count for at_s, count in self._seen if at_s >= since_s]
        return math.ceil(sum(recent) / len(recent) / self.target)
