"""The production planner at the seam: its step, with its period, told what a planner's process would be told.

Differences to the process: nothing is missed or late, and a sample is the last answers, not a window of time.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from inferplane_api.catalogue import WorkerRole
from inferplane_planner.core.contract import NOBODY, Count, Observations, Plan, Spec, State, Workers
from inferplane_planner.core.decide import Patience
from inferplane_planner.core.demand import Demand
from inferplane_planner.core.engine_model import EngineModel
from inferplane_planner.core.solve import Bounds, Objective
from inferplane_planner.core.step import step
from inferplane_planner.core.times import EngineTimes
from inferplane_simulator.errors import ScenarioError
from inferplane_simulator.scaling import Served, Staff
from inferplane_simulator.scenario import PoolSpec, Scenario

_SAMPLE = 512


@dataclass(slots=True)
class Planner:
    """Plans for one scenario; keeps its plans."""

    spec: Spec
    plans: list[Plan] = field(default_factory=list[Plan])
    _state: State = field(default_factory=State)
    _arrivals: int = 0
    _counted_s: float = 0.0
    _served: deque[Served] = field(default_factory=lambda: deque[Served](maxlen=_SAMPLE))

    @property
    def period_s(self) -> float:
        return self.spec.period_s

    def arrived(self, at_s: float) -> None:
        del at_s
        self._arrivals += 1

    def served(self, answer: Served) -> None:
        self._served.append(answer)

    def plan(self, staff: Mapping[WorkerRole, Staff], now: float) -> Mapping[WorkerRole, int]:
        seen = Observations(
            decode=_workers(staff[WorkerRole.DECODE]),
            prefill=_workers(staff[WorkerRole.PREFILL]) if self.spec.prefill is not None else NOBODY,
            counts=(self._count(now),),
            sample=self._sample(),
        )
        self._state, plan = step(self._state, seen, self.spec, now)
        self.plans.append(plan)
        wanted = {WorkerRole.DECODE: plan.decode}
        return wanted if self.spec.prefill is None else {**wanted, WorkerRole.PREFILL: plan.prefill}

    def _count(self, now: float) -> Count:
        requests, self._arrivals = self._arrivals, 0
        return Count(now, requests)

    def _sample(self) -> Demand | None:
        if not self._served:
            return None
        prompts = np.array([each.prompt_tokens for each in self._served], np.float64)
        cached = np.array([each.cached_tokens for each in self._served], np.float64)
        outputs = np.array([each.output_tokens for each in self._served], np.float64)
        return Demand(0.0, uncached=prompts - cached, cached=cached, output=outputs)


def planner_for(scenario: Scenario, *, most: int, least: int = 1, percentile: float = 0.95) -> Planner:
    """Make a planner that may have between `least` and `most` workers of each pool."""
    decode, prefill = scenario.pool(WorkerRole.DECODE), scenario.pool(WorkerRole.PREFILL)
    if decode is None:
        raise ScenarioError("pools", "hold no decode pool", "add one")
    if not least <= most:
        raise ScenarioError("planner.most", f"{most} is less than {least}", "raise it")
    given = scenario.start_up_s
    spec = Spec(
        objective=Objective(scenario.slo.ttft_s, scenario.slo.tpot_s, percentile),
        prior=EngineModel(prefill=_times(prefill or decode), decode=_times(decode)),
        decode=Bounds(least, most, decode.devices),
        prefill=None if prefill is None else Bounds(least, most, prefill.devices),
        start_up_s=decode.profile.start_up.total_s if given is None else given,
        patience=Patience(),
    )
    if not math.isclose(spec.period_s, spec.forecast.interval_s):
        raise ScenarioError("planner.period", "is not the interval of its counts", "make both the same")
    return Planner(spec)


def _times(pool: PoolSpec) -> EngineTimes:
    return EngineTimes(pool.profile, chunk_tokens=pool.max_num_batched_tokens, max_sequences=pool.max_num_seqs)


def _workers(staff: Staff) -> Workers:
    return Workers(wanted=staff.wanted, ready=staff.ready)
