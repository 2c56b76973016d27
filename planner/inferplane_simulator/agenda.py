"""What happens when: events in order of time; at one time by whose they are, then in the order of their making."""

import heapq
from collections.abc import Callable

Action = Callable[[float], None]


class Agenda:
    """Time never goes back: what is put in for the past happens now."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, str, int, Action]] = []
        self._made = 0

    def put(self, at_s: float, action: Action, whose: str = "") -> None:
        """Let something happen; what runs with one outcome may put here more or less often has an owner."""
        self._made += 1
        heapq.heappush(self._events, (max(at_s, self.now), whose, self._made, action))

    def reach(self, at_s: float) -> float:
        """Let time pass until what is not on the agenda happens; return the time."""
        self.now = max(self.now, at_s)
        return self.now

    def next_at(self) -> float | None:
        return self._events[0][0] if self._events else None

    def run_next(self) -> None:
        """Do the next event.  Raises LookupError when there is none."""
        if not self._events:
            raise LookupError("nothing is on the agenda")
        self.now, _, _, action = heapq.heappop(self._events)
        action(self.now)
