"""One key space's index as a process sees it that does not write it.

Problem: the writer replaces the table whenever it likes, and a reader must neither wait for it nor believe what it read
of a table that went away.  Idea: read, then look at the board: if the generation is still shown, all of it was its own;
if not, read the next one.  Trade-off: a find that a rebuild overtakes is done twice.
Invariants: a find ends after a bounded number of tries, whatever the writer does or wherever it died; every access is
within bounds, since a generation's shape is copied when it is first seen and believed only after another look.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from inferplane_router.core import index_kernels as kernels
from inferplane_router.core.arena import Arena
from inferplane_router.core.generations import COLUMNS, LENGTH, SHAPE, WIDTH, WORDS, head_size
from inferplane_router.core.index_kernels import DEVICE, Cells, Words
from inferplane_router.core.prefix_kernels import find_shown
from inferplane_router.core.values import Hashes

_TRIES: Final = 8
"""Rebuilds take milliseconds and finds microseconds: a second try is rare, a third is not expected."""
_NOTHING: Final[Cells] = np.zeros(0, np.uint64)


class IndexReader:
    """Finds prefixes in the table that is shown at a place of the arena."""

    def __init__(self, arena: Arena, place: int) -> None:
        self._arena = arena
        self._place = np.uint64(place)
        self._mark = np.uint64(0)
        self._generation = _NOTHING
        self._shape: Words = _NOTHING
        self.retried = 0
        """Finds that were done again since the start."""
        self.follow()

    @property
    def words(self) -> int:
        """Words of 64 targets that the table knew when it was looked at last; 0 when there was none."""
        return int(self._shape[WORDS]) if self._shape.shape[0] else 0

    def follow(self) -> bool:
        """Look for the generation that is shown now; say whether there is one."""
        for _ in range(_TRIES):
            mark, generation = self._arena.shown_at(int(self._place))
            shape = generation[:SHAPE].copy()
            again, _ = self._arena.shown_at(int(self._place))
            if mark == again:
                is_whole = _is_whole(shape, generation.shape[0])
                self._mark = np.uint64(mark)
                self._generation, self._shape = (generation, shape) if is_whole else (_NOTHING, _NOTHING)
                return is_whole
        return False

    def find(self, keys: Hashes, trusted: Hashes, guesses: Cells, counts: NDArray[np.int32]) -> bool:
        """Fill `counts` as `BlockIndex.find` does; False, and zeros, when there is no table to read."""
        for _ in range(_TRIES):
            if self.words < trusted.shape[0] and not (self.follow() and self.words >= trusted.shape[0]):
                break
            if find_shown(
                self._arena.cells,
                self._place,
                self._mark,
                self._generation,
                self._shape,
                keys,
                trusted,
                guesses,
                counts,
            ):
                return True
            self.retried += 1
            self.follow()
        counts[:] = 0
        return False

    def held(self, target: int, keys: Hashes) -> int:
        """Return how many of the keys the target has in its device plane, in whatever order."""
        for _ in range(_TRIES):
            mark, _ = self._arena.shown_at(int(self._place))
            if (np.uint64(mark) != self._mark or not self.words) and not self.follow():
                break
            if target >= self.words * 64:
                break
            count = self._count(target, keys)
            again, _ = self._arena.shown_at(int(self._place))
            if np.uint64(again) == self._mark:
                return count
        return 0

    def _count(self, target: int, keys: Hashes) -> int:
        column = self._shape[COLUMNS + DEVICE] + np.uint64(target >> 6)
        rows = self._generation[head_size(self.words) :]
        return kernels.held(rows, self._shape[WIDTH], keys, column, np.uint64(1 << (target & 63)))


def _is_whole(shape: Words, length: int) -> bool:
    """Whether this can be the shape of a generation of so many cells."""
    if length < SHAPE or int(shape[LENGTH]) != length:
        return False
    width, words = int(shape[WIDTH]), int(shape[WORDS])
    return width > 1 and words > 0 and head_size(words) + 2 * width <= length
