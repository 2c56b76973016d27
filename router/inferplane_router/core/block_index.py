"""The block index of one key space: which target has which block in which tier, and who has the longest prefix.

Problem: millions of blocks change all the time, and every request asks for the longest prefix on every worker within
microseconds.  Idea: one open-addressing table, a row per block: its 64-bit key and one bit per target and plane.
Trade-off: dropping a target sweeps the table, and a target beyond the 64th widens every row; both are rare.
Invariants: a target's prefix is found as its engine would find it (device first, then lower tiers; hybrid models end
at a resumable block; speculative heads give blocks back); at least an eighth of the slots is empty; planes that nobody
uses take no memory.

Memory: 8 x (1 + words of all planes) bytes a slot, where a plane of workers takes a word per 64 targets and the remote
plane one word in all (a bit a store).  Narrow tables (up to 16 bytes a slot) are half to seven eighths full, wide ones
at least two thirds; while a table is rebuilt its old generation lives beside the new one.
Readers in other processes are not served yet: the table is given by an allocator, so that shared memory can back it.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from inferplane_router.core import index_kernels as kernels
from inferplane_router.core.index_kernels import DEVICE, DISK, FIRM, HOST, PLANES, REMOTE, RESUMABLE, Cells
from inferplane_router.core.prefix_kernels import find
from inferplane_router.core.values import Hashes

__all__ = ["DEVICE", "DISK", "FIRM", "HOST", "REMOTE", "RESUMABLE", "BlockIndex", "Table", "heap_cells"]

_Number = TypeVar("_Number", np.uint64, np.int64)
Allocate = Callable[[int], Cells]
"""Number of cells -> a zeroed array of them."""

_SMALLEST: Final = 1024
_FULL: Final = 0.85
_NARROW_CELLS: Final = 2
_NARROW_FILL: Final = 0.66
_WIDE_FILL: Final = 0.88
"""How near to full a rebuilt table is: wide rows cost memory, narrow ones can afford to be rebuilt more rarely."""
_STORES: Final = 64
_BITS: Final = tuple(np.uint64(1 << number) for number in range(64))


def heap_cells(count: int) -> Cells:
    """Allocate a table in this process's own memory."""
    return np.zeros(count, np.uint64)


class Table:
    """An open-addressing table that grows, and shrinks when it is rebuilt."""

    def __init__(self, *, words: int, allocate: Allocate = heap_cells, expected: int = 0, full: float = _FULL) -> None:
        self._allocate = allocate
        self._full = full
        """Share of slots with a key at which the table is rebuilt: less is faster, more is smaller."""
        self._smallest = max(_SMALLEST, int(expected / full) + 1)
        self.width = np.uint64(words + 1)
        self.cells = allocate((self._smallest + 1) * (words + 1))
        self.used = 0
        """Slots with a key, dead ones included."""
        self._limit = int(self._smallest * full)

    def store(self, keys: Hashes, column: np.uint64, bit: np.uint64) -> int:
        """Set a bit; return for how many keys it was new."""
        if self.used + keys.shape[0] > self._limit:
            self.make_room(kernels.missing(self.cells, self.width, keys))  # a lower tier's keys are there already
        taken, fresh = kernels.store(self.cells, self.width, keys, column, bit)
        self.used += taken
        return fresh

    def make_room(self, keys: int) -> None:
        """Rebuild the table unless so many new keys fit."""
        if self.used + keys > self._limit:
            self._rebuild(self.width, np.arange(self.width, dtype=np.uint64), keys)

    def remove(self, keys: Hashes, column: np.uint64, bit: np.uint64) -> int:
        return kernels.remove(self.cells, self.width, keys, column, bit)

    def clear(self, column: np.uint64, bit: np.uint64) -> None:
        kernels.clear(self.cells, self.width, column, bit)

    def held(self, keys: Hashes, column: np.uint64, bit: np.uint64) -> int:
        return kernels.held(self.cells, self.width, keys, column, bit)

    def widen(self, words: int, moved_to: Hashes) -> None:
        """Give every row `words` words; old column c goes to `moved_to[c]`."""
        self._rebuild(np.uint64(words + 1), moved_to, 0)

    def live(self) -> int:
        """Count the keys that have a bit; sweeps the table."""
        return kernels.count_live(self.cells, self.width)

    @property
    def nbytes(self) -> int:
        return self.cells.nbytes

    def _rebuild(self, width: np.uint64, moved_to: Hashes, room: int) -> None:
        old, old_width = self.cells, self.width
        fill = self._full * (_NARROW_FILL if width <= _NARROW_CELLS else _WIDE_FILL)
        slots = max(self._smallest, int((self.live() + room) / fill) + 1)
        self.cells, self.width = self._allocate((slots + 1) * int(width)), width
        self.used = kernels.rebuild(old, old_width, self.cells, width, moved_to)
        self._limit = int(slots * self._full)


class BlockIndex:
    """Blocks of one key space on numbered targets."""

    def __init__(self, *, allocate: Allocate = heap_cells, expected_blocks: int = 0) -> None:
        self._words = 1
        self._columns = np.zeros(PLANES, np.uint64)
        self._columns[DEVICE] = 1
        self.table = Table(words=1, allocate=allocate, expected=expected_blocks)
        self._stores: dict[str, int] = {}
        self._attached = np.zeros((_STORES, 1), np.uint64)
        self._hybrid = np.zeros(1, np.uint64)
        self._drops = np.zeros(64, np.int64)
        self._places: list[list[tuple[np.uint64, np.uint64]]] = [[] for _ in range(PLANES)]
        self._blocks: list[list[int]] = [[] for _ in range(PLANES)]
        self._place(DEVICE)

    @property
    def words(self) -> int:
        return self._words

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
        word, bit = target >> 6, _BITS[target & 63]
        self._hybrid[word] = self._hybrid[word] | bit if hybrid else self._hybrid[word] & ~bit
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

    def find(self, keys: Hashes, trusted: Hashes, guesses: Cells, counts: NDArray[np.int32]) -> None:
        """Fill `counts` (capacity x 5: device, host, disk, remote, firm); see `index_kernels.find`."""
        find(
            self.table.cells,
            self.table.width,
            self._columns,
            keys,
            trusted,
            self._attached,
            self._hybrid,
            self._drops,
            guesses,
            counts,
        )

    def _store_number(self, store_id: str) -> int:
        number = self._stores.get(store_id)
        if number is None:
            free = set(range(_STORES)).difference(self._stores.values())
            if not free:
                raise ValueError(f"store_id {store_id!r}: one service can read from at most {_STORES} shared stores")
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
        self.table.widen(width - 1, moved_to)
        self._words, self._columns = words, columns
        self._attached = _padded(self._attached, words)
        self._hybrid = _padded(self._hybrid, words)
        self._drops = _padded(self._drops, words * 64)
        for plane in range(PLANES):
            if columns[plane]:
                self._place(plane)

    def _place(self, plane: int) -> None:
        """Remember column and bit of every target (or store) of a kept plane."""
        count = _STORES if plane == REMOTE else self._words * 64
        column = self._columns[plane]
        self._places[plane] = [(column + np.uint64(at >> 6), _BITS[at & 63]) for at in range(count)]
        self._blocks[plane] += [0] * (count - len(self._blocks[plane]))


def _padded(values: NDArray[_Number], size: int) -> NDArray[_Number]:
    wider = np.zeros((*values.shape[:-1], size), values.dtype)
    wider[..., : values.shape[-1]] = values
    return wider
