"""The cheapest candidate that keeps the objective, and what is best where none can.

Both percentiles get no worse with more workers of a kind, so for each number of decode workers the least number of
prefill workers is searched by halving; what is left is a walk along one axis.  The joint choice is by cost: a prefill
device may be another one than a decode device.
"""

from collections.abc import Callable
from dataclasses import dataclass

from inferplane_planner.core.errors import PlanningError
from inferplane_planner.core.predict import Candidate, Prediction


@dataclass(frozen=True, slots=True)
class Objective:
    """Limits in seconds at the percentile, a share below 1."""

    ttft_s: float
    tpot_s: float
    percentile: float = 0.95

    def __post_init__(self) -> None:
        if not (self.ttft_s > 0 and self.tpot_s > 0):
            raise PlanningError("slo", f"{self.ttft_s:g} s and {self.tpot_s:g} s are no limits", "give both above 0")
        if not 0 < self.percentile < 1:
            raise PlanningError("slo.percentile", f"{self.percentile:g} is not a share", "give one below 1, as 0.95")

    def met(self, prediction: Prediction) -> bool:
        return prediction.ttft_s <= self.ttft_s and prediction.tpot_s <= self.tpot_s

    def overrun(self, prediction: Prediction) -> float:
        """Say how far off the worse of the two is, as a factor; at most 1: met."""
        return max(prediction.ttft_s / self.ttft_s, prediction.tpot_s / self.tpot_s)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Least and most workers of a pool, devices and price of one."""

    least: int
    most: int
    devices: int = 1
    cost: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.most:
            raise PlanningError("replicas", f"{self.least}..{self.most} is empty", "raise the maximum")


@dataclass(frozen=True, slots=True)
class Limits:
    """What is allowed; `prefill` None: an aggregated service."""

    decode: Bounds
    prefill: Bounds | None = None
    max_devices: int | None = None
    max_cost: float | None = None

    def cost(self, candidate: Candidate) -> float:
        return candidate.decode * self.decode.cost + (candidate.prefill * self.prefill.cost if self.prefill else 0.0)

    def devices(self, candidate: Candidate) -> int:
        more = candidate.prefill * self.prefill.devices if self.prefill else 0
        return candidate.decode * self.decode.devices + more

    def allows(self, candidate: Candidate) -> bool:
        within = self.max_devices is None or self.devices(candidate) <= self.max_devices
        return within and (self.max_cost is None or self.cost(candidate) <= self.max_cost + 1e-9)


@dataclass(frozen=True, slots=True)
class Choice:
    """`met` false: the best that the limits allow, and what would do without them, if anything would."""

    candidate: Candidate
    prediction: Prediction
    met: bool
    would_take: Candidate | None = None


Predict = Callable[[Candidate], Prediction]


def solve(predict: Predict, objective: Objective, limits: Limits) -> Choice:
    """Choose.  Raises PlanningError where the limits allow nothing at all."""
    if not limits.allows(_least(limits)):
        raise PlanningError(
            "budget",
            f"{_least(limits)} takes {limits.devices(_least(limits))} devices and {limits.cost(_least(limits)):g} "
            "an hour, more than is allowed",
            "raise the budget or lower minReplicas",
        )
    known: dict[Candidate, Prediction] = {}

    def look(candidate: Candidate) -> Prediction:
        if candidate not in known:
            known[candidate] = predict(candidate)
        return known[candidate]

    good = [each for each in _frontier(look, objective, limits) if limits.allows(each)]
    if good:
        best = min(good, key=lambda each: (limits.cost(each), look(each).ttft_s / objective.ttft_s, str(each)))
        return Choice(best, look(best), met=True)
    return _best_attainable(look, objective, limits)


def _least(limits: Limits) -> Candidate:
    return Candidate(limits.prefill.least if limits.prefill else 0, limits.decode.least)


def _frontier(look: Predict, objective: Objective, limits: Limits) -> list[Candidate]:
    """Return for each number of decode workers the fewest prefill workers with which the objective is met."""
    found: list[Candidate] = []
    for decode in range(max(1, limits.decode.least), limits.decode.most + 1):
        prefill = _fewest_prefill(look, objective, limits, decode)
        if prefill is None:
            continue
        found.append(Candidate(prefill, decode))
        if not limits.prefill or prefill == limits.prefill.least:
            break  # more decode workers only cost more
    return found


def _fewest_prefill(look: Predict, objective: Objective, limits: Limits, decode: int) -> int | None:
    if limits.prefill is None:
        return 0 if objective.met(look(Candidate(0, decode))) else None
    low, high = max(1, limits.prefill.least), limits.prefill.most
    if high < low or not objective.met(look(Candidate(high, decode))):
        return None
    while low < high:
        middle = (low + high) // 2
        if objective.met(look(Candidate(middle, decode))):
            high = middle
        else:
            low = middle + 1
    return low


def _best_attainable(look: Predict, objective: Objective, limits: Limits) -> Choice:
    prefills = range(limits.prefill.least, limits.prefill.most + 1) if limits.prefill else range(1)
    every = [
        Candidate(prefill, decode)
        for decode in range(limits.decode.least, limits.decode.most + 1)
        for prefill in prefills
        if limits.allows(Candidate(prefill, decode))
    ]
    best = min(every, key=lambda each: (objective.overrun(look(each)), limits.cost(each), str(each)))
    return Choice(best, look(best), met=False, would_take=_without_limits(look, objective, limits))


def _without_limits(look: Predict, objective: Objective, limits: Limits, *, factor: int = 8) -> Candidate | None:
    """Return the cheapest candidate beyond the limits that would do; None if even many more workers would not."""

    def wider(bounds: Bounds) -> Bounds:
        return Bounds(bounds.least, max(1, bounds.most) * factor, bounds.devices, bounds.cost)

    free = Limits(wider(limits.decode), wider(limits.prefill) if limits.prefill else None)
    found = _frontier(look, objective, free)
    return min(found, key=free.cost) if found else None
