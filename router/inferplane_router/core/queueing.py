"""Requests that wait for room: first come, first served, bounded, each with a deadline.

Problem: work handed to a full engine cannot be moved any more, and waits behind whatever is there.  Idea: hold it here
until some target has room, and decide then.  Trade-off: one queue a service, without classes; whoever cannot be placed
(pinned to a full worker) is passed over, a bounded number of times a round.
Invariants: never more than the limit; whoever is hopeless is told at once, with when to come back.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from inferplane_router.core.values import Ask

_LOOK_PAST: Final = 8
"""Requests tried in vain before a round ends."""
_SETTLED: Final = 8
"""Completions from which the pace is believed."""
_LEAST_RETRY_S: Final = 1.0
_MOST_RETRY_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Waiting:
    ask: Ask
    since: float
    deadline: float


@dataclass(slots=True)
class Pace:
    """How fast room comes free: how long requests keep their place, recent ones counting more.

    Times between completions would not do: they hold the idle time too, and after a quiet hour a burst that a full
    service works off in seconds would be refused as hopeless.
    """

    held_s: float = 0.0
    completions: int = 0

    def completed(self, held_s: float) -> None:
        self.completions += 1
        self.held_s += max(0.05, 1 / self.completions) * (held_s - self.held_s)

    def wait_s(self, position: int, in_flight: int) -> float | None:
        """Predict how long the request at this position (from 1) waits; None before enough was seen."""
        return position * self.held_s / max(1, in_flight) if self.completions >= _SETTLED else None

    def retry_after_s(self, position: int, in_flight: int) -> float:
        return min(_MOST_RETRY_S, max(_LEAST_RETRY_S, self.wait_s(position, in_flight) or 0.0))


@dataclass(slots=True)
class WaitingLine:
    """The queue of one service."""

    pace: Pace = field(default_factory=Pace)
    _waiting: dict[str, Waiting] = field(default_factory=dict[str, Waiting])

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(tuple(self._waiting.values()))

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._waiting

    def join(self, ask: Ask, *, now: float, timeout_s: float) -> Waiting:
        waiting = Waiting(ask, now, now + timeout_s)
        self._waiting[ask.request_id] = waiting
        return waiting

    def leave(self, request_id: str) -> Waiting | None:
        return self._waiting.pop(request_id, None)

    def take_late(self, now: float) -> list[Waiting]:
        """Remove and return those whose deadline has come."""
        late = [waiting for waiting in self._waiting.values() if waiting.deadline <= now]
        for waiting in late:
            del self._waiting[waiting.ask.request_id]
        return late

    def serve(self, place: Callable[[Waiting], bool]) -> None:
        """Offer room in order; `place` says whether the request is through with waiting."""
        in_vain = 0
        for waiting in self:
            if place(waiting):
                del self._waiting[waiting.ask.request_id]
                continue
            in_vain += 1
            if in_vain >= _LOOK_PAST:
                return

    def next_deadline(self) -> float | None:
        return min((waiting.deadline for waiting in self._waiting.values()), default=None)
