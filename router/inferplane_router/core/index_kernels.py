"""Array kernels of the block index: an open-addressing table in one flat array of uint64 cells.

A row of `width` cells is `[key, word, word, ...]`; key 0 is an empty slot.  Each plane of the index owns one or more
words, one bit a target (64 targets a word).  A row whose words are all 0 is dead: it still joins its probe chain
together, and the next new key that passes it takes it over; what is left is reclaimed when the table is rebuilt.

Rows hold key and words side by side, so that a store or a look-up costs one cache miss, not two, and the miss is asked
for ahead.  The number of slots need not be a power of two (the slot is the high half of a multiplication), so that
memory follows the number of blocks closely.  One more row behind the last slot is always empty: a missing key "is"
there, which saves a branch.  All indexes are unsigned, since numba adds a branch to signed ones.

Kernels take and return arrays and numbers only.  At least one slot is empty, so every probe ends; a reader's probe ends
even where another process has put something else by then, after one round.

Rows change under readers of other processes.  A cell is one aligned word, which neither x86 nor Arm tears.  Between two
cells no order is promised: on Arm a reader may see a row's new bit beside the dead key that it had before, or a new
key before its bit.  Either is a block too many or too few for some nanoseconds, in what is a prediction anyway.
"""

import numpy as np
from numpy.typing import NDArray

from inferplane_engine.compiled import inline, kernel
from inferplane_router.core.prefetch import prefetch

Cells = NDArray[np.uint64]
Words = NDArray[np.uint64]

DEVICE, HOST, DISK, REMOTE, RESUMABLE = 0, 1, 2, 3, 4
PLANES = 5
"""Entries of `columns`: where each plane's words begin in a row, 0 for a plane that is not kept."""
FIRM = 4
"""Column of `find`'s result after the four tiers: device blocks by the index alone, predictions aside."""

ZERO, ONE, ALL = np.uint64(0), np.uint64(1), ~np.uint64(0)
_R32, _R58 = np.uint64(32), np.uint64(58)
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_BIT_OF = np.zeros(64, np.int64)
for _bit in range(64):
    _BIT_OF[((int(_DE_BRUIJN) << _bit) & (2**64 - 1)) >> 58] = _bit

AHEAD = 16
"""Keys whose rows are on their way while one is judged."""


@inline
def slots_of(cells: Cells, width: np.uint64) -> np.uint64:
    return np.uint64(cells.shape[0]) // width - ONE


@inline
def home(key: np.uint64, slots: np.uint64, width: np.uint64) -> np.uint64:
    """Return where in `cells` the search for a key begins."""
    return (((key >> _R32) * slots) >> _R32) * width


@inline
def lowest(mask: np.uint64) -> np.int64:
    """Return the position of the lowest set bit."""
    return np.int64(_BIT_OF[((mask & (~mask + ONE)) * _DE_BRUIJN) >> _R58])


@inline
def is_dead(cells: Cells, row: np.uint64, width: np.uint64) -> bool:
    alive = ZERO
    for column in range(ONE, width):
        alive |= cells[row + np.uint64(column)]
    return bool(alive == ZERO)


@inline
def row_of(cells: Cells, key: np.uint64, slots: np.uint64, width: np.uint64) -> np.uint64:
    """Return the row of a key, the empty one behind the table when it has none."""
    end = slots * width
    first = home(key, slots, width)
    row = first
    while True:
        found = cells[row]
        if found == key:
            return row
        if found == ZERO:
            return end
        row += width
        if row == end:
            row = ZERO
        if row == first:
            return end


