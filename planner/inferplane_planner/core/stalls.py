"""How much slower tokens come because a worker prefills for others in between.

Problem.  On average prefills take their share of a worker's time from decoding, and long answers see just that.  A
short answer meets one prompt of another or none: its time per token is twice as long, or not longer at all, and it is
the percentile that an objective asks for.
Idea.  Prompts come while an answer lasts, and while the prompts that stall it last: a busy period, whose length in
prompts is Borel and Tanner's.  The sums are played over the sample with numbers that are drawn once and for all, so the
same question has the same answer, and more workers never have a worse one.
Prompts come in bursts: of those that came with a request, its worker gets its part, and half of them after it.
Trade-off.  Beyond a few stalls their sum is taken as normal.
Source: J. C. Tanner, A derivation of the Borel distribution (1961).
"""

import math
from typing import Final

import numpy as np

from inferplane_planner.core.demand import Demand, Floats

_MOST: Final = 12
_SIZE: Final = 2048
_RNG: Final = np.random.default_rng(20_000_003)
_COUNTS: Final = _RNG.random(_SIZE)
_NORMALS: Final = np.sort(_RNG.standard_normal(_SIZE))[np.argsort(np.argsort(_COUNTS))]
"""In the order of the counts, so that a draw is a crowded one either way."""
_SERVICES: Final = _RNG.random((_MOST, _SIZE))


def stalled_tpot_s(
    demand: Demand, service: Floats, *, step_s: float, wait_s: float, workers: int, burst: float, percentile: float
) -> float:
    """Return the percentile of the time per token on aggregated workers, each of which decodes with `step_s`.

    `wait_s` is the mean wait for a prefill: who came meanwhile is prefilled after it, into the answer.
    """
    rate = demand.rate_per_s / workers
    share = min(0.95, rate * float(service.mean()))
    places = np.arange(_SIZE) % demand.output.size
    steps = np.maximum(1.0, demand.output[places] - 1.0)
    together = (burst - 1.0) / workers / 2.0
    stalls = rate * (steps * step_s + wait_s + float(service.mean())) + together
    few = stalls <= _MOST / 4.0 * (1.0 - share)
    added = np.where(few, _few(stalls, share, service), _many(stalls, share, service))
    each = np.where(demand.output[places] > 1.0, step_s + added / steps, 0.0)
    return float(np.quantile(each, percentile))


def _few(stalls: Floats, share: float, service: Floats) -> Floats:
    """Return the sum of as many prefills as come in a busy period that begins with a Poisson number of them."""
    ordered, added, below = np.sort(service), np.zeros(_SIZE), np.zeros(_SIZE)
    for number in range(_MOST):
        mean = stalls + number * share
        below = below + np.exp((number - 1) * np.log(mean) - mean - math.lgamma(number + 1)) * stalls
        taken = ordered[(_SERVICES[number] * ordered.size).astype(np.int64)]
        added = added + np.where(below < _COUNTS, taken, 0.0)
    return added


def _many(stalls: Floats, share: float, service: Floats) -> Floats:
    mean, second = float(service.mean()), float((service**2).mean())
    count = stalls / (1.0 - share)
    return np.maximum(0.0, count * mean + np.sqrt(count * second) / (1.0 - share) * _NORMALS)
