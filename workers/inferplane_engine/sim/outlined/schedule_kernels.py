"""What the next step computes: the order, budget, admission and preemption of `inferplane_engine.sim.scheduler`."""

import math

import numpy as np

from inferplane_engine.compiled import inline
from inferplane_engine.sim.outlined.layout import (
    BATCH,
    BLOCKED,
    COMPUTED,
    EXTERNAL,
    EXTERNAL_HITS,
    EXTERNAL_QUERIES,
    FREE,
    HELD,
    HITS,
    IN_BATCH,
    IN_LINE,
    KV_TOKEN,
    LENGTH,
    LOCAL,
    MOST_SEQUENCES,
    MOST_TOKENS,
    OFFERED,
    OVERHEAD,
    PAIR,
    PHASE,
    PREEMPTED,
    PREEMPTIONS,
    PROMPT,
    PULLING,
    QUERIES,
    READY,
    RUNNING,
    RUNS,
    SAID,
    SAYS_FATAL,
    SAYS_PULL,
    SCHEDULED,
    SEQUENCE,
    SIZE,
    STEPS_NOW,
    TOKEN,
    WAITING,
    WEIGHTS,
    Core,
    Times,
)
from inferplane_engine.sim.outlined.line_kernels import first_of, leave, push
from inferplane_engine.sim.outlined.pool_kernels import find, free_among, grow, hold_found, release, store_full

_NO_ROOM, _PULLS = -1, 0


@inline
def step_s(clock: Times, tokens: float, pairs: float, kv_tokens: float, sequences: float) -> float:
    """Return how long a step takes: the operations of `timing.step_s`, in its order."""
    compute = tokens * clock[TOKEN]
    linear = (compute + clock[WEIGHTS] + abs(compute - clock[WEIGHTS])) * 0.5
    attention = pairs * clock[PAIR] + kv_tokens * clock[KV_TOKEN]
    return float(clock[OVERHEAD] + linear + attention + sequences * clock[SEQUENCE])


@inline
def say(core: Core, what: int, row: int, at: float) -> None:
    said = core.state[SAID]
    core.said[said, 0], core.said[said, 1], core.times[row, what] = what, row, at
    core.state[SAID] += 1


@inline
def schedule(core: Core, now: float) -> float:
    """Choose a step's work, take the blocks for it, and return how long it takes."""
    state = core.state
    state[BATCH] = state[BLOCKED] = 0
    work = np.zeros(4)  # tokens, pairs of a prefill, tokens that are attended to, and tokens left
    work[3] = state[MOST_TOKENS]
    before = state[PREEMPTIONS]
    _continue_running(core, work)
    if state[PREEMPTIONS] == before:
        _admit(core, work, now)
    return step_s(core.clock, work[0], work[1], work[2], float(state[BATCH]))


@inline
def _place(core: Core, work: Times, row: int, new: int) -> None:
    """Take blocks and put a row with `new` more tokens into the step."""
    rows = core.rows
    tokens = rows[row, COMPUTED] + new
    grow(core, row, tokens)
    rows[row, COMPUTED] = tokens
    store_full(core, row, tokens)
    _count(core, work, row, new)


@inline
def _count(core: Core, work: Times, row: int, new: int) -> None:
    rows, state = core.rows, core.state
    work[0] += new
    work[3] -= new
    if new == 1 and rows[row, LENGTH] > rows[row, PROMPT]:
        work[2] += rows[row, COMPUTED]
    else:
        context = float(rows[row, COMPUTED] - new)
        work[1] += float(new) * context + float(new) * (float(new) + 1.0) * 0.5
    core.order[STEPS_NOW, state[BATCH]] = row
    state[BATCH] += 1


@inline
def _continue_running(core: Core, work: Times) -> None:
    state, rows = core.state, core.rows
    size = state[SIZE]
    while state[BATCH] < state[RUNNING] and work[3] > 0:
        row = core.order[RUNS, state[BATCH]]
        new = min(rows[row, LENGTH] - rows[row, COMPUTED], int(work[3]))
        place = rows[row, COMPUTED] % size
        if new == 1 and 0 < place < size - 1:  # inside a block: nothing to take and nothing to store
            rows[row, COMPUTED] += 1
            _count(core, work, row, 1)
        elif _make_room(core, row, rows[row, COMPUTED] + new):
            _place(core, work, row, new)
        else:
            return


