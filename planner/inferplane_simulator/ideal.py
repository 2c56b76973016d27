"""The best that any cache could do: one that forgets nothing and that all share.

Every block that some earlier prompt or answer had is a hit, up to the first that is new.  The memory is bounded: of
blocks that were not seen for long the oldest generation goes, which the outcome says.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from inferplane_engine.compiled import inline, kernel

Names = NDArray[np.uint64]

_GENERATION: Final = 2_000_000
_START: Final = 1 << 12
_NONE = np.uint64(0)


class IdealCache:
    """Remembers at least the `generation` blocks that were seen last; no name is 0."""

    def __init__(self, generation: int = _GENERATION) -> None:
        self._generation = generation
        self._young: Names = np.zeros(_START, np.uint64)
        self._old: Names = np.zeros(1, np.uint64)
        self._count = 0
        self.forgot = False

    def hit(self, hashes: Sequence[int] | Names, reusable: int) -> int:
        """Return how many of the first `reusable` blocks were there, and remember them all."""
        names = np.asarray(hashes, np.uint64)
        while 2 * (self._count + names.shape[0]) > self._young.shape[0]:
            self._young = _twice(self._young)
        hits, new = _hit(self._young, self._old, names, reusable)
        self._count += new
        if self._count > self._generation:
            self.forgot = self.forgot or self._old.shape[0] > 1
            self._young, self._old, self._count = np.zeros(_START, np.uint64), self._young, 0
        return hits


@inline
def _place_of(table: Names, name: np.uint64) -> int:
    """Return where a name stands, or would: a table is never more than half full."""
    last = table.shape[0] - 1
    at = np.int64(name >> np.uint64(7)) & last
    while table[at] != _NONE and table[at] != name:
        at = (at + 1) & last
    return int(at)


@inline
def _add(table: Names, name: np.uint64) -> int:
    at = _place_of(table, name)
    new = table[at] == _NONE
    table[at] = name
    return int(new)


@kernel
def _hit(young: Names, old: Names, names: Names, reusable: int) -> tuple[int, int]:
    """Return how many of the names were there from the first on, and how many were added to `young`."""
    hits, new, known = 0, 0, True
    for at in range(names.shape[0]):
        name = names[at]
        if at < reusable and known:
            known = young[_place_of(young, name)] == name or old[_place_of(old, name)] == name
            hits += known
        new += _add(young, name)
    return hits, new


@kernel
def _twice(table: Names) -> Names:
    larger = np.zeros(2 * table.shape[0], np.uint64)
    for name in table:
        if name != _NONE:
            _add(larger, name)
    return larger
