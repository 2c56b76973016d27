"""Time: step after step until a given moment, and a look at when something will happen that others can see.

An engine that is stepped exactly is called for every step, and a call costs several times what the step does, most of
it for finding out what its arguments are.  So `advance` takes the arrays themselves, which is found out fastest, and
answers with the time of the next look, which would be another call.
Most steps only give every sequence one more token.  Of such a run only the times are added up, step by step, since a
sum in another order would be another number; rows are written once for all of it.
"""

import math

from inferplane_engine.compiled import inline, kernel
from inferplane_engine.sim.outlined.layout import (
    BATCH,
    BLOCKED,
    COMPUTED,
    EXACT,
    FREE,
    FULL,
    GONE,
    HOLDS,
    KEPT,
    LENGTH,
    MOST_SEQUENCES,
    NOW,
    PHASE,
    PREEMPTIONS,
    PROMPT,
    READY,
    RUNNING,
    RUNS,
    SAID,
    SAYS_FATAL,
    SAYS_FINISHED,
    SAYS_FIRST,
    SIZE,
    STALLED,
    STEP_END,
    STEPS,
    STEPS_NOW,
    STORED,
    WAITING,
    Core,
    Times,
    Whole,
)
from inferplane_engine.sim.outlined.pool_kernels import release
from inferplane_engine.sim.outlined.schedule_kernels import say, schedule, step_s

HAS_CHANGED, HAS_SAID = -1.0, -2.0


@kernel
def advance(  # noqa: PLR0917  # kernels take positional arguments only
    state: Whole,
    clock: Times,
    rows: Whole,
    times: Times,
    order: Whole,
    spans: Whole,
    blocks: Whole,
    heads: Whole,
    changes: Whole,
    said: Whole,
    until: float,
    hold_at: float,
) -> float:
    """Do all that is due by `until`, but begin no step from `hold_at` on; the arrays are those of `Core`.

    Returns when to look again, in seconds (infinity: never), or why to listen and to call again: `HAS_CHANGED` at an
    announcement, after which more may be due, `HAS_SAID` when nothing more is due.
    """
    core = Core(state, clock, rows, times, order, spans, blocks, heads, changes, said)
    if _announces(core, until, hold_at):
        return HAS_CHANGED
    return HAS_SAID if state[SAID] else _next_at(core)


@inline
def _announces(core: Core, until: float, hold_at: float) -> bool:
    """Do what is due; True: stopped at an announcement before the end."""
    state, clock = core.state, core.clock
    while True:
        if clock[STEP_END] <= until:
            _run_plainly(core, until, hold_at)
        if clock[STEP_END] <= until:
            clock[NOW] = clock[STEP_END]
            clock[STEP_END] = math.inf
            _end_step(core, clock[NOW])
        elif clock[STEP_END] < math.inf or state[STALLED] or _is_idle(core) or clock[NOW] >= hold_at:
            return False
        else:
            _start_step(core)
            if clock[STEP_END] < math.inf:
                continue  # what it took and stored is announced at its end
        if state[STORED] + state[GONE]:
            return True


@inline
def _is_idle(core: Core) -> bool:
    state = core.state
    return bool(state[WAITING] + state[READY] + state[RUNNING] == 0)


@inline
def _start_step(core: Core) -> None:
    state, said, preempted = core.state, core.state[SAID], core.state[PREEMPTIONS]
    takes_s = schedule(core, core.clock[NOW])
    fatal = state[SAID] > said and core.said[state[SAID] - 1, 0] == SAYS_FATAL
    if fatal or state[BATCH] == 0:
        state[STALLED] = fatal or state[PREEMPTIONS] == preempted  # else there is room now
        return
    state[STEPS] += 1
    core.clock[STEP_END] = core.clock[NOW] + takes_s


