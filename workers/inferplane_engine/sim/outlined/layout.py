"""What an engine is made of, as arrays; one row a sequence, one a block."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from inferplane_engine.sim.config import EngineConfig
from inferplane_engine.timing import TimingProfile

Whole = NDArray[np.int64]
Times = NDArray[np.float64]

# Numbers of `state`: what is configured, then what goes on.
SIZE, MOST_SEQUENCES, MOST_TOKENS, CACHING, EXACT = 0, 1, 2, 3, 4
FREE, RUNNING, BATCH, STALLED, BLOCKED = 5, 6, 7, 8, 9
"""Free blocks; sequences running, and those in the step in flight; whether nothing could be scheduled, and whether the
next to be admitted waits for blocks, as far as nothing has changed since."""
WAITING, READY = 10, 13
"""Two lines, three numbers each: how many stand in it, the first, the last."""
STORED, GONE, ROUND = 16, 17, 18
"""Keys that were added and removed since the last announcement, and the number of that announcement."""
SAID = 19
STEPS, PREEMPTIONS, QUERIES, HITS, EXTERNAL_QUERIES, EXTERNAL_HITS = 20, 21, 22, 23, 24, 25
STATE = 26

# Numbers of `clock`: the time and when the step in flight ends (infinity: none is), then what a step costs.
NOW, STEP_END, OVERHEAD, WEIGHTS, TOKEN, PAIR, KV_TOKEN, SEQUENCE = 0, 1, 2, 3, 4, 5, 6, 7

# Columns of `rows`.
PROMPT, LENGTH, FULL, COMPUTED = 0, 1, 2, 3
"""Tokens: of the prompt, of prompt and answer so far, at the answer's end, of those that are held."""
HELD, KNOWN, SPAN, ROOM = 4, 5, 6, 7
"""Blocks held, and those of them that can be found; where the row's span begins, its length."""
PHASE, OFFERED, HOLDS = 8, 9, 10
"""Blocks that a producer offers, -1 for none; whether blocks are kept at the end."""
LOCAL, EXTERNAL, PREEMPTED = 11, 12, 13
BEFORE, AFTER = 14, 15
"""Neighbours in a line."""
ROW = 16

ABSENT, IN_LINE, PULLING, IN_BATCH, KEPT = 0, 1, 2, 3, 4
"""Phases: an unused row, waiting or ready, waiting for a transfer, running, finished but its blocks are kept."""

SAYS_FIRST, SAYS_FINISHED, SAYS_PULL, SAYS_FATAL, SUBMITTED, SCHEDULED = 0, 1, 2, 3, 4, 5
"""Columns of `times`; the first ones are also what is said of a row, with the time of it."""

RUNS, STEPS_NOW = 0, 1
"""Rows of `order`: who runs, the oldest first, and who of them is in the step in flight."""
NAMES, TABLE = 0, 1
"""Rows of `spans`: the keys of a sequence's blocks, and the blocks that it holds."""
CAME, WENT = 0, 1
"""Rows of `changes`: keys since the last announcement."""

# Columns of `blocks`.
HOLDERS, PREVIOUS, NEXT, COPY, FRESH, KEY = 0, 1, 2, 3, 4, 5
"""Who holds it; neighbours in the free list, whose ends are block 0; the next block with the same key; the round in
which it got its key; the key (64 bits, as a signed number), 0 for none."""
BLOCK = 6

_EACH_SAYS: Final = 4
_TIMES: Final = 6
_SPAN: Final = 4096


class Core(NamedTuple):
    """All that kernels work on; few arrays, since each costs time in every call."""

    state: Whole
    clock: Times
    rows: Whole
    times: Times
    order: Whole
    spans: Whole
    blocks: Whole
    heads: Whole
    """Open addressing: the first block of each key, 0 for none."""
    changes: Whole
    said: Whole
    """What was said of which row."""


def new_core(config: EngineConfig, profile: TimingProfile, rows: int = 64) -> Core:
    """Make an engine that has nothing to do and holds nothing."""
    state = np.zeros(STATE, np.int64)
    state[[SIZE, MOST_SEQUENCES, MOST_TOKENS]] = config.block_size, config.max_num_seqs, config.max_num_batched_tokens
    state[CACHING], state[EXACT], state[STALLED] = config.prefix_caching, config.exact, True
    state[FREE] = config.blocks - 1
    blocks = np.zeros((config.blocks, BLOCK), np.int64)
    blocks[:, PREVIOUS] = np.arange(-1, config.blocks - 1) % config.blocks
    blocks[:, NEXT] = np.arange(1, config.blocks + 1) % config.blocks
    return Core(
        state=state,
        clock=np.array([0.0, np.inf, *costs_of(profile)]),
        rows=np.zeros((rows, ROW), np.int64),
        times=np.full((rows, _TIMES), np.nan),
        order=np.zeros((2, config.max_num_seqs), np.int64),
        spans=np.zeros((2, _SPAN), np.int64),
        blocks=blocks,
        heads=np.zeros(1 << (2 * config.blocks).bit_length(), np.int64),
        changes=np.zeros((2, config.blocks), np.int64),
        said=np.zeros((_EACH_SAYS * rows, 2), np.int64),
    )


def costs_of(profile: TimingProfile) -> tuple[float, ...]:
    """Return what a step costs, in the order of `clock`."""
    return (
        profile.step_overhead_s,
        profile.weights_s,
        profile.token_compute_s,
        profile.attention_pair_s,
        profile.kv_token_s,
        profile.sequence_s,
    )


def with_rows(core: Core) -> Core:
    """Return the same with room for twice as many sequences."""
    return core._replace(
        rows=np.concatenate((core.rows, np.zeros_like(core.rows))),
        times=np.concatenate((core.times, np.full_like(core.times, np.nan))),
        said=np.concatenate((core.said, np.zeros_like(core.said))),
    )


def packed(core: Core, room: int) -> tuple[Core, int]:
    """Return the same with spans side by side and `room` more places behind them, and where those begin."""
    live = np.flatnonzero(core.rows[:, PHASE] != ABSENT)
    used = int(core.rows[live, ROOM].sum())
    size = core.spans.shape[1]
    while 2 * (used + room) > size:  # half empty, so that packing is rare
        size *= 2
    spans, at = np.zeros((2, size), np.int64), 0
    for row in live.tolist():
        begin, long = core.rows[row, SPAN], core.rows[row, ROOM]
        spans[:, at : at + long] = core.spans[:, begin : begin + long]
        core.rows[row, SPAN] = at
        at += int(long)
    return core._replace(spans=spans), at
