"""How long workers take from being seen first until they serve, and since when one waits for a device."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Seen:
    """One worker at one look."""

    name: str
    ready: bool
    pending: bool = False
    """It waits for a device."""


@dataclass(slots=True)
class StartUps:
    """Workers that were ready when they were seen first tell nothing."""

    _first_seen: dict[str, float] = field(default_factory=dict[str, float])
    _pending: dict[str, float] = field(default_factory=dict[str, float])
    _known: set[str] = field(default_factory=set[str])

    def look(self, workers: Iterable[Seen], now: float) -> tuple[float, ...]:
        """Return how long the workers took that are ready for the first time."""
        there = list(workers)
        took = [now - self._first_seen[it.name] for it in there if it.ready and it.name in self._first_seen]
        names = {it.name for it in there}
        starting = {it.name for it in there if not it.ready and it.name not in self._known}
        self._known = (self._known & names) | {it.name for it in there if it.ready}
        self._first_seen = {name: self._first_seen.get(name, now) for name in starting}
        self._pending = {it.name: self._pending.get(it.name, now) for it in there if it.pending}
        return tuple(took)

    def pending_since(self, names: Iterable[str]) -> float | None:
        """Return since when the first of these has waited for a device; None: none waits."""
        return min((self._pending[name] for name in names if name in self._pending), default=None)
