"""Memory that the processes of one pod share: generations of tables, and a board that says which ones count.

Problem: an index grows while others read it; named shared memory outlives crashes and is small in containers.  Idea:
one anonymous shared mapping, made before the processes are forked and large enough for ever: pages take memory when
they are written first and are given back by punching holes.  The first page is the board, a cell per place (a key
space): the *mark* of the generation that readers use, its number and where it begins in one word.
Trade-off: whoever reads must descend from whoever made the arena; the size is address space, not memory.
Invariants: memory that is taken is zero; a generation is never moved, and not given back before its successor is shown;
a reader that holds an older one reads what was there, zeros or another's rows, always inside the arena, and sees by the
board that it must look again.

One process writes.  Another takes its place with `adopt`: what is shown stays as it is until something better is.
"""

import mmap
from typing import Final

import numpy as np

from inferplane_engine.compiled import kernel
from inferplane_router.core.fences import fence, load_acquire, store_release
from inferplane_router.core.generations import LENGTH
from inferplane_router.core.index_kernels import Cells

_PAGE: Final = mmap.PAGESIZE // 8
"""Cells in a page."""
PLACES: Final = _PAGE
_OFFSET_BITS: Final = 40
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1
_NUMBERS: Final = 1 << (64 - _OFFSET_BITS)
_NO_RESERVE: Final = 0x4000
"""MAP_NORESERVE of Linux: address space is not counted as memory."""


class ArenaFullError(MemoryError):
    """The arena has no stretch of this size left: it was made too small."""


class Arena:
    """A shared mapping of so many bytes; make it before forking."""

    def __init__(self, size_bytes: int) -> None:
        pages = max(2, -(-size_bytes // mmap.PAGESIZE))
        self._map = mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        self.cells: Cells = np.frombuffer(self._map, np.uint64)
        self._start = self.cells.ctypes.data
        self._free: list[tuple[int, int]] = [(_PAGE, self.cells.shape[0])]
        """Stretches (first cell, one behind the last) that nobody has, in order; the writer's own knowledge."""

    def take(self, cells: int) -> Cells:
        """Return zeroed memory of the first stretch that is large enough."""
        wanted = _whole_pages(cells)
        for at, (first, end) in enumerate(self._free):
            if end - first >= wanted:
                self._free[at : at + 1] = [(first + wanted, end)] if first + wanted < end else []
                return self.cells[first : first + cells]
        raise ArenaFullError(f"{wanted * 8} bytes are not free in an arena of {self.cells.nbytes}: make it larger")

    def give_back(self, taken: Cells) -> None:
        """Return what `take` gave; its pages go back to the machine."""
        first = self.offset_of(taken)
        self._release(first, first + _whole_pages(taken.shape[0]))

    def adopt(self) -> None:
        """Become the writer in the place of one that died: all that is not shown is free again."""
        shown = sorted(self._extent(place) for place in range(PLACES) if mark_at(self.cells, np.uint64(place)))
        self._free = []
        first = _PAGE
        for start, end in (*shown, (self.cells.shape[0], self.cells.shape[0])):
            if start > first:
                self._release(first, start)
            first = end

    def offset_of(self, taken: Cells) -> int:
        """Return where memory of this arena begins, in cells."""
        return (taken.ctypes.data - self._start) // 8

    def shown_at(self, place: int) -> tuple[int, Cells]:
        """Return mark and generation of a place; the generation is empty when there is none (any more)."""
        mark = mark_at(self.cells, np.uint64(place))
        offset = mark & _OFFSET_MASK
        length = int(self.cells[offset + LENGTH]) if offset else 0
        if length > self.cells.shape[0] - offset:
            length = 0  # it was replaced while we looked
        return mark, self.cells[offset : offset + length]

    @property
    def free_bytes(self) -> int:
        """How much nobody has; known to the writer alone."""
        return 8 * sum(end - first for first, end in self._free)

    def _extent(self, place: int) -> tuple[int, int]:
        _, generation = self.shown_at(place)
        first = self.offset_of(generation)
        return first, first + _whole_pages(generation.shape[0])

    def _release(self, first: int, end: int) -> None:
        if first == end:
            return
        self._map.madvise(mmap.MADV_REMOVE, first * 8, (end - first) * 8)
        merged: list[tuple[int, int]] = []
        for stretch in sorted((*self._free, (first, end))):
            if merged and merged[-1][1] == stretch[0]:
                merged[-1] = merged[-1][0], stretch[1]
            else:
                merged.append(stretch)
        self._free = merged


class Place:
    """The memory of one table in the arena; implements `generations.Memory` for its writer.

    While it holds back, readers keep the generation that was shown last: a new writer fills its table first.
    """

    def __init__(self, arena: Arena, number: int, *, holding_back: bool = False) -> None:
        if not 0 <= number < PLACES:
            raise ValueError(f"place {number}: an arena has {PLACES}")
        self._arena = arena
        self._number = np.uint64(number)
        self._holding_back = holding_back
        self._current: Cells | None = None
        """The generation of this writer."""

    def take(self, cells: int) -> Cells:
        return self._arena.take(cells)

    def publish(self, generation: Cells) -> None:
        generation[LENGTH] = generation.shape[0]
        before, self._current = self._current, generation
        if not self._holding_back:
            self._show()
        elif before is not None:
            self._arena.give_back(before)

    def show(self) -> None:
        """Hold nothing back any more."""
        if self._holding_back and self._current is not None:
            self._holding_back = False
            self._show()

    def close(self) -> None:
        """Take the place down: its readers find nothing."""
        self._put(np.uint64(0))
        if self._holding_back and self._current is not None:
            self._arena.give_back(self._current)
        self._current = None

    def _show(self) -> None:
        if self._current is not None:
            number = (mark_at(self._arena.cells, self._number) >> _OFFSET_BITS) + 1
            offset = self._arena.offset_of(self._current)
            self._put(np.uint64((number % _NUMBERS) << _OFFSET_BITS | offset))

    def _put(self, mark: np.uint64) -> None:
        """Replace the mark, then give back what the old one stood for."""
        _, before = self._arena.shown_at(int(self._number))
        put_mark(self._arena.cells, self._number, mark)
        if before.shape[0]:
            self._arena.give_back(before)


def _whole_pages(cells: int) -> int:
    return -(-cells // _PAGE) * _PAGE


@kernel
def mark_at(board: Cells, place: np.uint64) -> int:
    """Read a mark, after all that was read before; what it stands for can be read after it."""
    fence()
    return int(load_acquire(board, place))


@kernel
def put_mark(board: Cells, place: np.uint64, mark: np.uint64) -> None:
    """Write a mark, after all that it stands for and before all that its writer does next."""
    store_release(board, place, mark)
    fence()
