"""Load, queue, streams, step and scale in one loop, in virtual time: what the process does, without its clock."""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random

import pytest

from inferplane_engine.profiles import profile_named
from inferplane_planner.core.contract import Observations, Plan, Spec, State, Workers
from inferplane_planner.core.decide import Patience
from inferplane_planner.core.engine_model import GUESSED, EngineModel, Learned, Part
from inferplane_planner.core.forecast import Settings
from inferplane_planner.core.solve import Bounds, Objective
from inferplane_planner.core.step import step
from inferplane_planner.core.times import EngineTimes
from inferplane_planner.observe.arrivals import Arrivals
from inferplane_planner.observe.events import Finished
from inferplane_planner.observe.window import Window

PERIOD_S = 5.0
STEP_S = 0.025
ENGINE = EngineTimes(profile_named("l40s-8b"))
SPEC = Spec(
    objective=Objective(ttft_s=2.0, tpot_s=0.2, percentile=0.9),
    prior=EngineModel(ENGINE, ENGINE, GUESSED),
    decode=Bounds(1, 4),
    prefill=Bounds(1, 8),
    patience=Patience(down_delay_s=60.0, max_step=4),
    period_s=PERIOD_S,
    start_up_s=20.0,
    forecast=Settings(interval_s=PERIOD_S, season_s=None),
)


@dataclass
class Played:
    """Prompts are computed one after the other by whichever worker is free first, `prefill_s` each."""

    prefill_s: float
    start_up_s: float = 20.0
    spec: Spec = SPEC
    rng: Random = field(default_factory=lambda: Random(5))
    now: float = 0.0
    free_at: list[float] = field(default_factory=lambda: [0.0])
    born: list[float] = field(default_factory=lambda: [0.0])
    """When each worker was or will be ready."""
    decode: int = 1
    running: list[tuple[float, Finished]] = field(default_factory=list[tuple[float, Finished]])
    arrivals: Arrivals = field(default_factory=lambda: Arrivals(PERIOD_S, 0.0))
    window: Window = field(default_factory=lambda: Window(60.0, 0.0, decode_length_s=30.0))
    state: State = field(default_factory=State)
    plans: list[Plan] = field(default_factory=list[Plan])
    ttfts: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    asked: int = 0

    def play(self, rate_per_s: float, seconds: float) -> None:
        self.arrivals.hear("r0", self.now)
        until = self.now + seconds
        next_at = self.now + self.rng.expovariate(rate_per_s)
        while self.now < until:
            while next_at < self.now + PERIOD_S:
                self._arrive(next_at)
                next_at += self.rng.expovariate(rate_per_s)
            self.now += PERIOD_S
            self._plan()

    def _arrive(self, at: float) -> None:
        self.asked += 1
        name = f"r{self.asked}"
        self.arrivals.arrive(name, at)
        tokens = self.rng.randint(1000, 3000)
        took = self.prefill_s * tokens / 2000
        place = min(range(len(self.free_at)), key=self.free_at.__getitem__)
        done = max(at, self.free_at[place]) + took
        self.free_at[place] = done
        end = done + 20 * STEP_S
        told = Finished(
            name,
            prompt=tokens,
            cached=0,
            output=21,
            ttft_s=done - at,
            tpot_s=STEP_S,
            decode_s=20 * STEP_S,
            prefill_s=done - at,
            apart=True,
        )
        self.running.append((end, told))
        self.ttfts.append((at, done - at))

    def _plan(self) -> None:
        for end, told in [each for each in self.running if each[0] <= self.now]:
            self.window.finish(told, end)
        self.running = [each for each in self.running if each[0] > self.now]
        ready = sum(born <= self.now for born in self.born)
        seen = Observations(
            decode=Workers(self.decode, self.decode),
            prefill=Workers(len(self.free_at), ready),
            counts=self.arrivals.take(self.now),
            sample=self.window.sample(self.now),
            measured=self.window.measured(self.now, self.spec.objective),
            learned=self.window.learned(self.now, decode_workers=self.decode),
        )
        self.state, plan = step(self.state, seen, self.spec, self.now)
        self.plans.append(plan)
        self.decode = plan.decode
        while len(self.free_at) < plan.prefill:
            self.born.append(self.now + self.start_up_s)
            self.free_at.append(self.born[-1])
        del self.born[plan.prefill :], self.free_at[plan.prefill :]

    def met(self, begin: float, end: float) -> float:
        """Return the share of requests of a span that kept the limit."""
        times = [ttft for at, ttft in self.ttfts if begin <= at < end]
        return sum(ttft <= self.spec.objective.ttft_s for ttft in times) / len(times)

    def moves(self, begin: float) -> list[int]:
        """Return the changes of prefill workers from a moment on."""
        counts = [plan.prefill for plan in self.plans if plan.decided_at_s >= begin]
        return [after - before for before, after in pairwise(counts) if after != before]


@pytest.mark.slow
@pytest.mark.timeout(600)  # hundreds of plans on a machine that may be busy
@pytest.mark.parametrize("slower", [1.0, 3.0], ids=["as the prior has it", "three times as slow"])
def test_workers_follow_a_step_of_load_up_and_down_and_the_objective_recovers(slower: float) -> None:
    alone_s = 0.17 * slower
    played = Played(prefill_s=alone_s)
    played.play(0.3 / alone_s, 300.0)
    low = played.plans[-1].prefill
    played.play(2.2 / alone_s, 500.0)
    high = played.plans[-1].prefill
    played.play(0.3 / alone_s, 600.0)

    assert 3 <= high <= 6
    assert low <= played.plans[-1].prefill <= 2
    assert played.met(420.0, 800.0) > 0.9
    assert played.met(1000.0, 1400.0) > 0.9
    turns = [1 if move > 0 else -1 for move in played.moves(300.0)]
    assert sum(before != after for before, after in pairwise(turns)) <= 1


@pytest.mark.slow
def test_an_overload_does_not_make_engines_look_slow_for_good() -> None:
    played = Played(prefill_s=0.17, spec=replace(SPEC, prefill=Bounds(1, 2)))
    played.play(1.5, 200.0)
    played.play(25.0, 100.0)
    assert played.state.model is not None
    asked = Learned(Part.PREFILL, 1.0, 2000.0)

    assert played.state.model.seconds(asked) < 2.0 * 0.17
    assert played.plans[-1].prefill == 2
