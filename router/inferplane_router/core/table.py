"""An open-addressing table that grows, sheds dead keys when it is rebuilt, and stays below a bound.

Trade-off: narrow tables (up to 16 bytes a slot) are half to seven eighths full, wide ones at least two thirds: wide
rows cost memory, narrow ones can afford to be rebuilt more rarely.
Policy at the bound: what is there stays and can always be removed, new keys take the rows of dead ones or are refused
and counted.  A refused block is one that the index does not know of: a prefix seems to end there, nothing worse.
Once enough has been removed the table is rebuilt and takes keys again.  Wider rows (more targets, another plane) are
always granted, since a worker that cannot be told apart could not be routed to.
"""

from typing import Final

import numpy as np

from inferplane_router.core import index_kernels as kernels
from inferplane_router.core.generations import HeapMemory, Memory
from inferplane_router.core.index_kernels import Cells
from inferplane_router.core.values import Hashes

MOST_BYTES: Final = 4 << 30
"""Default bound of one table: more than 100 million blocks of 64 workers."""
_SMALLEST: Final = 1024
_FULL: Final = 0.85
_NARROW_CELLS: Final = 2
_NARROW_FILL: Final = 0.66
_WIDE_FILL: Final = 0.88
"""How near to full a rebuilt table is."""
_WORTH: Final = 16
"""At the bound a table is rebuilt once one in so many of its slots may have died."""
_NO_HEAD: Final[Cells] = np.zeros(0, np.uint64)


class Table:
    """Rows of a key and `words` words, behind a head that its owner gives and changes in place."""

    def __init__(
        self,
        *,
        words: int,
        memory: Memory | None = None,
        head: Cells = _NO_HEAD,
        expected: int = 0,
        full: float = _FULL,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._memory = memory or HeapMemory()
        self._full = full
        """Share of slots with a key at which the table is rebuilt: less is faster, more is smaller."""
        self._most_cells = most_bytes // 8
        self._smallest = max(_SMALLEST, int(expected / full) + 1)
        self.width = np.uint64(words + 1)
        self.used = 0
        """Slots with a key, dead ones included."""
        self.refused = 0
        """Keys for which there was no room, since the start."""
        self._gone = 0
        """Bits cleared since the table was rebuilt: no more rows than that can have died."""
        self._begin(self._smallest, head)
        self._memory.publish(self.generation)

    def store(self, keys: Hashes, column: np.uint64, bit: np.uint64) -> int:
        """Set a bit; return for how many keys it was new."""
        if self.used + keys.shape[0] > self._limit:
            self.make_room(kernels.missing(self.cells, self.width, keys))  # a lower tier's keys are there already
        taken, fresh, refused = kernels.store(self.cells, self.width, keys, column, bit, self._limit - self.used)
        self.used += taken
        self.refused += refused
        return fresh

    def make_room(self, keys: int) -> None:
        """Rebuild the table unless so many new keys fit, or it is at its bound and has little to shed."""
        if self.used + keys <= self._limit:
            return
        if self._slots < self._most_slots(self.width) or self._gone * _WORTH >= self._slots:
            head = self.generation[: self._head]
            self._rebuild(self.width, np.arange(self.width, dtype=np.uint64), keys, head)

    def remove(self, keys: Hashes, column: np.uint64, bit: np.uint64) -> int:
        gone = kernels.remove(self.cells, self.width, keys, column, bit)
        self._gone += gone
        return gone

    def clear(self, column: np.uint64, bit: np.uint64) -> None:
        self._gone += kernels.clear(self.cells, self.width, column, bit)

    def held(self, keys: Hashes, column: np.uint64, bit: np.uint64) -> int:
        return kernels.held(self.cells, self.width, keys, column, bit)

    def keys(self, column: np.uint64, bit: np.uint64) -> Hashes:
        """Return the keys that have a bit, in no order; sweeps the table."""
        width = int(self.width)
        rows = self.cells[: self.cells.shape[0] // width * width].reshape(-1, width)
        keys: Hashes = rows[(rows[:, int(column)] & bit) != 0, 0]
        return keys

    def widen(self, words: int, moved_to: Hashes, head: Cells = _NO_HEAD) -> None:
        """Give every row `words` words, and the table another head; old column c goes to `moved_to[c]`."""
        self._rebuild(np.uint64(words + 1), moved_to, 0, head)

    def live(self) -> int:
        """Count the keys that have a bit; sweeps the table."""
        return kernels.count_live(self.cells, self.width)

    @property
    def nbytes(self) -> int:
        return self.generation.nbytes

    def _rebuild(self, width: np.uint64, moved_to: Hashes, room: int, head: Cells) -> None:
        old, old_width, live = self.cells, self.width, self.live()
        fill = self._full * (_NARROW_FILL if width <= _NARROW_CELLS else _WIDE_FILL)
        wanted = max(self._smallest, int((live + room) / fill) + 1)
        fitting = max(self._most_slots(width), int(live / self._full) + 1)
        self.width = width
        self._begin(min(wanted, fitting), head)
        self.used = kernels.rebuild(old, old_width, self.cells, width, moved_to)
        self._gone = 0
        self._memory.publish(self.generation)

    def _begin(self, slots: int, head: Cells) -> None:
        self._slots, self._head = slots, head.shape[0]
        self._limit = int(slots * self._full)
        self.generation = self._memory.take(self._head + (slots + 1) * int(self.width))
        self.generation[: self._head] = head
        self.cells = self.generation[self._head :]

    def _most_slots(self, width: np.uint64) -> int:
        return max(self._smallest, self._most_cells // int(width) - 1)
