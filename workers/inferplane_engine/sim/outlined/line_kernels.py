"""Lines of rows that can be left from anywhere: waiting ones, and ready ones whose transfer is complete."""

from inferplane_engine.compiled import inline
from inferplane_engine.sim.outlined.layout import AFTER, BEFORE, Core

_COUNT, _FIRST, _LAST = 0, 1, 2
_NOBODY = -1


@inline
def append(core: Core, line: int, row: int) -> None:
    """Stand at the end."""
    state, rows = core.state, core.rows
    last = state[line + _LAST] if state[line + _COUNT] else _NOBODY
    rows[row, BEFORE], rows[row, AFTER] = last, _NOBODY
    if last == _NOBODY:
        state[line + _FIRST] = row
    else:
        rows[last, AFTER] = row
    state[line + _LAST] = row
    state[line + _COUNT] += 1


@inline
def push(core: Core, line: int, row: int) -> None:
    """Stand before everybody."""
    state, rows = core.state, core.rows
    first = state[line + _FIRST] if state[line + _COUNT] else _NOBODY
    rows[row, BEFORE], rows[row, AFTER] = _NOBODY, first
    if first == _NOBODY:
        state[line + _LAST] = row
    else:
        rows[first, BEFORE] = row
    state[line + _FIRST] = row
    state[line + _COUNT] += 1


@inline
def leave(core: Core, line: int, row: int) -> None:
    """Leave from wherever the row stands."""
    state, rows = core.state, core.rows
    before, after = rows[row, BEFORE], rows[row, AFTER]
    if before == _NOBODY:
        state[line + _FIRST] = after
    else:
        rows[before, AFTER] = after
    if after == _NOBODY:
        state[line + _LAST] = before
    else:
        rows[after, BEFORE] = before
    state[line + _COUNT] -= 1


@inline
def first_of(core: Core, line: int) -> int:
    """Return who is next; only of a line in which somebody stands."""
    return int(core.state[line + _FIRST])
