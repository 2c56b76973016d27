"""The array kernel that finds the longest reusable prefix on every target at once.

Targets are bits: a word of 64 walks the prompt's blocks together, and single targets are only looked at when the set
of those that still match changes.  Blocks are looked up a chunk ahead, so that cache misses overlap; in a table that
nobody who still matches has lived off so far, they are looked up when somebody needs it: the tail of a prompt is often
predicted and not stored, its beginning stored and not predicted, and misses are the dearest look-ups.
"""

import numpy as np
from numpy.typing import NDArray

from inferplane_engine.compiled import inline, kernel
from inferplane_router.core.fences import fence, load_acquire
from inferplane_router.core.generations import COLUMNS, SHAPE, STORES, WIDTH, WORDS
from inferplane_router.core.index_kernels import (
    ALL,
    DEVICE,
    DISK,
    FIRM,
    HOST,
    ONE,
    REMOTE,
    RESUMABLE,
    ZERO,
    Cells,
    Words,
    home,
    lowest,
    row_of,
    slots_of,
)
from inferplane_router.core.prefetch import prefetch_read

Counts = NDArray[np.int32]

_FIRST_CHUNK, _CHUNK = 16, 128
"""Blocks that are looked up before they are judged: a miss at the start wastes few."""


@inline
def _look_up(  # noqa: PLR0917  # kernels take positional arguments only
    cells: Cells, width: np.uint64, keys: Words, first: int, last: int, rows: Words
) -> None:
    slots = slots_of(cells, width)
    for at in range(first, last):
        prefetch_read(cells, home(keys[at], slots, width))
    for at in range(first, last):
        rows[at] = row_of(cells, keys[at], slots, width)


@inline
def _reached(cells: Cells, cell: np.uint64, attached: Words, word: int) -> np.uint64:
    """Return the targets (of one word) that reach a store which has this block."""
    stores = cells[cell]
    words = attached.shape[0] // STORES
    targets = ZERO
    while stores != ZERO:
        targets |= np.uint64(attached[int(lowest(stores)) * words + word])
        stores &= stores - ONE
    return targets


@inline
def _add_run(counts: Counts, word: int, mask: np.uint64, tier: int, length: int) -> None:
    if length == 0:
        return
    while mask != ZERO:
        counts[word * 64 + lowest(mask), tier] += np.int32(length)
        mask &= mask - ONE


@inline
def _ends(cells: Cells, columns: Words, row: np.uint64, word: np.uint64, bit: np.uint64) -> bool:
    """Whether a hybrid target can resume after this block."""
    return bool(columns[RESUMABLE] != ZERO and cells[row + columns[RESUMABLE] + word] & bit != ZERO)


@inline
def _trim(  # noqa: PLR0917  # kernels take positional arguments only
    cells: Cells,
    columns: Words,
    rows: Words,
    guesses: Cells,
    guessed: Words,
    counts: Counts,
    target: int,
    drop: np.int64,
    hybrid: bool,  # noqa: FBT001  # kernels take positional arguments only
) -> None:
    """Shorten a target's prefix by what its engine will not reuse: dropped blocks, then up to a resumable one."""
    word, bit = np.uint64(target >> 6), ONE << np.uint64(target & 63)
    length = counts[target, DEVICE] + counts[target, HOST] + counts[target, DISK] + counts[target, REMOTE]
    given_back = 0
    while length > 0:
        at = length - 1
        row = np.uint64(rows[at])
        ends = not hybrid or _ends(cells, columns, row, word, bit) or guesses[guessed[at] + ONE + word] & bit != ZERO
        if given_back >= drop and ends:
            break
        given_back += 1
        length -= 1
        if at < counts[target, DEVICE]:
            counts[target, DEVICE] -= np.int32(1)
        elif columns[HOST] != ZERO and cells[row + columns[HOST] + word] & bit != ZERO:
            counts[target, HOST] -= np.int32(1)
        elif columns[DISK] != ZERO and cells[row + columns[DISK] + word] & bit != ZERO:
            counts[target, DISK] -= np.int32(1)
        else:
            counts[target, REMOTE] -= np.int32(1)
    firm = counts[target, FIRM]
    given_back = 0
    while firm > 0 and not (
        given_back >= drop and (not hybrid or _ends(cells, columns, np.uint64(rows[firm - 1]), word, bit))
    ):
        given_back += 1
        firm -= 1
    counts[target, FIRM] = firm


