"""`throughput`: requests over what an engine is known to do, with a faster loop on load, after NVIDIA Dynamo's planner.

Source: Dynamo's description of its SLA planner.  Every 180 s: the requests of the last interval, with their mean
lengths and hit rate, over the rate that one engine carries within the SLA at those lengths.  Every 5 s in between: one
more when every engine is expected to miss the SLA, one fewer, but not below that number, when every one is below 80 %
of it and one fewer would still be; nothing while a worker starts.  An engine's rate is computed from its true
coefficients, as a profile without error.  Its expected times are those at the concurrency that it has.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from inferplane_api.catalogue import WorkerRole
from inferplane_planner.core.demand import Demand
from inferplane_planner.core.predict import Pair
from inferplane_planner.core.solve import Objective
from inferplane_simulator.scalers.by_role import Span
from inferplane_simulator.scalers.capacity import Capacity, capacity
from inferplane_simulator.scaling import Served, Staff

_ADJUST_S: Final = 180.0
_CONSOLIDATE: Final = 0.8


@dataclass(slots=True)
class Throughput:
    pair: Pair
    objective: Objective
    span: Span
    period_s: float = 5.0
    _arrivals: int = 0
    _answers: list[Served] = field(default_factory=list[Served])
    _adjusted_s: float = 0.0
    _least: dict[WorkerRole, int] = field(default_factory=dict[WorkerRole, int])
    _known: dict[WorkerRole, Capacity] = field(default_factory=dict[WorkerRole, Capacity])

    def arrived(self, at_s: float) -> None:
        del at_s
        self._arrivals += 1

    def served(self, answer: Served) -> None:
        self._answers.append(answer)

    def plan(self, staff: Mapping[WorkerRole, Staff], now: float) -> Mapping[WorkerRole, int]:
        if now - self._adjusted_s >= _ADJUST_S:
            self._adjust(staff, now)
            return {role: max(self._least.get(role, 0), self._by_load(role, seen)) for role, seen in staff.items()}
        return {role: self._by_load(role, seen) for role, seen in staff.items()}

    def _adjust(self, staff: Mapping[WorkerRole, Staff], now: float) -> None:
        """Take the interval as a forecast of the next one."""
        rate, self._arrivals = self._arrivals / (now - self._adjusted_s), 0
        answers, self._answers, self._adjusted_s = self._answers, [], now
        if not answers:
            return
        demand = _mean(answers)
        for role in staff:
            found = capacity(self.pair, demand, self.objective, role, apart=len(staff) > 1)
            self._known[role] = found
            self._least[role] = self.span.hold(math.ceil(rate / found.rate_per_s))

    def _by_load(self, role: WorkerRole, staff: Staff) -> int:
        known = self._known.get(role)
        if known is None or staff.starting or not staff.engines:
            return staff.wanted
        used = [(each.running + each.waiting) / known.concurrency for each in staff.engines]
        if min(used) > 1.0:
            return self.span.hold(staff.ready + 1)
        fewer = sum(used) / (staff.ready - 1) if staff.ready > 1 else math.inf
        if max(used) < _CONSOLIDATE and fewer < _CONSOLIDATE:
            return self.span.hold(max(self._least.get(role, 1), staff.ready - 1))
        return staff.wanted


def _mean(answers: list[Served]) -> Demand:
    """Return one request of the mean lengths, as a planner that goes by means sees them."""
    count = len(answers)
    prompt = sum(each.prompt_tokens for each in answers) / count
    cached = sum(each.cached_tokens for each in answers) / count
    output = max(1.0, sum(each.output_tokens for each in answers) / count)
    return Demand(0.0, uncached=np.array([prompt - cached]), cached=np.array([cached]), output=np.array([output]))
