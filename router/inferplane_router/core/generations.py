"""Generations of a table: where their memory comes from, and how the next one takes over from the last.

Problem: a table that grows, widens or sheds dead keys is built anew, while readers in other processes use it.  Idea: a
generation is one array that never moves; its shape never changes, only its bits do.  The next one is built beside it,
and then shown in its place by a single word.  Trade-off: while a table is rebuilt both generations take memory.
Invariant: what describes a generation (shape, who may resume where, who reads from which store) lies in the same array
as its rows, so a reader that holds a generation holds all of it.

An index's generation begins with a head of `head_size(words)` cells::

    LENGTH  WIDTH  WORDS  COLUMNS x 5 | hybrid: words | drops: 64 x words | attached: 64 stores x words | rows ...
"""

from typing import Final, Protocol

import numpy as np

from inferplane_router.core.index_kernels import PLANES, Cells

LENGTH, WIDTH, WORDS, COLUMNS = 0, 1, 2, 3
"""Cells of the shape: length of the generation in cells, cells a row, words of targets, first column of each plane."""
SHAPE: Final = COLUMNS + PLANES
STORES: Final = 64


def head_size(words: int) -> int:
    """Return how many cells come before the rows."""
    return SHAPE + words * (1 + 64 + STORES)


class Memory(Protocol):
    """Where the generations of one table live."""

    def take(self, cells: int) -> Cells:
        """Return a zeroed array."""
        ...

    def publish(self, generation: Cells) -> None:
        """Let readers use this one from now on; the one before is not used by its writer any more."""
        ...


class HeapMemory:
    """Memory of the process alone: nobody else reads."""

    def take(self, cells: int) -> Cells:
        return np.zeros(cells, np.uint64)

    def publish(self, generation: Cells) -> None: ...
