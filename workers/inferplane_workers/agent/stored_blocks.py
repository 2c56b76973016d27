"""What the KV store beside the engine holds, as planes of the block index: a hit there is cheaper than computing.

Problem: a prompt that only the store has looks to routers like one that nobody has.
Idea: the store's tiers are planes of every rank: memory and disk are this worker's own, Redis is shared by all workers
that name the same one.  The store says what changed; here it becomes net changes and whole sets.
Trade-off: a worker whose store has gone keeps its share in what lies in Redis until the store is back.
Invariant: routers know what was said last; what a store no longer says is taken back.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from inferplane_api.proto import worker_pb2 as pb
from inferplane_workers.agent import wire
from inferplane_workers.agent.wire import PlaneKey

PLANES: Final = {"dram": pb.PLANE_HOST, "ssd": pb.PLANE_DISK, "redis": pb.PLANE_REMOTE}
Marks = Mapping[str, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Moves:
    """Net changes of one plane."""

    key: PlaneKey
    removed: frozenset[int]
    stored: frozenset[int]


@dataclass(slots=True)
class StoredBlocks:
    """Of all ranks, which share the store."""

    ranks: int
    _remote: str = ""
    _held: dict[str, set[int]] = field(default_factory=lambda: {tier: set[int]() for tier in PLANES})
    _seen: set[str] = field(default_factory=set[str])

    def whole(self, marks: Marks, *, remote: str) -> list[Moves]:
        """Take a whole list in place of what was known; `remote` names the Redis."""
        self._remote = remote
        gone = {tier: frozenset(held - marks.get(tier, frozenset())) for tier, held in self._held.items()}
        return self.changed(gone, marks)

    def changed(self, removed: Marks, stored: Marks) -> list[Moves]:
        """Take changes; return those that are any."""
        moves: list[Moves] = []
        for tier, held in self._held.items():
            come = stored.get(tier, frozenset())
            gone, come = (removed.get(tier, frozenset()) & held) - come, come - held
            held.difference_update(gone)
            held.update(come)
            if gone or come:
                self._seen.add(tier)
                moves += [Moves(key, gone, come) for key in self._keys(tier)]
        return moves

    def lost(self) -> list[Moves]:
        """Take back what is in a store that does not answer; what lies in Redis is there nevertheless."""
        return self.changed({tier: frozenset(held) for tier, held in self._held.items() if tier != "redis"}, {})

    def planes(self) -> Iterator[tuple[PlaneKey, bytes]]:
        """Yield every plane that ever had a block, whole."""
        for tier in sorted(self._seen):
            hashes = wire.pack(list(self._held[tier]))
            for key in self._keys(tier):
                yield key, hashes

    def _keys(self, tier: str) -> Iterator[PlaneKey]:
        store_id = self._remote if tier == "redis" else ""
        return (PlaneKey(rank, PLANES[tier], store_id) for rank in range(self.ranks))
