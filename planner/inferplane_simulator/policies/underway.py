"""Which blocks the requests that are under way decode over, each counted once however many share it.

A policy is told what a prompt's blocks are and where it goes; who is under way stands in the load table, by name.  The
two meet at the next look: the names that are new at a target are those of the prompts that were sent there since.
Trade-off: requests of other router replicas have names but no blocks, and count for nothing.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from inferplane_router.core.load import Key
from inferplane_router.core.placing import View


@dataclass(slots=True)
class _Target:
    sent: deque[Sequence[int]] = field(default_factory=deque[Sequence[int]])
    """Prompts whose names are not known yet."""
    known: dict[Key, Sequence[int]] = field(default_factory=dict[Key, Sequence[int]])
    held: Counter[int] = field(default_factory=Counter[int])

    def follow(self, here: Sequence[Key]) -> None:
        """Learn who came and who is gone."""
        for key in self.known.keys() - set(here):
            for name in self.known.pop(key):
                self.held[name] -= 1
                if not self.held[name]:
                    del self.held[name]
        for key in here:
            if key not in self.known:
                names = self.known[key] = self.sent.popleft() if self.sent else ()
                self.held.update(names)
        self.sent.clear()  # who is gone already


class Underway:
    """Prompts by target; targets are known by identity, since slots are given to others when a worker is gone."""

    def __init__(self) -> None:
        self._targets: dict[int, _Target] = {}

    def sent(self, view: View, slot: int, names: Sequence[int]) -> None:
        self._targets.setdefault(int(view.fleet.identities[slot]), _Target()).sent.append(names)

    def blocks(self, view: View, slot: int, names: Sequence[int]) -> int:
        """Return how many blocks a target would decode over, if a prompt with these came too."""
        target = self._targets.get(int(view.fleet.identities[slot]))
        if target is None:
            return len(names)
        target.follow(tuple(view.fleet.load.requests(slot)))
        return len(target.held) + sum(name not in target.held for name in names)
