"""Where a fleet's knee is: the highest rate at which nearly all requests keep the SLO.

Attainment falls with the rate, but a short run is noisy, so the rate is doubled until the SLO breaks and then halved
into; the answer is as wide as the last interval.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

ATTAINED: Final = 0.95


@dataclass(frozen=True, slots=True)
class Knee:
    """Requests (or sessions) a second: kept at `rate_per_s`, broken at `broken_per_s`."""

    rate_per_s: float
    broken_per_s: float


def find_knee(attainment: Callable[[float], float], *, start_per_s: float, halvings: int = 5) -> Knee:
    """Search with one run of `attainment` for each rate; a start that is too high is halved first."""
    low, high = start_per_s, start_per_s
    while attainment(low) < ATTAINED:
        low, high = low / 2, low
        if low < start_per_s / 1024:
            return Knee(0.0, high)
    while high == low or attainment(high) >= ATTAINED:
        low, high = high, high * 2
        if high > start_per_s * 1024:
            return Knee(low, high)
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if attainment(middle) >= ATTAINED else (low, middle)
    return Knee(low, high)
