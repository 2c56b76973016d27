"""The block index of one key space: which target has which block in which tier, and who has the longest prefix.

Problem: millions of blocks change all the time, and every request asks for the longest prefix on every worker within
microseconds.  Idea: one open-addressing table, a row per block: its 64-bit key and one bit per target and plane.
Trade-off: dropping a target sweeps the table, and a target beyond the 64th widens every row; both are rare.
Invariants: a target's prefix is found as its engine would find it (device first, then lower tiers; hybrid models end
at a resumable block; speculative heads give blocks back); at least an eighth of the slots is empty; planes that nobody
uses take no memory.

Memory: 8 x (1 + words of all planes) bytes a slot, where a plane of workers takes a word per 64 targets and the remote
plane one word in all (a bit a store).  `table` says how full tables are and what happens at their bound.
There is one writer.  Given shared memory, others read along: see `arena` and `index_reader`.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from inferplane_router.core.generations import COLUMNS, SHAPE, STORES, WIDTH, WORDS, Memory, head_size
from inferplane_router.core.index_kernels import DEVICE, DISK, FIRM, HOST, PLANES, REMOTE, RESUMABLE, Cells, Words
from inferplane_router.core.prefix_kernels import find
from inferplane_router.core.table import MOST_BYTES, Table
from inferplane_router.core.values import Hashes

__all__ = ["DEVICE", "DISK", "FIRM", "HOST", "REMOTE", "RESUMABLE", "BlockIndex"]

_NO_KEYS: Final[Hashes] = np.zeros(0, np.uint64)
_BITS: Final = tuple(np.uint64(1 << number) for number in range(64))


class BlockIndex:
    """Blocks of one key space on numbered targets."""

    def __init__(self, *, memory: Memory | None = None, expected_blocks: int = 0, most_bytes: int = MOST_BYTES) -> None:
        self._words = 1
        self._columns = np.zeros(PLANES, np.uint64)
        self._columns[DEVICE] = 1
        self._stores: dict[str, int] = {}
        head = np.zeros(head_size(1), np.uint64)
        _describe_shape(head, 2, 1, self._columns)
        self.table = Table(words=1, memory=memory, head=head, expected=expected_blocks, most_bytes=most_bytes)
        self._shape: Words = head[:SHAPE].copy()
        self._places: list[list[tuple[np.uint64, np.uint64]]] = [[] for _ in range(PLANES)]
        self._blocks: list[list[int]] = [[] for _ in range(PLANES)]
        self._place(DEVICE)

    # What the present generation's head holds; changed in place, so that readers see it.

    @property
    def _hybrid(self) -> Words:
        return self.table.generation[SHAPE : SHAPE + self._words]

    @property
    def _drops(self) -> Words:
        return self.table.generation[SHAPE + self._words : SHAPE + 65 * self._words]

    @property
    def _attached(self) -> Cells:
        flat = self.table.generation[SHAPE + 65 * self._words : head_size(self._words)]
        return flat.reshape(STORES, self._words)

    @property
    def words(self) -> int:
        return self._words

    @property
    def used(self) -> int:
        """Slots with a key."""
        return self.table.used

    @property
    def nbytes(self) -> int:
        return self.table.nbytes

    @property
    def refused(self) -> int:
        """Blocks for which there was no room."""
        return self.table.refused

    @property
    def capacity(self) -> int:
        """How many targets fit without widening."""
        return self._words * 64

    def reserve(self, targets: int) -> None:
        """Make room for targets 0..targets-1."""
        words = -(-targets // 64)
        if words > self._words:
            self._relayout(words, self._columns != 0)

    def describe(self, target: int, *, hybrid: bool, drop_blocks: int) -> None:
        """Say how the target's engine reuses a prefix."""
        self.reserve(target + 1)
        word, bit, hybrids = target >> 6, _BITS[target & 63], self._hybrid
        hybrids[word] = hybrids[word] | bit if hybrid else hybrids[word] & ~bit
        self._drops[target] = drop_blocks

    def attach(self, target: int, store_id: str) -> None:
        """Say that the target reads from a shared store."""
        self.reserve(target + 1)
        self._attached[self._store_number(store_id), target >> 6] |= _BITS[target & 63]

    def is_shared(self, target: int, store_id: str) -> bool:
        """Whether targets other than this one read from the store."""
        others = self._attached[self._store_number(store_id)].copy()
        others[target >> 6] &= ~_BITS[target & 63]
        return bool(others.any())

    def store(self, target: int, keys: Hashes, plane: int = DEVICE) -> int:
        """Add blocks; return how many were new to the target."""
        if target >= len(self._places[plane]):
            self._ready(target, plane)
        fresh = self.table.store(keys, *self._places[plane][target])
        self._blocks[plane][target] += fresh
        return fresh

    def remove(self, target: int, keys: Hashes, plane: int = DEVICE) -> int:
        """Take blocks away; return how many the target had."""
        if target >= len(self._places[plane]):
            return 0
        gone = self.table.remove(keys, *self._places[plane][target])
        self._blocks[plane][target] -= gone
        return gone

    def clear(self, target: int, plane: int) -> None:
        """Forget what the target has in one plane."""
        if self.blocks(target, plane):
            self.table.clear(*self._places[plane][target])
            self._blocks[plane][target] = 0

    def blocks(self, target: int, plane: int = DEVICE) -> int:
        """Return how many blocks the target has in a plane of its own."""
        return self._blocks[plane][target] if target < len(self._places[plane]) else 0

    def store_remote(self, store_id: str, keys: Hashes) -> None:
        number = self._store_number(store_id)
        self._ready(number, REMOTE)
        self._blocks[REMOTE][number] += self.table.store(keys, *self._places[REMOTE][number])

    def remove_remote(self, store_id: str, keys: Hashes) -> None:
        number = self._store_number(store_id)
        if self._places[REMOTE]:
            self._blocks[REMOTE][number] -= self.table.remove(keys, *self._places[REMOTE][number])

    def clear_remote(self, store_id: str) -> None:
        self.clear(self._store_number(store_id), REMOTE)

    def forget_blocks(self, target: int) -> None:
        """Forget what the target has, not how it is or what it is attached to."""
        for plane in (DEVICE, HOST, DISK, RESUMABLE):
            self.clear(target, plane)

    def drop(self, target: int) -> None:
        """Forget everything about a target; a store that nobody else reads from goes with it."""
        if target >= self.capacity:
            return
        self.forget_blocks(target)
        self.describe(target, hybrid=False, drop_blocks=0)
        for store_id, number in tuple(self._stores.items()):
            self._attached[number, target >> 6] &= ~_BITS[target & 63]
            if not self._attached[number].any():
                self.clear(number, REMOTE)
                del self._stores[store_id]

    def held(self, target: int, keys: Hashes) -> int:
        """Return how many of the keys are in the target's device plane, in whatever order."""
        if target >= self.capacity:
            return 0
        return self.table.held(keys, *self._places[DEVICE][target])

    def keys(self, target: int, plane: int = DEVICE) -> Hashes:
        """Return the blocks that the target has in a plane of its own, in no order; sweeps the table."""
        return self.table.keys(*self._places[plane][target]) if self.blocks(target, plane) else _NO_KEYS

    def find(self, keys: Hashes, trusted: Hashes, guesses: Cells, counts: NDArray[np.int32]) -> None:
        """Fill `counts` (capacity x 5: device, host, disk, remote, firm); see `prefix_kernels.find`."""
        find(self.table.generation, self._shape, keys, trusted, guesses, counts)

    def _store_number(self, store_id: str) -> int:
        number = self._stores.get(store_id)
        if number is None:
            free = set(range(STORES)).difference(self._stores.values())
            if not free:
                raise ValueError(f"store_id {store_id!r}: one service can read from at most {STORES} shared stores")
            number = self._stores[store_id] = min(free)
        return number

    def _ready(self, target: int, plane: int) -> None:
        """Keep this plane, and make it wide enough."""
        if plane != REMOTE:
            self.reserve(target + 1)
        if self._columns[plane] == 0:
            kept = self._columns != 0
            kept[plane] = True
            self._relayout(self._words, kept)

    def _relayout(self, words: int, kept: NDArray[np.bool_]) -> None:
        old_words, old_columns = self._words, self._columns
        columns = np.zeros(PLANES, np.uint64)
        moved_to = np.zeros(int(self.table.width), np.uint64)
        width = 1
        for plane in range(PLANES):
            if not kept[plane]:
                continue
            columns[plane] = width
            for word in range(1 if plane == REMOTE else old_words):
                if old_columns[plane]:
                    moved_to[int(old_columns[plane]) + word] = width + word
            width += 1 if plane == REMOTE else words
        head = self._widened_head(words)
        _describe_shape(head, width, words, columns)
        self.table.widen(width - 1, moved_to, head)
        self._words, self._columns = words, columns
        self._shape = head[:SHAPE].copy()
        for plane in range(PLANES):
            if columns[plane]:
                self._place(plane)

    def _widened_head(self, words: int) -> Cells:
        """Return a head for so many words of targets with what the present one says of targets and stores."""
        head, old = np.zeros(head_size(words), np.uint64), self._words
        head[SHAPE : SHAPE + old] = self._hybrid
        head[SHAPE + words : SHAPE + words + 64 * old] = self._drops
        head[SHAPE + 65 * words :].reshape(STORES, words)[:, :old] = self._attached
        return head

    def _place(self, plane: int) -> None:
        """Remember column and bit of every target (or store) of a kept plane."""
        count = STORES if plane == REMOTE else self._words * 64
        column = self._columns[plane]
        self._places[plane] = [(column + np.uint64(at >> 6), _BITS[at & 63]) for at in range(count)]
        self._blocks[plane] += [0] * (count - len(self._blocks[plane]))


def _describe_shape(head: Cells, width: int, words: int, columns: Words) -> None:
    head[WIDTH], head[WORDS] = width, words
    head[COLUMNS:SHAPE] = columns
