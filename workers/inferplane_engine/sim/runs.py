"""Runs: one step in flight, or many alike planned at once.

While every sequence decodes one token a step and nobody can join, step follows step without a decision.  Such a
stretch is planned whole: its end times are one cumulative sum, and of its effects only those that touch blocks are
looked at, in the order in which single steps would have them.
"""

from collections.abc import Callable
from collections.abc import Sequence as Items
from dataclasses import dataclass

import numpy as np

from inferplane_engine.sim.cache import KvCache
from inferplane_engine.sim.config import EngineConfig
from inferplane_engine.sim.scheduler import Schedule, Scheduler
from inferplane_engine.sim.sequence import Sequence
from inferplane_engine.sim.voice import Voice
from inferplane_engine.timing import TimingProfile, decode_step_s

_LOOK_AHEAD_TOKENS = 256
"""Longest run while tokens are computed: what is said beyond a run's end is kept, but not for free."""
_LOOK_AHEAD_STEPS = 4096
_LEAST_STEPS = 2


@dataclass(slots=True)
class Run:
    """Steps in flight: the first `done` are over, one more is scheduled, the others are planned."""

    sequences: list[Sequence]
    ends: list[float]
    done: int = 0

    @property
    def ends_at(self) -> float:
        return self.ends[-1]

    def drop_plan(self) -> None:
        """Keep the step in flight only."""
        del self.ends[self.done + 1 :]


def lengthen(
    run: Run,
    schedule: Schedule,
    *,
    config: EngineConfig,
    profile: TimingProfile,
    scheduler: Scheduler,
    voice: Voice,
    free: int,
) -> None:
    """Plan further steps of `run`, as long as each would be the same plain decode."""
    if config.speculation is not None or len(config.groups) > 1 or not scheduler.closed:
        return
    if not schedule.decodes == len(schedule.sequences) == len(scheduler.running):
        return
    limit = _LOOK_AHEAD_TOKENS if config.content else _LOOK_AHEAD_STEPS
    steps = voice.steps_until_end(run.sequences, min(limit, steps_until_full(run.sequences, config.block_size, free)))
    if steps < _LEAST_STEPS:
        return
    batch = float(len(run.sequences))
    later = float(schedule.kv_tokens) + batch * np.arange(1, steps, dtype=np.float64)
    durations = decode_step_s(profile, batch=np.full(steps - 1, batch), kv_tokens=later)
    run.ends = np.cumsum(np.concatenate(([run.ends[0]], durations))).tolist()


def steps_until_full(sequences: Items[Sequence], block_size: int, free: int) -> int:
    """Count the steps for which the free blocks suffice without a preemption."""
    takes = [0] * block_size
    for sequence in sequences:
        takes[-sequence.computed % block_size] += 1
    rounds, left = divmod(free, len(sequences))
    steps = 1 + rounds * block_size
    for taken in takes:
        left -= taken
        if left < 0:
            break
        steps += 1
    return steps


def schedule_many(
    run: Run, start: int, count: int, *, cache: KvCache, block_size: int, flush: Callable[[float], None]
) -> None:
    """Schedule the `count` steps after step `start`: take a block where a token opens one, store the full ones."""
    opens, fills = 0, 1
    effects: list[tuple[int, int, int]] = []
    for order, sequence in enumerate(run.sequences):
        first = -sequence.computed % block_size
        effects.extend((step, order, opens) for step in range(1 + first, count + 1, block_size))
        effects.extend((step, order, fills) for step in range(first or block_size, count + 1, block_size))
    effects.sort()
    before = [sequence.computed for sequence in run.sequences]
    flush(run.ends[start])
    current = 0
    for step, order, what in effects:
        if step != current and current:
            flush(run.ends[start + current])
        current = step
        change = cache.grow if what == opens else cache.commit
        change(run.sequences[order], before[order] + step)
    if current and start + current < run.done:
        flush(run.ends[start + current])
    for sequence in run.sequences:
        sequence.computed += count
