"""Array kernels of the overlay: who predicted a (block, target) last.

A second table of the index's kind, keyed by a mixture of block and target, holds the owner's number in its one word.
"""

import numpy as np

from inferplane_engine.compiled import inline, kernel
from inferplane_router.core.index_kernels import AHEAD, ZERO, Cells, Words, home, is_dead, row_of, slots_of
from inferplane_router.core.prefetch import prefetch

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_R29 = np.uint64(29)
_ONE = np.uint64(1)


@inline
def _pair(key: np.uint64, target: np.uint64) -> np.uint64:
    """Mix block and target to a key of their own, never 0."""
    value = (key ^ ((target + _ONE) * _SPREAD)) * _SPREAD
    value ^= value >> _R29
    value *= _SPREAD
    return value | _ONE


@kernel
def own(cells: Cells, width: np.uint64, keys: Words, target: np.uint64, owner: np.uint64) -> int:
    """Make `owner` the owner of every (key, target); return how many empty slots were taken."""
    taken = 0
    slots = slots_of(cells, width)
    end = slots * width
    n = keys.shape[0]
    for at in range(min(AHEAD, n)):
        prefetch(cells, home(_pair(keys[at], target), slots, width))
    for at in range(n):
        if at + AHEAD < n:
            prefetch(cells, home(_pair(keys[at + AHEAD], target), slots, width))
        pair = _pair(keys[at], target)
        row = home(pair, slots, width)
        dead = end
        while cells[row] != pair and cells[row] != ZERO:
            if dead == end and is_dead(cells, row, width):
                dead = row
            row += width
            if row == end:
                row = ZERO
        if cells[row] == ZERO:
            if dead != end:
                row = dead
            else:
                taken += 1
        cells[row] = pair
        cells[row + _ONE] = owner
    return taken


@kernel
def disown(  # noqa: PLR0917  # kernels take positional arguments only
    cells: Cells,
    width: np.uint64,
    keys: Words,
    target: np.uint64,
    owner: np.uint64,
    bits: Cells,
    bits_width: np.uint64,
    column: np.uint64,
    bit: np.uint64,
) -> None:
    """Clear owner and bit of every key that `owner` owns, of every owned key when `owner` is 0."""
    slots = slots_of(cells, width)
    bit_slots = slots_of(bits, bits_width)
    n = keys.shape[0]
    for at in range(n):
        if at + AHEAD < n:
            prefetch(cells, home(_pair(keys[at + AHEAD], target), slots, width))
            prefetch(bits, home(keys[at + AHEAD], bit_slots, bits_width))
        row = row_of(cells, _pair(keys[at], target), slots, width)
        holder = cells[row + _ONE]
        if holder == ZERO or (owner != ZERO and holder != owner):  # noqa: PLR1714  # numba has no tuple membership
            continue
        cells[row + _ONE] = ZERO
        found = row_of(bits, keys[at], bit_slots, bits_width)
        if found != bit_slots * bits_width:
            bits[found + column] &= ~bit