@kernel
def store(  # noqa: C901, PLR0912, PLR0917  # one probe loop; splitting it would hide which row is taken
    cells: Cells, width: np.uint64, keys: Words, column: np.uint64, bit: np.uint64, room: int
) -> tuple[int, int, int]:
    """Set `bit` for every key; return how many empty slots were taken, how many bits were new and how many refused.

    Beyond `room` empty slots a new key is refused, unless it can have a dead one's row.
    """
    taken = 0
    fresh = 0
    refused = 0
    slots = slots_of(cells, width)
    end = slots * width
    n = keys.shape[0]
    for at in range(min(AHEAD, n)):
        prefetch(cells, home(keys[at], slots, width))
    for at in range(n):
        if at + AHEAD < n:
            prefetch(cells, home(keys[at + AHEAD], slots, width))
        key = keys[at]
        if key == ZERO:
            continue
        row = home(key, slots, width)
        dead = end
        while True:
            found = cells[row]
            if found == key:
                if cells[row + column] & bit == ZERO:
                    cells[row + column] |= bit
                    fresh += 1
                break
            if found == ZERO:
                if dead != end:
                    row = dead
                elif taken < room:
                    taken += 1
                else:
                    refused += 1
                    break
                cells[row] = key
                cells[row + column] = bit
                fresh += 1
                break
            if dead == end and is_dead(cells, row, width):
                dead = row
            row += width
            if row == end:
                row = ZERO
    return taken, fresh, refused


@kernel
def remove(cells: Cells, width: np.uint64, keys: Words, column: np.uint64, bit: np.uint64) -> int:
    """Clear `bit` of every key; return how many were set."""
    gone = 0
    slots = slots_of(cells, width)
    n = keys.shape[0]
    for at in range(n):
        if at + AHEAD < n:
            prefetch(cells, home(keys[at + AHEAD], slots, width))
        row = row_of(cells, keys[at], slots, width)
        if cells[row + column] & bit != ZERO:
            cells[row + column] &= ~bit
            gone += 1
    return gone


@kernel
def held(cells: Cells, width: np.uint64, keys: Words, column: np.uint64, bit: np.uint64) -> int:
    """Return how many of the keys have `bit`."""
    count = 0
    slots = slots_of(cells, width)
    for at in range(keys.shape[0]):
        if cells[row_of(cells, keys[at], slots, width) + column] & bit != ZERO:
            count += 1
    return count


@kernel
def missing(cells: Cells, width: np.uint64, keys: Words) -> int:
    """Return how many of the keys have no row."""
    count = 0
    slots = slots_of(cells, width)
    end = slots * width
    for at in range(keys.shape[0]):
        if row_of(cells, keys[at], slots, width) == end:
            count += 1
    return count


@kernel
def clear(cells: Cells, width: np.uint64, column: np.uint64, bit: np.uint64) -> int:
    """Clear `bit` in every row of one column; return how many were set."""
    gone = 0
    for slot in range(slots_of(cells, width)):
        cell = np.uint64(slot) * width + column
        gone += cells[cell] & bit != ZERO
        cells[cell] &= ~bit
    return gone


@kernel
def count_live(cells: Cells, width: np.uint64) -> int:
    """Return how many rows have a bit set."""
    live = 0
    for slot in range(slots_of(cells, width)):
        if not is_dead(cells, np.uint64(slot) * width, width):
            live += 1
    return live


@kernel
def rebuild(old: Cells, old_width: np.uint64, new: Cells, new_width: np.uint64, moved_to: Words) -> int:
    """Copy live rows into the empty table `new`, column c to `moved_to[c]`; return how many."""
    live = 0
    slots = slots_of(new, new_width)
    end = slots * new_width
    old_end = slots_of(old, old_width) * old_width
    for slot in range(slots_of(old, old_width)):
        source = np.uint64(slot) * old_width
        ahead = source + np.uint64(AHEAD) * old_width
        if ahead < old_end and old[ahead] != ZERO:
            prefetch(new, home(old[ahead], slots, new_width))
        if is_dead(old, source, old_width):
            continue
        row = home(old[source], slots, new_width)
        while new[row] != ZERO:
            row += new_width
            if row == end:
                row = ZERO
        new[row] = old[source]
        for column in range(ONE, old_width):
            new[row + moved_to[column]] = old[source + np.uint64(column)]
        live += 1
    return live
