"""The production planner at the seam: its step, with its period, told what a planner's process would be told.

Arrivals and answers are counted by the process's own code.  Differences to it: nothing is missed or late, and engines
are as their prior says, so nothing is learned of them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from inferplane_api.catalogue import WorkerRole
from inferplane_planner.core.contract import NOBODY, WINDOW_S, Observations, Plan, Spec, State, Workers
from inferplane_planner.core.decide import Patience
from inferplane_planner.core.engine_model import CALIBRATED, EngineModel
from inferplane_planner.core.solve import Bounds, Objective
from inferplane_planner.core.step import step
from inferplane_planner.core.times import EngineTimes
from inferplane_planner.observe.arrivals import Arrivals
from inferplane_planner.observe.events import Finished
from inferplane_planner.observe.window import Window
from inferplane_simulator.errors import ScenarioError
from inferplane_simulator.scaling import Served, Staff
from inferplane_simulator.scenario import PoolSpec, Scenario

_ROUTER: Final = "router"


@dataclass(slots=True)
class Planner:
    """Plans for one scenario; keeps its plans."""

    spec: Spec
    plans: list[Plan] = field(default_factory=list[Plan])
    _state: State = field(default_factory=State)
    _arrivals: Arrivals = field(init=False)
    _window: Window = field(default_factory=lambda: Window(WINDOW_S, 0.0))
    _arrived: int = 0
    _answered: int = 0

    def __post_init__(self) -> None:
        self._arrivals = Arrivals(self.spec.forecast.interval_s, 0.0)
        self._arrivals.hear(_ROUTER, 0.0)

    @property
    def period_s(self) -> float:
        return self.spec.period_s

    def arrived(self, at_s: float) -> None:
        self._arrived += 1
        self._arrivals.arrive(str(self._arrived), at_s)

    def served(self, answer: Served) -> None:
        self._answered += 1
        self._window.finish(_finished(str(self._answered), answer), answer.at_s)

    def plan(self, staff: Mapping[WorkerRole, Staff], now: float) -> Mapping[WorkerRole, int]:
        decode = staff[WorkerRole.DECODE]
        seen = Observations(
            decode=_workers(decode),
            prefill=_workers(staff[WorkerRole.PREFILL]) if self.spec.prefill is not None else NOBODY,
            counts=self._arrivals.take(now),
            sample=self._window.sample(now),
            burst=self._arrivals.burst,
            queued=self._arrivals.open_requests if decode.ready == 0 else 0,
            blind=self._arrivals.blind,
            measured=self._window.measured(now, self.spec.objective),
        )
        self._state, plan = step(self._state, seen, self.spec, now)
        self.plans.append(plan)
        wanted = {WorkerRole.DECODE: plan.decode}
        return wanted if self.spec.prefill is None else {**wanted, WorkerRole.PREFILL: plan.prefill}


def _finished(name: str, answer: Served) -> Finished:
    return Finished(
        request_id=name,
        prompt=answer.prompt_tokens,
        cached=answer.cached_tokens,
        output=answer.output_tokens,
        ttft_s=answer.ttft_s,
        tpot_s=answer.tpot_s,
    )


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
        prior=EngineModel(_times(prefill or decode), _times(decode), CALIBRATED),
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
