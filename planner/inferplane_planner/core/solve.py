"""The cheapest candidate that keeps the objective, and what is best where none can.

Both percentiles get no worse with more workers of a kind, so for each number of decode workers the least number of
prefill workers is searched by halving; what is left is a walk along one axis.  The joint choice is by cost: a prefill
device may be another one than a decode device.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from inferplane_planner.core.errors import PlanningError
from inferplane_planner.core.predict import Candidate, Prediction


@dataclass(frozen=True, slots=True)
class Objective:
    """Limits in seconds at the percentile, a share below 1.

    Limits of single priorities and of prompt lengths are not here, and routers alone go by them: which request waits
    for which other is theirs to choose, and one queue for all, which is what candidates are judged by, has no order.
    """

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

    def tight(self) -> "Limits":
        """Return the same with maxima that some allowed candidate has."""
        if self.prefill is None:
            most = _last(self.decode, lambda decode: self.allows(Candidate(0, decode)))
            return replace(self, decode=replace(self.decode, most=most))
        p_least, d_least = self.prefill.least, self.decode.least
        prefill = _last(self.prefill, lambda prefill: self.allows(Candidate(prefill, d_least)))
        decode = _last(self.decode, lambda decode: self.allows(Candidate(p_least, decode)))
        return replace(self, prefill=replace(self.prefill, most=prefill), decode=replace(self.decode, most=decode))

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
    _require_possible(limits)
    look = _remembering(predict)
    best = _cheapest(look, objective, limits)
    if best is not None:
        return Choice(best, look(best), met=True)
    return _best_attainable(look, objective, limits)


def cheapest(predict: Predict, objective: Objective, limits: Limits) -> Candidate | None:
    """Return the cheapest candidate within the limits that keeps the objective; None: there is none."""
    _require_possible(limits)
    return _cheapest(_remembering(predict), objective, limits)


def largest(limits: Limits) -> list[Candidate]:
    """Return the allowed candidates beside which no more workers of a kind are allowed, most decode workers first."""
    found: list[Candidate] = []
    for each in reversed(_largest(limits)):
        if not found or each.prefill > found[-1].prefill:
            found.append(each)
    return found


def _require_possible(limits: Limits) -> None:
    least = _least(limits)
    if not limits.allows(least):
        raise PlanningError(
            "budget",
            f"{least} takes {limits.devices(least)} devices and {limits.cost(least):g} an hour, more than is allowed",
            "raise the budget or lower minReplicas",
        )


def _least(limits: Limits) -> Candidate:
    return Candidate(limits.prefill.least if limits.prefill else 0, limits.decode.least)


def _remembering(predict: Predict) -> Predict:
    known: dict[Candidate, Prediction] = {}

    def look(candidate: Candidate) -> Prediction:
        if candidate not in known:
            known[candidate] = predict(candidate)
        return known[candidate]

    return look


def _cheapest(look: Predict, objective: Objective, limits: Limits) -> Candidate | None:
    good = [each for each in _frontier(look, objective, limits) if limits.allows(each)]
    return min(
        good, key=lambda each: (limits.cost(each), look(each).ttft_s / objective.ttft_s, str(each)), default=None
    )


def _frontier(look: Predict, objective: Objective, limits: Limits) -> list[Candidate]:
    """Return for each number of decode workers that may be cheapest the fewest prefill workers that do."""
    found: list[Candidate] = []
    cost, limits, prefill = math.inf, limits.tight(), None
    for decode in range(_fewest_decode(look, objective, limits), limits.decode.most + 1):
        if limits.cost(Candidate(limits.prefill.least if limits.prefill else 0, decode)) > cost:
            break  # more decode workers only cost more
        prefill = _fewest_prefill(look, objective, limits, decode, most=prefill)
        if prefill is None:
            continue
        found.append(Candidate(prefill, decode))
        if limits.allows(found[-1]):
            cost = min(cost, limits.cost(found[-1]))
        if not limits.prefill or prefill == limits.prefill.least:
            break
    return found


def _fewest_decode(look: Predict, objective: Objective, limits: Limits) -> int:
    """Return the fewest decode workers that do beside the most prefill workers; one too many: none do."""
    prefill = limits.prefill.most if limits.prefill else 0
    return _first(
        max(1, limits.decode.least), limits.decode.most, lambda decode: objective.met(look(Candidate(prefill, decode)))
    )


def _fewest_prefill(
    look: Predict, objective: Objective, limits: Limits, decode: int, *, most: int | None
) -> int | None:
    """Return the fewest that do beside so many decode workers; `most` did beside fewer of those."""
    if limits.prefill is None:
        return 0 if objective.met(look(Candidate(0, decode))) else None
    least, most = max(1, limits.prefill.least), limits.prefill.most if most is None else most
    found = _first(least, most, lambda prefill: objective.met(look(Candidate(prefill, decode))))
    return found if found <= most else None


def _last(bounds: Bounds, does: Callable[[int], bool]) -> int:
    """Return the last number of a range up to which `does` holds; its least where it does not even there."""
    return max(bounds.least, _first(bounds.least, bounds.most, lambda number: not does(number)) - 1)


def _first(low: int, high: int, does: Callable[[int], bool]) -> int:
    """Return the first number of a range from which on `does` holds; one beyond it where it never does."""
    beyond = high + 1
    low = min(low, beyond)
    while low < beyond:
        middle = (low + beyond) // 2
        if does(middle):
            beyond = middle
        else:
            low = middle + 1
    return low


def _best_attainable(look: Predict, objective: Objective, limits: Limits) -> Choice:
    """Take of the largest that are allowed the one that comes closest, and what of it matters."""
    best = min(_largest(limits), key=lambda each: (objective.overrun(look(each)), limits.cost(each), str(each)))
    overrun = objective.overrun(look(best))
    if limits.prefill is not None and not math.isinf(overrun):
        least = max(1, limits.prefill.least)
        enough = _first(
            least,
            best.prefill,
            lambda prefill: objective.overrun(look(Candidate(prefill, best.decode))) <= overrun * _AS_GOOD,
        )
        best = Candidate(enough, best.decode)
    return Choice(best, look(best), met=False, would_take=_without_limits(look, objective, limits))


_AS_GOOD = 1.0 + 1e-6


def _largest(limits: Limits) -> list[Candidate]:
    """Return for each number of decode workers the most prefill workers that are allowed beside them."""
    found: list[Candidate] = []
    limits = limits.tight()
    for decode in range(limits.decode.least, limits.decode.most + 1):
        prefill = _most_prefill(limits, decode)
        if prefill is not None:
            found.append(Candidate(prefill, decode))
    return found


def _most_prefill(limits: Limits, decode: int) -> int | None:
    least, most = (limits.prefill.least, limits.prefill.most) if limits.prefill else (0, 0)
    forbidden = _first(least, most, lambda prefill: not limits.allows(Candidate(prefill, decode)))
    return forbidden - 1 if forbidden > least else None


def _without_limits(look: Predict, objective: Objective, limits: Limits, *, factor: int = 8) -> Candidate | None:
    """Return the cheapest candidate beyond the limits that would do; None if even many more workers would not."""

    def wider(bounds: Bounds) -> Bounds:
        return Bounds(bounds.least, max(1, bounds.most) * factor, bounds.devices, bounds.cost)

    free = Limits(wider(limits.decode), wider(limits.prefill) if limits.prefill else None)
    return _cheapest(look, objective, free)
