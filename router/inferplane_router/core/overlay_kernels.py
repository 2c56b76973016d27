"""Array kernels of the overlay: who predicted a (block, target) last.

A second table of the index's kind, keyed by a mixture of block and target, holds the owner's number in its one word.
Predictions come and go with every request, and nobody else reads these tables: a row that nobody needs is taken out at
once, and those behind it move up.  So a table has no dead rows, and is built anew only to grow, never within a pick
that has the bad luck to come when it is full of them.
"""

import numpy as np

from inferplane_engine.compiled import inline, kernel
from inferplane_router.core.index_kernels import AHEAD, ZERO, Cells, Words, home, is_dead, row_of, slots_of
from inferplane_router.core.prefetch import prefetch

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_R29 = np.uint64(29)
_ONE, _R6, _M63 = np.uint64(1), np.uint64(6), np.uint64(63)


@inline
def _pair(key: np.uint64, target: np.uint64) -> np.uint64:
    """Mix block and target to a key of their own, never 0."""
    value = (key ^ ((target + _ONE) * _SPREAD)) * _SPREAD
    value ^= value >> _R29
    value *= _SPREAD
    return value | _ONE


@inline
def _row_for(cells: Cells, width: np.uint64, key: np.uint64, slots: np.uint64) -> np.uint64:
    """Return the row that a key has, or may take."""
    end = slots * width
    row = home(key, slots, width)
    while cells[row] != key and cells[row] != ZERO:
        row += width
        if row == end:
            row = ZERO
    return row


@inline
def _take_out(cells: Cells, width: np.uint64, row: np.uint64, slots: np.uint64) -> None:
    """Empty a row; whoever could not be found beyond the gap moves into it, and leaves a gap in turn."""
    end, gap, at = slots * width, row, row
    while True:
        at += width
        if at == end:
            at = ZERO
        if cells[at] == ZERO:
            break
        wanted = home(cells[at], slots, width)
        displaced = at - wanted if at >= wanted else at + end - wanted
        beyond = at - gap if at >= gap else at + end - gap
        if displaced >= beyond:
            for column in range(width):
                cells[gap + np.uint64(column)] = cells[at + np.uint64(column)]
            gap = at
    for column in range(width):
        cells[gap + np.uint64(column)] = ZERO


@kernel
def own(  # noqa: PLR0917  # kernels take positional arguments only
    bits: Cells, bits_width: np.uint64, owners: Cells, width: np.uint64, keys: Words, target: int, owner: int
) -> tuple[int, int]:
    """Set the target's bit of every key and make `owner` its owner; return how many empty slots both tables lost."""
    taken_bits, taken_owners = 0, 0
    number, holder = np.uint64(target), np.uint64(owner)
    column, bit = _ONE + (number >> _R6), _ONE << (number & _M63)
    slots, bit_slots = slots_of(owners, width), slots_of(bits, bits_width)
    n = keys.shape[0]
    for at in range(-AHEAD, n):
        if at + AHEAD < n:
            prefetch(owners, home(_pair(keys[at + AHEAD], number), slots, width))
            prefetch(bits, home(keys[at + AHEAD], bit_slots, bits_width))
        if at < 0 or keys[at] == ZERO:
            continue
        row = _row_for(bits, bits_width, keys[at], bit_slots)
        taken_bits += bits[row] == ZERO
        bits[row] = keys[at]
        bits[row + column] |= bit
        pair = _pair(keys[at], number)
        row = _row_for(owners, width, pair, slots)
        taken_owners += owners[row] == ZERO
        owners[row] = pair
        owners[row + _ONE] = holder
    return taken_bits, taken_owners


@kernel
def disown(  # noqa: PLR0917  # kernels take positional arguments only
    bits: Cells, bits_width: np.uint64, owners: Cells, width: np.uint64, keys: Words, target: int, owner: int
) -> tuple[int, int]:
    """Take out every key that `owner` owns, every owned key when `owner` is 0; return how many slots came free."""
    freed_bits, freed_owners = 0, 0
    number, only = np.uint64(target), np.uint64(owner)
    column, bit = _ONE + (number >> _R6), _ONE << (number & _M63)
    slots, bit_slots = slots_of(owners, width), slots_of(bits, bits_width)
    n = keys.shape[0]
    for at in range(n):
        if at + AHEAD < n:
            prefetch(owners, home(_pair(keys[at + AHEAD], number), slots, width))
            prefetch(bits, home(keys[at + AHEAD], bit_slots, bits_width))
        row = row_of(owners, _pair(keys[at], number), slots, width)
        holder = owners[row + _ONE]
        if holder == ZERO or (only != ZERO and holder != only):  # noqa: PLR1714  # numba has no tuple membership
            continue
        _take_out(owners, width, row, slots)
        freed_owners += 1
        found = row_of(bits, keys[at], bit_slots, bits_width)
        bits[found + column] &= ~bit
        if found != bit_slots * bits_width and is_dead(bits, found, bits_width):
            _take_out(bits, bits_width, found, bit_slots)
            freed_bits += 1
    return freed_bits, freed_owners
