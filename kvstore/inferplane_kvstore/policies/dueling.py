"""The default: several policies order the same blocks, and whoever would have had most hits lately chooses who goes.

Problem: no policy is best for conversations, steady favourites, scans and loops alike, and a store sees all of them.
Idea: every policy keeps its order of all blocks, so changing the leader costs nothing.  Beside it each plays alone on a
sample of the keys (one in eight by hash) with a cache as much smaller; recent hits there decide who leads.
Trade-off: some microseconds a use instead of one; a block is megabytes.
Invariant: every policy orders exactly the blocks there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from inferplane_kvstore.policies.policy import Policy

_SAMPLE: Final = 8
_LEAST: Final = 16
"""Blocks in a sample's cache, at least."""
_MEMORY: Final = 8
"""Sampled uses that are remembered, in blocks of the sample's cache."""
_LEAD: Final = 1.03
"""How much better another must be to take over."""


@dataclass(slots=True)
class _Shadow:
    """One policy alone on the sampled keys."""

    policy: Policy
    held: set[bytes] = field(default_factory=set[bytes])
    score: float = 0.0

    def use(self, key: bytes, room: int) -> None:
        self.score *= 1 - 1 / (_MEMORY * room)
        if key in self.held:
            self.score += 1
            self.policy.touch(key)
            return
        while len(self.held) >= room:
            self.held.discard(self.policy.victim() or b"")
        self.held.add(key)
        self.policy.insert(key)


class Dueling:
    def __init__(self, pairs: Sequence[tuple[Policy, Policy]]) -> None:
        """Each pair is two of one kind: the first orders the blocks, the second plays on the sample."""
        self._orders = [order for order, _ in pairs]
        self._shadows = [_Shadow(shadow) for _, shadow in pairs]
        self._leader = 0

    def insert(self, key: bytes, /) -> None:
        self._sample(key)
        for order in self._orders:
            order.insert(key)

    def touch(self, key: bytes, /) -> None:
        self._sample(key)
        for order in self._orders:
            order.touch(key)

    def discard(self, key: bytes, /) -> None:
        for order in self._orders:
            order.discard(key)

    def victim(self) -> bytes | None:
        leader = self._orders[self._leader]
        key = leader.victim()
        if key is not None:
            for order in self._orders:
                if order is not leader:
                    order.discard(key)
        return key

    def __len__(self) -> int:
        return len(self._orders[0])

    def _sample(self, key: bytes) -> None:
        if key[-1] % _SAMPLE:
            return
        room = max(_LEAST, len(self) // _SAMPLE)
        for shadow in self._shadows:
            shadow.use(key, room)
        best = max(range(len(self._shadows)), key=lambda index: self._shadows[index].score)
        if self._shadows[best].score > _LEAD * self._shadows[self._leader].score:
            self._leader = best
