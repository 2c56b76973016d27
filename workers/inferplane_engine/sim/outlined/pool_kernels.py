"""Physical blocks as rows: the free list, and who can be found by which key.

The same rules as `inferplane_engine.sim.blocks`: freed blocks that can be found go to the end of the free list, others
to its front; a key may have several copies, of which the oldest is found; a free block loses its key when it is taken.
What enters and leaves is noted once a key, not once a copy, since that is all that a router is told.
"""

import numpy as np

from inferplane_engine.compiled import inline
from inferplane_engine.sim.outlined.layout import (
    CACHING,
    CAME,
    COMPUTED,
    COPY,
    FREE,
    FRESH,
    GONE,
    HELD,
    HOLDERS,
    KEY,
    KNOWN,
    NAMES,
    NEXT,
    PREVIOUS,
    ROUND,
    SIZE,
    SPAN,
    STORED,
    TABLE,
    WENT,
    Core,
)

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@inline
def _home(core: Core, key: int) -> int:
    return int(np.int64((np.uint64(key) * _SPREAD) >> _HALF) & (core.heads.shape[0] - 1))


@inline
def place_of(core: Core, key: int) -> int:
    """Return where a key's first block stands in `heads`, or would."""
    last = core.heads.shape[0] - 1
    at = _home(core, key)
    while core.heads[at] != 0 and core.blocks[core.heads[at], KEY] != key:
        at = (at + 1) & last
    return at


@inline
def _erase(core: Core, at: int) -> None:
    """Empty a place, and let those move up that others had pushed further."""
    last = core.heads.shape[0] - 1
    hole, place = at, (at + 1) & last
    while core.heads[place] != 0:
        wanted = _home(core, int(core.blocks[core.heads[place], KEY]))
        if (place - wanted) & last >= (place - hole) & last:
            core.heads[hole] = core.heads[place]
            hole = place
        place = (place + 1) & last
    core.heads[hole] = 0


@inline
def _unlink(core: Core, block: int) -> None:
    before, after = core.blocks[block, PREVIOUS], core.blocks[block, NEXT]
    core.blocks[before, NEXT], core.blocks[after, PREVIOUS] = after, before
    core.state[FREE] -= 1


@inline
def _link(core: Core, block: int, before: int) -> None:
    """Put a block into the free list behind another; 0: at its front."""
    after = core.blocks[before, NEXT]
    core.blocks[block, PREVIOUS], core.blocks[block, NEXT] = before, after
    core.blocks[before, NEXT] = core.blocks[after, PREVIOUS] = block
    core.state[FREE] += 1


@inline
def _note_gone(core: Core, key: int, block: int) -> None:
    """Note that a key has left with its last block; where it came in the same round, nobody hears of either."""
    state = core.state
    if core.blocks[block, FRESH] == state[ROUND] + 1:
        for at in range(state[STORED]):
            if core.changes[CAME, at] == key:
                state[STORED] -= 1
                core.changes[CAME, at] = core.changes[CAME, state[STORED]]
                return
    core.changes[WENT, state[GONE]] = key
    state[GONE] += 1


@inline
def _forget(core: Core, block: int) -> None:
    key = core.blocks[block, KEY]
    if key == 0:
        return
    at = place_of(core, key)
    other, follows = core.heads[at], core.blocks[block, COPY]
    if other != block:
        while core.blocks[other, COPY] != block:
            other = core.blocks[other, COPY]
        core.blocks[other, COPY] = follows
    elif follows != 0:
        core.heads[at] = follows
    else:
        _erase(core, at)
        _note_gone(core, key, block)
    core.blocks[block, KEY] = core.blocks[block, COPY] = 0


@inline
def grow(core: Core, row: int, tokens: int) -> None:
    """Take blocks until `tokens` tokens of a row have a place."""
    rows = core.rows
    wanted = -(-tokens // core.state[SIZE])
    for at in range(rows[row, HELD], wanted):
        block = core.blocks[0, NEXT]
        _unlink(core, block)
        _forget(core, block)
        core.blocks[block, HOLDERS] = 1
        core.spans[TABLE, rows[row, SPAN] + at] = block
    rows[row, HELD] = max(rows[row, HELD], wanted)


@inline
def find(core: Core, row: int, most: int) -> int:
    """Write the blocks that carry the beginning of a row's chain into its table; return how many, `most` at most."""
    if core.state[CACHING] == 0:
        return 0
    begin = core.rows[row, SPAN]
    for at in range(most):
        block = core.heads[place_of(core, core.spans[NAMES, begin + at])]
        if block == 0:
            return at
        core.spans[TABLE, begin + at] = block
    return most


@inline
def free_among(core: Core, row: int, count: int) -> int:
    """Count the first `count` blocks of a row's table that nobody holds."""
    begin, free = core.rows[row, SPAN], 0
    for at in range(count):
        free += core.blocks[core.spans[TABLE, begin + at], HOLDERS] == 0
    return free


@inline
def hold_found(core: Core, row: int, count: int) -> None:
    """Hold the `count` blocks that `find` wrote."""
    begin = core.rows[row, SPAN]
    for at in range(count):
        block = core.spans[TABLE, begin + at]
        if core.blocks[block, HOLDERS] == 0:
            _unlink(core, block)
        core.blocks[block, HOLDERS] += 1
    core.rows[row, HELD] = core.rows[row, KNOWN] = count
    core.rows[row, COMPUTED] = count * core.state[SIZE]


@inline
def store_full(core: Core, row: int, tokens: int) -> None:
    """Make the full blocks of a row's first `tokens` tokens findable."""
    rows, state = core.rows, core.state
    full = tokens // state[SIZE]
    if state[CACHING] == 0 or rows[row, KNOWN] >= full:
        return
    begin = rows[row, SPAN]
    for at in range(begin + rows[row, KNOWN], begin + full):
        _store(core, core.spans[TABLE, at], core.spans[NAMES, at])
    rows[row, KNOWN] = full


@inline
def _store(core: Core, block: int, key: int) -> None:
    at = place_of(core, key)
    core.blocks[block, KEY], core.blocks[block, COPY] = key, 0
    core.blocks[block, FRESH] = core.state[ROUND] + 1
    other = core.heads[at]
    if other == 0:
        core.heads[at] = block
        core.changes[CAME, core.state[STORED]] = key
        core.state[STORED] += 1
        return
    while core.blocks[other, COPY] != 0:
        other = core.blocks[other, COPY]
    core.blocks[other, COPY] = block


@inline
def release(core: Core, row: int) -> None:
    """Let go of all blocks of a row; the last one is taken first among those that can be found."""
    rows, blocks = core.rows, core.blocks
    begin, end = rows[row, SPAN], rows[row, SPAN] + rows[row, HELD]
    for at in range(end - 1, begin - 1, -1):
        block = core.spans[TABLE, at]
        blocks[block, HOLDERS] -= 1
        if blocks[block, HOLDERS] == 0 and blocks[block, KEY] != 0:
            _link(core, block, blocks[0, PREVIOUS])
    for at in range(begin, end):
        block = core.spans[TABLE, at]
        if blocks[block, HOLDERS] == 0 and blocks[block, KEY] == 0:
            _link(core, block, 0)
    rows[row, HELD] = rows[row, KNOWN] = rows[row, COMPUTED] = 0