@inline
def _any_trimmed(hybrid: Words, drops: Words) -> bool:
    """Whether some target's prefix has to be shortened."""
    found = ZERO
    for word in hybrid:
        found |= np.uint64(word)
    for drop in drops:
        found |= np.uint64(drop)
    return bool(found != ZERO)


@inline
def _walk_lower(  # noqa: PLR0917  # kernels take positional arguments only
    cells: Cells,
    columns: Words,
    row: np.uint64,
    candidates: np.uint64,
    attached: Words,
    word: int,
    at: int,
    state: Cells,
    began: NDArray[np.int64],
    counts: Counts,
) -> None:
    """Carry on those targets whose device prefix has ended, each from the fastest tier that has the block."""
    column = np.uint64(word)
    host, disk, remote = ZERO, ZERO, ZERO
    if columns[HOST] != ZERO:
        host = candidates & cells[row + columns[HOST] + column]
    if columns[DISK] != ZERO:
        disk = candidates & ~host & cells[row + columns[DISK] + column]
    if columns[REMOTE] != ZERO:
        remote = candidates & ~host & ~disk & _reached(cells, row + columns[REMOTE], attached, word)
    if host == state[word, HOST] and disk == state[word, DISK] and remote == state[word, REMOTE]:
        return
    run = at - began[word]
    _add_run(counts, word, state[word, HOST], HOST, run)
    _add_run(counts, word, state[word, DISK], DISK, run)
    _add_run(counts, word, state[word, REMOTE], REMOTE, run)
    began[word] = at
    state[word, HOST], state[word, DISK], state[word, REMOTE] = host, disk, remote