@inline
def blocks_for(core: Core, tokens: int) -> int:
    return int(-(-tokens // core.state[SIZE]))


@inline
def _make_room(core: Core, row: int, tokens: int) -> bool:
    """Preempt from the end until `tokens` tokens of a row fit; False: the row itself had to go."""
    state, rows = core.state, core.rows
    while blocks_for(core, tokens) - rows[row, HELD] > state[FREE]:
        state[RUNNING] -= 1
        victim = core.order[RUNS, state[RUNNING]]
        release(core, victim)
        rows[victim, PHASE] = IN_LINE
        rows[victim, PREEMPTED] += 1
        state[PREEMPTIONS] += 1
        push(core, WAITING, victim)
        if victim == row:
            return False
    return True


@inline
def _admit(core: Core, work: Times, now: float) -> None:
    state, rows = core.state, core.rows
    while work[3] > 0 and state[RUNNING] < state[MOST_SEQUENCES]:
        if state[READY] + state[WAITING] == 0:
            return
        line = READY if state[READY] else WAITING
        row = first_of(core, line)
        new = _admit_ready(core, work, row) if line == READY else _admit_new(core, work, row, now)
        if new == _NO_ROOM:
            state[BLOCKED] = 1
            return
        leave(core, line, row)
        if new == _PULLS:
            continue
        rows[row, PHASE] = IN_BATCH
        if math.isnan(core.times[row, SCHEDULED]):
            core.times[row, SCHEDULED] = now
        core.order[RUNS, state[RUNNING]] = row
        state[RUNNING] += 1


@inline
def _admit_ready(core: Core, work: Times, row: int) -> int:
    rows = core.rows
    new = min(rows[row, LENGTH] - rows[row, COMPUTED], int(work[3]))
    if blocks_for(core, rows[row, COMPUTED] + new) - rows[row, HELD] > core.state[FREE]:
        return _NO_ROOM
    _place(core, work, row, new)
    return int(new)


@inline
def _admit_new(core: Core, work: Times, row: int, now: float) -> int:
    """Return the tokens to compute now; or that there is no room yet, or that it waits for a transfer."""
    rows, size = core.rows, core.state[SIZE]
    length = rows[row, LENGTH]
    found = find(core, row, (length - 1) // size)
    if rows[row, OFFERED] >= 0:
        return _admit_pull(core, row, found, now)
    if blocks_for(core, length) - found + free_among(core, row, found) > core.state[FREE]:
        return _NO_ROOM
    new = min(length - found * size, int(work[3]))
    _count_hit(core, row, found * size, 0)
    hold_found(core, row, found)
    _place(core, work, row, new)
    return int(new)


@inline
def _admit_pull(core: Core, row: int, found: int, now: float) -> int:
    """Reserve blocks for a transfer, beside what running prefills still need."""
    rows, state = core.rows, core.state
    prompt, reserved = rows[row, PROMPT], 0
    for place in range(state[RUNNING]):
        other = core.order[RUNS, place]
        if rows[other, COMPUTED] < rows[other, LENGTH]:
            reserved += max(0, blocks_for(core, rows[other, LENGTH]) - rows[other, HELD])
    wanted = blocks_for(core, prompt) - found
    if wanted + free_among(core, row, found) > state[FREE] - reserved:
        return _NO_ROOM
    if rows[row, OFFERED] < wanted:
        say(core, SAYS_FATAL, row, now)
        return _NO_ROOM
    rows[row, OFFERED] = -1
    rows[row, PHASE] = PULLING
    moved = prompt - found * state[SIZE]
    _count_hit(core, row, found * state[SIZE], moved)
    hold_found(core, row, found)
    grow(core, row, prompt)
    say(core, SAYS_PULL, row, now)
    return _PULLS


@inline
def _count_hit(core: Core, row: int, local: int, external: int) -> None:
    rows, state = core.rows, core.state
    state[QUERIES] += rows[row, LENGTH]
    state[HITS] += local
    if external:
        state[EXTERNAL_QUERIES] += rows[row, LENGTH] - local
        state[EXTERNAL_HITS] += external
    if rows[row, LOCAL] < 0:
        rows[row, LOCAL], rows[row, EXTERNAL] = local, external
