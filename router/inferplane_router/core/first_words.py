"""Workers that have just been named and have said nothing yet: who finds nobody else waits a moment for them.

Problem: a catalogue names a worker before its stream has brought a word, and a client that has seen its Pod ready may
ask within that time: a refusal would say that there is no worker, where all that is missing is milliseconds.
Idea: for a moment after it was named a worker counts as one that may come, and the request waits as for room.
Trade-off: one that never speaks delays the refusals of its first moment, which then come as late as that.
Invariant: nobody waits for a worker longer than `PATIENCE_S` after it was named, or beyond what it says first.
"""

from dataclasses import dataclass, field
from typing import Final

PATIENCE_S: Final = 1.0


@dataclass(slots=True)
class FirstWords:
    """Those of one service."""

    _until: dict[str, float] = field(default_factory=dict[str, float])
    """By worker."""

    def named(self, worker_id: str, now: float) -> None:
        self._until[worker_id] = now + PATIENCE_S

    def heard(self, worker_id: str) -> None:
        """Wait for a worker no more: it has said how it is, or is gone."""
        self._until.pop(worker_id, None)

    def due(self, now: float) -> bool:
        """Whether some worker may still be about to speak."""
        return any(until > now for until in self._until.values())

    def next_end(self) -> float | None:
        """Return when the next one is waited for no more."""
        return min(self._until.values(), default=None)

    def expire(self, now: float) -> None:
        for worker_id in [each for each, until in self._until.items() if until <= now]:
            del self._until[worker_id]
