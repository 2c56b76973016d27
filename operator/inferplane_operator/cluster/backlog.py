"""Which key is due when: a queue of keys with time in it, without a clock of its own.

Problem.  One edit makes a burst of events; a failing object must not be asked again at once, nor hold up others; and
two steps of one object at the same time would race.
Idea.  A key has one due time, however often it was added.  A first addition is due after a short settling time, which
later ones do not extend; failures put it off exponentially; while it runs, additions are noted and count from its end.
Trade-off.  An edit during a back-off waits for its end unless it is called urgent (the user changed the object).
Invariant.  A key is never taken twice before `finish`, and no addition is lost.
"""

import heapq
from dataclasses import dataclass, field
from random import Random
from typing import Generic, TypeVar

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Delays:
    """Times in seconds."""

    settle_s: float = 0.05
    """From the first event of a burst to the step that sees it whole."""
    first_s: float = 0.5
    """Back-off after a first failure, doubled by each further one."""
    limit_s: float = 120.0
    jitter: float = 0.2
    """Back-offs are drawn from 1 +- jitter times the nominal one: what failed together does not come back together."""


@dataclass(slots=True)
class _Entry:
    due: float | None = None
    """When to run; None: not wanted."""
    not_before: float = 0.0
    failures: int = 0
    running: bool = False
    urgent: bool = False
    asked: float | None = None
    """Earliest time wanted by additions during a run."""


@dataclass(slots=True)
class Backlog(Generic[K]):
    """`now` is monotonic seconds."""

    delays: Delays
    rng: Random
    _entries: dict[K, _Entry] = field(default_factory=dict[K, _Entry])
    _heap: list[tuple[float, int, K]] = field(default_factory=list[tuple[float, int, K]])
    _order: int = 0

    def add(self, key: K, now: float, *, urgent: bool = False) -> None:
        """Want a step soon; an urgent one does not wait for a back-off to end."""
        entry = self._entries.setdefault(key, _Entry())
        if entry.running:
            entry.urgent = entry.urgent or urgent
            entry.asked = now + self.delays.settle_s
            return
        if urgent:
            entry.not_before, entry.failures = 0.0, 0
        self._schedule(key, entry, max(now + self.delays.settle_s, entry.not_before))

    def take(self, now: float) -> K | None:
        """Return the key that has been due longest, or None; `finish` must follow."""
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            entry = self._entries.get(key)
            if entry is None or entry.due != due or entry.running:
                continue
            entry.running, entry.due = True, None
            entry.asked, entry.urgent = None, False
            return key
        return None

    def succeeded(self, key: K, now: float, *, again_in_s: float | None = None) -> None:
        entry = self._ended(key)
        entry.failures, entry.not_before = 0, 0.0
        wanted = [entry.asked] if entry.asked is not None else []
        wanted += [now + again_in_s] if again_in_s is not None else []
        if wanted:
            self._schedule(key, entry, max(now, min(wanted)))
        else:
            del self._entries[key]

    def failed(self, key: K, now: float, *, at_least_s: float = 0.0) -> float:
        """Put the key off; return for how long."""
        entry = self._ended(key)
        entry.failures = 1 if entry.urgent else entry.failures + 1
        nominal = min(self.delays.first_s * 2.0 ** min(entry.failures - 1, 32), self.delays.limit_s)
        delay = max(at_least_s, nominal * self.rng.uniform(1.0 - self.delays.jitter, 1.0 + self.delays.jitter))
        entry.not_before = now + delay
        self._schedule(key, entry, entry.not_before)
        return delay

    def next_at(self) -> float | None:
        """Return when the next key is due."""
        while self._heap:
            due, _, key = self._heap[0]
            entry = self._entries.get(key)
            if entry is not None and entry.due == due and not entry.running:
                return due
            heapq.heappop(self._heap)
        return None

    def waiting(self, now: float) -> int:
        """Count keys that are due and not taken."""
        return sum(1 for entry in self._entries.values() if entry.due is not None and entry.due <= now)

    def running(self) -> int:
        return sum(1 for entry in self._entries.values() if entry.running)

    def __len__(self) -> int:
        return len(self._entries)

    def _ended(self, key: K) -> _Entry:
        entry = self._entries[key]
        if not entry.running:
            raise ValueError(f"{key} was not taken")
        entry.running = False
        return entry

    def _schedule(self, key: K, entry: _Entry, due: float) -> None:
        if entry.due is not None and entry.due <= due:
            return
        entry.due = due
        self._order += 1
        heapq.heappush(self._heap, (due, self._order, key))
