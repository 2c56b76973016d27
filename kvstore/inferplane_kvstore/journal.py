"""Which marks lie in which tier, and what changed since somebody last asked.

Problem: whoever tells routers what a store holds wants changes and not lists, may come late, and may come back.
Idea: changes are numbered and the last `KEPT` of them are kept; who has seen number N asks for what came after, and who
is too far behind, or follows another store, is given everything.  Only blocks that a connected engine can read count:
after an upgrade of the engine the old one's blocks are there and are no hits.
Trade-off: a change of the engines in view gives everything anew.
Invariant: the sum of what was told is what is there.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from inferplane_kv_connector.envelope import Label
from inferplane_kv_connector.keys import ANY_SPACE
from inferplane_kv_connector.marks import UNMARKED
from inferplane_kv_connector.wire import TIERS

KEPT: Final = 100_000


@dataclass(frozen=True, slots=True)
class Changes:
    """Marks by tier; `whole`: these are all, and what was told before is void."""

    until: int
    whole: bool
    stored: dict[str, list[int]]
    removed: dict[str, list[int]]


@dataclass(slots=True)
class Journal:
    """Needs the store's lock."""

    kept: int = KEPT
    until: int = 0
    """Number of the last change."""
    _blocks: dict[str, Counter[tuple[bytes, int]]] = field(
        default_factory=lambda: {tier: Counter[tuple[bytes, int]]() for tier in TIERS}
    )
    """Copies by tier, engine's space and mark; parallel workers' parts bear no mark but the first."""
    _changes: deque[tuple[str, int, bool]] = field(init=False)
    _since: int = 0
    """Changes up to here are told by a whole list only."""
    _connected: Counter[bytes] = field(default_factory=Counter[bytes])
    _shown: frozenset[bytes] = frozenset()

    def __post_init__(self) -> None:
        self._changes = deque(maxlen=self.kept)

    def stored(self, tier: str, label: Label) -> None:
        if label.mark != UNMARKED:
            copies = self._blocks[tier]
            copies[label.space, label.mark] += 1
            if copies[label.space, label.mark] == 1:
                self._changed(tier, label, stored=True)

    def removed(self, tier: str, label: Label) -> None:
        copies, name = self._blocks[tier], (label.space, label.mark)
        if copies[name] > 1:
            copies[name] -= 1
        elif copies.pop(name, 0):
            self._changed(tier, label, stored=False)

    def connected(self, space: bytes) -> None:
        """Note an engine; `ANY_SPACE` is nobody that reads blocks."""
        if space != ANY_SPACE:
            self._connected[space] += 1
            self._show(frozenset(self._connected))

    def gone(self, space: bytes) -> None:
        """Note that an engine has gone; the last one to go is expected back."""
        if space == ANY_SPACE:
            return
        self._connected[space] -= 1
        self._connected = +self._connected
        if self._connected:
            self._show(frozenset(self._connected))

    def since(self, number: int) -> Changes:
        """Return what came after change `number`; everything, where that is not known."""
        if not self._since <= number <= self.until or self.until - number > len(self._changes):
            return Changes(self.until, whole=True, stored={tier: self._all(tier) for tier in TIERS}, removed={})
        last: dict[tuple[str, int], bool] = {}
        for index in range(len(self._changes) - (self.until - number), len(self._changes)):
            tier, mark, stored = self._changes[index]
            last[tier, mark] = stored
        return Changes(
            self.until, whole=False, stored=_by_tier(last, stored=True), removed=_by_tier(last, stored=False)
        )

    def _show(self, spaces: frozenset[bytes]) -> None:
        if spaces != self._shown:
            self._shown = spaces
            self.until += 1
            self._since = self.until
            self._changes.clear()

    def _changed(self, tier: str, label: Label, *, stored: bool) -> None:
        # Two engines in view may hold one prompt: it is gone when neither has it.
        others = (self._blocks[tier][space, label.mark] for space in self._shown if space != label.space)
        if label.space in self._shown and not any(others):
            self.until += 1
            self._changes.append((tier, label.mark, stored))

    def _all(self, tier: str) -> list[int]:
        return list({mark: None for space, mark in self._blocks[tier] if space in self._shown})


def _by_tier(last: dict[tuple[str, int], bool], *, stored: bool) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for (tier, mark), is_stored in last.items():
        if is_stored is stored:
            found.setdefault(tier, []).append(mark)
    return found


def replayed(known: dict[str, set[int]], changes: Iterable[Changes]) -> dict[str, set[int]]:
    """Apply changes to what was known: what a follower does, for tests and tools."""
    for change in changes:
        if change.whole:
            known = {}
        for tier, marks in change.removed.items():
            known.get(tier, set()).difference_update(marks)
        for tier, marks in change.stored.items():
            known.setdefault(tier, set()).update(marks)
    return known
