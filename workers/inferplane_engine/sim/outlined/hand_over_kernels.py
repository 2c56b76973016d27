"""What a driver does to single rows: they come, they go, their transfers arrive or fail."""

from inferplane_engine.compiled import kernel
from inferplane_engine.sim.outlined.layout import (
    ABSENT,
    BLOCKED,
    COMPUTED,
    EXTERNAL,
    FULL,
    HELD,
    HOLDS,
    IN_BATCH,
    IN_LINE,
    LENGTH,
    LOCAL,
    NAMES,
    OFFERED,
    PHASE,
    PROMPT,
    READY,
    ROOM,
    SIZE,
    SPAN,
    STALLED,
    SUBMITTED,
    WAITING,
    Core,
    Whole,
)
from inferplane_engine.sim.outlined.line_kernels import append, leave, push
from inferplane_engine.sim.outlined.pool_kernels import release, store_full
from inferplane_engine.sim.outlined.step_kernels import stop_running


@kernel
def enter(  # noqa: PLR0917  # kernels take positional arguments only
    core: Core, row: int, span: int, prompt: int, full: int, hashes: Whole, offered: int, holds: int, now: float
) -> None:
    """Put a request of `prompt` tokens, `full` with its answer, at the end of the waiting line."""
    rows, times = core.rows, core.times
    rows[row, :] = 0
    rows[row, PROMPT] = rows[row, LENGTH] = prompt
    rows[row, FULL] = full
    rows[row, SPAN], rows[row, ROOM] = span, -(-full // core.state[SIZE])
    rows[row, PHASE], rows[row, OFFERED], rows[row, HOLDS], rows[row, LOCAL] = IN_LINE, offered, holds, -1
    times[row, :] = float("nan")
    times[row, SUBMITTED] = now
    for at in range(min(hashes.shape[0], rows[row, ROOM])):
        core.spans[NAMES, span + at] = hashes[at]
    append(core, WAITING, row)
    core.state[STALLED] = core.state[BLOCKED] = 0


@kernel
def drop(core: Core, row: int) -> None:
    """Let a row go wherever it is, and everything that it holds."""
    phase = core.rows[row, PHASE]
    if phase == IN_BATCH:
        stop_running(core, row)
    elif phase == IN_LINE:
        leave(core, READY if core.rows[row, HELD] else WAITING, row)  # who waits holds nothing yet
    release(core, row)
    core.rows[row, PHASE] = ABSENT
    core.state[STALLED] = core.state[BLOCKED] = 0


@kernel
def take_in(core: Core, row: int) -> None:
    """Complete a transfer: only the last token of the prompt is left to compute."""
    prompt = core.rows[row, PROMPT]
    store_full(core, row, prompt)
    core.rows[row, COMPUTED] = prompt - 1
    core.rows[row, PHASE] = IN_LINE
    append(core, READY, row)
    core.state[STALLED] = core.state[BLOCKED] = 0


@kernel
def give_up_transfer(core: Core, row: int) -> None:
    """Let a row whose transfer failed compute its prompt itself, before everybody."""
    release(core, row)
    core.rows[row, EXTERNAL] = 0
    core.rows[row, PHASE] = IN_LINE
    push(core, WAITING, row)
    core.state[STALLED] = core.state[BLOCKED] = 0
