"""Waiting in front of several servers, as far as formulas know it.

Exact for exponential service times (Erlang's C); for others the mean wait is scaled by the variation of arrivals and
service (Allen and Cunneen), and the tail is taken as exponential, which it is far out in any such queue.
That scaling is for queues that are long for want of capacity.  A burst waits in front of servers that have nothing to
do for the rest of the time: those who come behind as many others as there are servers wait, however low the load, and
where that is more it counts.  Bursts are taken as batches of geometric size, of the arrivals' variation.
Source: L. Kleinrock, Queueing Systems; A. O. Allen, Probability, Statistics, and Queueing Theory.
"""

import math
from dataclasses import dataclass


def erlang_c(servers: int, load: float) -> float:
    """Return the chance that an arrival waits; `load` is arrival rate x mean service time, below `servers`."""
    if load <= 0:
        return 0.0
    if load >= servers:
        return 1.0
    blocked = 1.0  # Erlang's B by recursion, which neither overflows nor cancels
    for count in range(1, servers + 1):
        blocked = load * blocked / (count + load * blocked)
    share = load / servers
    return blocked / (1.0 - share * (1.0 - blocked))


@dataclass(frozen=True, slots=True)
class Wait:
    """Waiting time: with chance `waits` it is exponential with this mean, otherwise 0; times in seconds."""

    waits: float
    mean_of_waiting_s: float

    @property
    def mean_s(self) -> float:
        return self.waits * self.mean_of_waiting_s

    def exceeded_with(self, chance: float) -> float:
        """Return the wait that is exceeded with that chance."""
        if self.waits <= chance or self.mean_of_waiting_s == 0.0:
            return 0.0
        return self.mean_of_waiting_s * math.log(self.waits / chance)

    @property
    def endless(self) -> bool:
        return math.isinf(self.mean_of_waiting_s)


NO_WAIT = Wait(0.0, 0.0)
ENDLESS = Wait(1.0, math.inf)


def wait(*, servers: int, rate_per_s: float, mean_s: float, variation: float, burst: float = 1.0) -> Wait:
    """Return the wait of arrivals of `rate_per_s` for one of `servers`.

    `variation` is the squared coefficient of variation of the service time, `burst` that of the gaps between arrivals
    (1: Poisson).
    """
    load = rate_per_s * mean_s
    if load <= 0:
        return NO_WAIT
    if servers <= 0 or load >= servers:
        return ENDLESS
    waits, behind = erlang_c(servers, load), _behind(servers, burst)
    if max(waits, behind) == 0.0:
        return NO_WAIT  # less than a number can say
    crowded = max(waits * (burst - 1.0) / 2.0, behind * (burst + 1.0) / 2.0)
    mean_wait_s = (waits * (variation + 1.0) / 2.0 + crowded) * mean_s / (servers - load)
    return Wait(max(waits, behind), mean_wait_s / max(waits, behind))


def _behind(servers: int, burst: float) -> float:
    """Return the chance that as many came just before in the same burst; 0 for Poisson's arrivals."""
    return ((burst - 1.0) / (burst + 1.0)) ** servers if burst > 1.0 else 0.0