@kernel
def find(  # noqa: C901, PLR0912, PLR0915, PLR0917  # one loop nest over registers; calls would spill them
    generation: Cells, shape: Words, keys: Words, trusted: Words, guesses: Cells, counts: Counts
) -> None:
    """Fill `counts[target]` with the blocks per tier of the longest reusable prefix of `keys`.

    As engines do: the device's own prefix comes first, then lower tiers extend it block by block, each from the
    fastest that has it.  `generation` is an index as `generations` describes it and `shape` its first cells, in memory
    that nobody else changes: all that is in reach of the array bounds.  `trusted` has the targets whose rows count;
    `guesses` is a table of predicted blocks (a row: key and the words of targets), which count as device blocks.
    Column FIRM is the device prefix of every target by the index alone.
    """
    words = trusted.shape[0]
    width, columns = shape[WIDTH], shape[COLUMNS:SHAPE]
    known = np.int64(shape[WORDS])
    hybrid = generation[SHAPE : SHAPE + known]
    drops = generation[SHAPE + known : SHAPE + 65 * known]
    attached = generation[SHAPE + 65 * known : SHAPE + (65 + STORES) * known]
    cells = generation[SHAPE + (65 + STORES) * known :]
    guess_width = np.uint64(words + 1)
    n = keys.shape[0]
    counts[:, :] = 0
    rows = np.empty(n, np.uint64)
    state = np.zeros((words, 5), np.uint64)  # who still matches: device, host, disk, remote, firm
    state[:, DEVICE] = ALL
    state[:, FIRM] = ALL
    began = np.zeros(words, np.int64)
    lower = columns[HOST] != ZERO or columns[DISK] != ZERO or columns[REMOTE] != ZERO
    guessing = guesses.shape[0] > words + 1
    guessed = np.zeros(n, np.uint64)
    trims = _any_trimmed(hybrid, drops)
    firms, strays = ALL, ALL  # whether a target lives off the index, and whether one lives off predictions
    first, last = 0, min(n, _FIRST_CHUNK)
    while first < last:
        known_from, guessed_from = last, last  # blocks of this chunk that are looked up so far, to its end
        if lower or trims or firms != ZERO:
            _look_up(cells, width, keys, first, last, rows)
            known_from = first
        if guessing and (lower or trims or strays != ZERO):
            _look_up(guesses, guess_width, keys, first, last, guessed)
            guessed_from = first
        alive = ZERO
        firms, strays = ZERO, ZERO
        for word in range(words):
            offset = columns[DEVICE] + np.uint64(word)
            guess_offset = ONE + np.uint64(word)
            trust = trusted[word]
            device, firm = state[word, DEVICE], state[word, FIRM]
            if not (guessing or lower):  # the usual case: one mask says all
                for at in range(first, last):
                    fallen = firm & ~cells[rows[at] + offset]
                    if fallen != ZERO:
                        _add_run(counts, word, fallen, FIRM, at)
                        _add_run(counts, word, fallen & trust, DEVICE, at)
                        firm &= ~fallen
                        if firm == ZERO:
                            break
                device = firm & trust
            elif not lower:
                for at in range(first, last):
                    here = ZERO
                    if firm != ZERO:
                        own = cells[rows[at] + offset]
                        here = own & trust
                        if firm & ~own != ZERO:
                            _add_run(counts, word, firm & ~own, FIRM, at)
                            firm &= own
                        asked_index = True
                    else:
                        asked_index = False
                    if device & ~here != ZERO:
                        if at < guessed_from:
                            _look_up(guesses, guess_width, keys, at, guessed_from, guessed)
                            guessed_from = at
                        here |= guesses[guessed[at] + guess_offset]
                        if device & ~here != ZERO and not asked_index:
                            if at < known_from:
                                _look_up(cells, width, keys, at, known_from, rows)
                                known_from = at
                            here |= cells[rows[at] + offset] & trust
                        fallen = device & ~here
                        if fallen != ZERO:
                            _add_run(counts, word, fallen, DEVICE, at)
                            device &= here
                    if device | firm == ZERO:
                        break
            else:
                for at in range(first, last):
                    own = cells[rows[at] + offset]
                    here = own & trust
                    if guessing:
                        here |= guesses[guessed[at] + guess_offset]
                    fallen = device & ~here
                    if fallen != ZERO:
                        _add_run(counts, word, fallen, DEVICE, at)
                        device &= here
                    if firm & ~own != ZERO:
                        _add_run(counts, word, firm & ~own, FIRM, at)
                        firm &= own
                    going = (state[word, HOST] | state[word, DISK] | state[word, REMOTE] | fallen) & trust
                    if going != ZERO:
                        _walk_lower(cells, columns, rows[at], going, attached, word, at, state, began, counts)
                        going = state[word, HOST] | state[word, DISK] | state[word, REMOTE]
                    if device | firm | going == ZERO:
                        break
                alive |= state[word, HOST] | state[word, DISK] | state[word, REMOTE]
            state[word, DEVICE], state[word, FIRM] = device, firm
            firms |= firm
            strays |= device & ~firm
            alive |= device | firm
        if alive == ZERO:
            break
        first, last = last, min(n, last + _CHUNK)
    for word in range(words):
        for tier in (DEVICE, FIRM):
            _add_run(counts, word, state[word, tier], tier, n)
        for tier in (HOST, DISK, REMOTE):
            _add_run(counts, word, state[word, tier], tier, n - began[word])
    if not trims:
        return
    for target in range(64 * words):
        is_hybrid = (hybrid[target >> 6] >> np.uint64(target & 63)) & ONE != ZERO
        drop = np.int64(drops[target])
        if is_hybrid or drop > 0:
            _trim(cells, columns, rows, guesses, guessed, counts, target, drop, is_hybrid)


@kernel
def find_shown(  # noqa: PLR0917  # kernels take positional arguments only
    board: Cells,
    place: np.uint64,
    mark: np.uint64,
    generation: Cells,
    shape: Words,
    keys: Words,
    trusted: Words,
    guesses: Cells,
    counts: Counts,
) -> bool:
    """Do as `find` does; say whether all that was read belonged to the generation that `mark` at `place` stands for."""
    find(generation, shape, keys, trusted, guesses, counts)
    fence()
    return bool(load_acquire(board, place) == mark)
