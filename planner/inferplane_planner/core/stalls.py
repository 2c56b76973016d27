"""How much slower tokens come because a worker prefills for others in between.

Problem.  On average prefills take their share of a worker's time from decoding, and long answers see just that.  A
short answer meets one prompt of another or none: its time per token is twice as long, or not longer at all, and it is
the percentile that an objective asks for.
Idea.  Prompts come while an answer lasts, and while the prompts that stall it last.  That is played over the sample
from the moment when a worker got its prompt on, with numbers that are drawn once and for all, so the same question has
the same answer.
A router gives a prompt to who has least to do, and that is not who just got one: of many workers each gets one in
turn, which makes its gaps more even than the arrivals' by their number.  Bursts make them as much less even.
Trade-off.  A router that is perfect in this and one that is not are told apart by measuring alone.  Beyond a few stalls
their sum is taken as normal.
"""

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from inferplane_planner.core.demand import Demand, Floats

Draws = NDArray[np.intp]

_MOST: Final = 12
_SIZE: Final = 2048
_UNEVEN: Final = 1.5
"""How much of a burst's variation reaches a worker: prompts are of unlike lengths, and whoever had a short one is next.

Found with fleets of 4 and 10 workers in simulation, which the play then comes close to for short answers.
"""
_SEED: Final = 20_000_003
_RNG: Final = np.random.default_rng(_SEED)
_SERVICES: Final = _RNG.random((_MOST, _SIZE))
_GAPS: Final = np.array([_RNG.permutation(_SIZE) for _ in range(_MOST)])
"""Which of the gaps, in order of their length, comes before each prompt of another."""
_NORMALS: Final[Floats] = np.sort(_RNG.standard_normal(_SIZE))[::-1][_GAPS[0]]
"""In the order of the first gaps, so that a draw is a crowded one either way."""


def stalled_tpot_s(
    demand: Demand, service: Floats, *, step_s: float, wait_s: float, workers: int, burst: float, percentile: float
) -> float:
    """Return the percentile of the time per token on aggregated workers, each of which decodes with `step_s`.

    `service` is the prefill of each request of the sample, in seconds; `wait_s` the mean wait for it: who came
    meanwhile is prefilled after it, into the answer.
    """
    places = np.arange(_SIZE) % demand.output.size
    steps = np.maximum(1.0, demand.output[places] - 1.0)
    rate, variation = demand.rate_per_s / workers, (1.0 + _UNEVEN * (burst - 1.0)) / workers
    own = steps * step_s
    stalls = rate * (own + wait_s)
    share = min(0.95, rate * float(service.mean()))
    few = stalls <= _MOST / 4.0 * (1.0 - share)
    before = wait_s + service[places]
    added = _many(stalls, share, service, variation)
    added[few] = _few(np.flatnonzero(few), own, before, _gaps(rate, variation), service)
    each = np.where(demand.output[places] > 1.0, step_s + added / steps, 0.0)
    return float(np.quantile(each, percentile))


def _gaps(rate: float, variation: float) -> Floats:
    """Return float64[_SIZE], the gaps between the prompts of one worker in seconds, in order of length."""
    gaps: Floats = _drawn(1.0 / variation) * (variation / max(rate, 1e-12))
    return gaps


@lru_cache(maxsize=512)
def _drawn(shape: float) -> Floats:
    """Return gamma draws, float64[_SIZE], in order; the same few shapes are asked for again and again."""
    drawn: Floats = np.sort(np.random.default_rng(_SEED).standard_gamma(shape, _SIZE))
    return drawn


def _few(draws: Draws, own: Floats, before: Floats, gaps: Floats, service: Floats) -> Floats:
    """Return for these draws the sum of the prefills that come until the answer, and they, are over."""
    ordered, added, following = np.sort(service), np.zeros(_SIZE), gaps[_GAPS[0]] - before
    stalled = draws[following[draws] < own[draws]]
    for number in range(_MOST):
        added[stalled] += ordered[(_SERVICES[number][stalled] * ordered.size).astype(np.int64)]
        following[stalled] += gaps[_GAPS[(number + 1) % _MOST][stalled]]
        stalled = stalled[following[stalled] < own[stalled] + added[stalled]]
    return added[draws]


def _many(stalls: Floats, share: float, service: Floats, variation: float) -> Floats:
    mean, spread = float(service.mean()), float(service.var())
    count = stalls / (1.0 - share)
    deviation = np.sqrt(count * (spread + variation * mean**2)) / (1.0 - share)
    added: Floats = np.maximum(0.0, count * mean + deviation * _NORMALS)
    return added
