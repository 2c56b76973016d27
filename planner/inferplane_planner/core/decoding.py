"""How full a decoding worker's batch gets, and how long its steps are then.

Sequences come at a rate, stay for as many steps as they have tokens, and make each step longer by being there.  Where
the batch settles, as many leave as come: a fixed point, solved for piece by piece, since a step grows along straight
lines that only get steeper, and so meets it once.  How many there are at a moment spreads as Poisson has it.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

from inferplane_planner.core.demand import Demand
from inferplane_planner.core.times import EngineTimes

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Batch:
    """One worker's batch in the long run; `step_s` is the mean step, `full` says that no batch is large enough."""

    sequences: float
    step_s: float
    full: bool = False


def settle(times: EngineTimes, demand: Demand, *, per_worker: float, prefill_share: float = 0.0) -> Batch:
    """Return where the batch settles at `per_worker` requests a second.

    `prefill_share` of the worker's time goes to prefilling (aggregated workers), so that steps come that much rarer.
    """
    tokens = float(demand.output.mean())
    kv_each = float(demand.prompt.mean()) + _mean_grown(demand)
    most = times.most_sequences(kv_each)
    if prefill_share >= 1.0:
        return Batch(most, math.inf, full=True)

    def step(sequences: float) -> float:
        return times.decode_step_s(max(1.0, sequences), max(1.0, sequences) * kv_each) / (1.0 - prefill_share)

    if per_worker * tokens * step(most) > most:
        return Batch(most, step(most), full=True)

    def more(sequences: float) -> float:
        """Return how many more there would be than these."""
        return per_worker * tokens * step(sequences) - sequences

    low, high = 0.0, most
    for knee in sorted((min(1.0, most), min(times.crowd, most))):
        low, high = (knee, high) if more(knee) > 0.0 else (low, min(high, knee))
    coming, going = more(low), -more(high)
    sequences = low + (high - low) * coming / (coming + going) if coming > 0.0 else low
    return Batch(sequences, step(sequences))


def crowded_step_s(times: EngineTimes, demand: Demand, batch: Batch, *, share: float, prefill_share: float) -> float:
    """Return the step that `share` of all sequences do not exceed on average over their life.

    A sequence meets the batch as it is when it comes, and the batch turns over as fast as sequences leave; the mean
    over its life spreads less than a moment's count does.
    """
    if batch.full:
        return math.inf
    kv_each = float(demand.prompt.mean()) + _mean_grown(demand)
    spread = math.sqrt(batch.sequences / _LIFE_AVERAGES)
    crowd = min(times.most_sequences(kv_each), batch.sequences + _NORMAL.inv_cdf(share) * spread)
    return times.decode_step_s(max(1.0, crowd), max(1.0, crowd) * kv_each) / (1.0 - prefill_share)


_LIFE_AVERAGES = 2.0
"""A count whose memory lasts as long as a sequence, averaged over such a life, has about half of its variance."""


def _mean_grown(demand: Demand) -> float:
    """Return the KV tokens of the answer that a sequence holds at a random moment: long answers are seen more often."""
    return float((demand.output**2).mean() / (2.0 * demand.output.mean()))