@inline
def _end_step(core: Core, at: float) -> None:
    state, rows = core.state, core.rows
    count, state[BATCH] = state[BATCH], 0
    for place in range(count):
        row = core.order[STEPS_NOW, place]
        if rows[row, COMPUTED] < rows[row, LENGTH]:
            continue
        if rows[row, LENGTH] == rows[row, PROMPT]:
            say(core, SAYS_FIRST, row, at)
        rows[row, LENGTH] += 1
        if rows[row, LENGTH] >= rows[row, FULL]:
            _finish(core, row, at)


@inline
def _finish(core: Core, row: int, at: float) -> None:
    stop_running(core, row)
    if core.rows[row, HOLDS]:
        core.rows[row, PHASE] = KEPT
    else:
        release(core, row)
    say(core, SAYS_FINISHED, row, at)


@inline
def stop_running(core: Core, row: int) -> None:
    """Take a row out of those that run, and out of the step in flight."""
    for order, count in ((RUNS, RUNNING), (STEPS_NOW, BATCH)):
        kept = 0
        for place in range(core.state[count]):
            other = core.order[order, place]
            core.order[order, kept] = other
            kept += other != row
        core.state[count] = kept


@kernel
def next_at(core: Core) -> float:
    """Return the time at which somebody outside will see something happen, or before it; infinity: never."""
    return _next_at(core)


@inline
def _next_at(core: Core) -> float:
    state, clock = core.state, core.clock
    if clock[STEP_END] == math.inf:
        return math.inf if state[STALLED] or _is_idle(core) else clock[NOW]
    if state[EXACT] or state[STORED] + state[GONE] or not _nobody_joins(core):
        return float(clock[STEP_END])
    return _end_of_run(core)


@inline
def _nobody_joins(core: Core) -> bool:
    """Tell whether the same sequences run until one ends or blocks change hands."""
    state = core.state
    if state[BATCH] == 0 or state[BATCH] < state[RUNNING]:
        return False
    waits = state[READY] + state[WAITING] > 0 and state[RUNNING] < state[MOST_SEQUENCES]
    return bool(not waits or state[BLOCKED])


@inline
def _end_of_run(core: Core) -> float:
    """Return when a run of plain decode steps ends: a block is full or opened, or an answer ends."""
    state, clock = core.state, core.clock
    alike = state[READY] + state[WAITING] == 0 and state[FREE] >= state[BATCH]
    steps, attended = _plain_steps(core, alike)
    batch, end = float(state[BATCH]), float(clock[STEP_END])
    for step in range(1, steps + 1):
        end += step_s(clock, batch, 0.0, attended + step * batch, batch)
    return end


@inline
def _plain_steps(core: Core, beyond: int) -> tuple[int, float]:
    """Return how many steps after the one in flight only give its sequences a token each, and what it attends to.

    `beyond` is how many to count that also fill or open a block.
    """
    state, rows = core.state, core.rows
    size, steps, attended = state[SIZE], 1 << 40, 0
    for place in range(state[BATCH]):
        row = core.order[STEPS_NOW, place]
        computed, length = rows[row, COMPUTED], rows[row, LENGTH]
        if computed < length or length == rows[row, PROMPT]:
            return 0, 0.0
        inside = computed % size
        free_of_blocks = size - 1 - inside if inside else 0
        steps = min(steps, rows[row, FULL] - length - 1, free_of_blocks + beyond)
        attended += computed
    return max(0, steps), float(attended)


@inline
def _run_plainly(core: Core, until: float, hold_at: float) -> None:
    """Leave the last plain step in flight that begins by `until`, as if each before it had begun and ended."""
    state, rows, clock = core.state, core.rows, core.clock
    if state[EXACT] or state[STORED] + state[GONE] or not _nobody_joins(core):
        return
    steps, attended = _plain_steps(core, 0)
    batch, end, done = float(state[BATCH]), float(clock[STEP_END]), 0
    while done < steps and end <= until and end < hold_at:
        done += 1
        clock[NOW] = end
        end += step_s(clock, batch, 0.0, attended + done * batch, batch)
    clock[STEP_END] = end
    state[STEPS] += done
    for place in range(state[BATCH]):
        row = core.order[STEPS_NOW, place]
        rows[row, COMPUTED] += done
        rows[row, LENGTH] += done
