"""The whole step, with a world that carries plans out at once or slowly."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_engine.timing import Link, TimingProfile
from inferplane_planner.core.contract import (
    WINDOW_S,
    Count,
    Measured,
    Observations,
    Plan,
    Spec,
    State,
    Verdict,
    Workers,
)
from inferplane_planner.core.decide import Move, Patience
from inferplane_planner.core.demand import Demand
from inferplane_planner.core.engine_model import CALIBRATED, EngineModel
from inferplane_planner.core.forecast import Settings
from inferplane_planner.core.solve import Bounds, Objective
from inferplane_planner.core.step import step
from inferplane_planner.core.times import EngineTimes

PROFILE = TimingProfile(
    name="test",
    step_overhead_s=0.002,
    weights_s=0.008,
    token_compute_s=0.00005,
    attention_pair_s=1e-9,
    kv_token_s=2e-8,
    sequence_s=0.00005,
    kv_bytes_per_token=131072,
    kv_capacity_tokens=400_000,
    link=Link(0.001, 2e10),
)
ENGINE = EngineTimes(PROFILE)
PERIOD_S = 15.0


def spec(**changes: object) -> Spec:
    plain = Spec(
        objective=Objective(ttft_s=0.8, tpot_s=0.03, percentile=0.95),
        prior=EngineModel(ENGINE, ENGINE, CALIBRATED),
        decode=Bounds(1, 16),
        prefill=Bounds(1, 16),
        patience=Patience(down_delay_s=120.0, max_step=4),
        period_s=PERIOD_S,
        start_up_s=60.0,
        forecast=Settings(interval_s=PERIOD_S, season_s=None),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]  # named fields of the same class


def sample(prompt: float = 2000.0, output: float = 200.0) -> Demand:
    spread = np.linspace(0.5, 1.5, 32)
    return Demand(1.0, spread * prompt, np.zeros(32), np.maximum(1.0, spread * output))


@dataclass
class World:
    """Carries plans out; `start_up_s` later at most."""

    spec: Spec
    start_up_s: float = 0.0
    prefill: int = 1
    decode: int = 1
    now: float = 0.0
    state: State = field(default_factory=State)
    plans: list[Plan] = field(default_factory=list[Plan])
    changes: list[tuple[float, int, int]] = field(default_factory=list[tuple[float, int, int]])

    def ready(self) -> tuple[int, int]:
        """Return the prefill and decode workers that were there long enough."""
        before = [counts for at, *counts in self.changes if at <= self.now - self.start_up_s]
        since = [counts for at, *counts in self.changes if at > self.now - self.start_up_s]
        there = [before[-1] if before else [1, 1], *since]
        return int(min(counts[0] for counts in there)), int(min(counts[1] for counts in there))

    def see(self, rate: float, **more: object) -> Observations:
        prefill, decode = self.ready()
        seen = Observations(
            decode=Workers(self.decode, decode),
            prefill=Workers(self.prefill, prefill) if self.spec.prefill else Workers(0, 0),
            counts=(Count(self.now, round(rate * PERIOD_S)),),
            sample=sample(),
        )
        return replace(seen, **more)  # type: ignore[arg-type]  # named fields of the same class

    def go(self, rate: float, **more: object) -> Plan:
        self.now += PERIOD_S
        self.state, plan = step(self.state, self.see(rate, **more), self.spec, self.now)
        self.prefill, self.decode = plan.prefill, plan.decode
        self.changes.append((self.now, self.prefill, self.decode))
        self.plans.append(plan)
        return plan

    def go_on(self, rate: float, steps: int, **more: object) -> Plan:
        return [self.go(rate, **more) for _ in range(steps)][-1]


@pytest.mark.slow
@settings(max_examples=4)
@given(st.integers(1, 40), st.integers(0, 8), st.integers(1, 8))
def test_a_constant_load_gives_a_constant_plan(rate: int, prefill: int, decode: int) -> None:
    world = World(spec() if prefill else spec(prefill=None), prefill=prefill, decode=decode)
    world.go_on(rate, 16)
    settled = world.go_on(rate, 1).candidate
    world.go_on(rate, 8)

    assert all(plan.move is Move.HOLD and plan.candidate == settled for plan in world.plans[-8:])
    assert world.plans[-1].verdict is Verdict.MET


@pytest.mark.slow
def test_a_step_of_load_is_followed_up_at_once_and_down_after_the_delay() -> None:
    world = World(spec())
    low = world.go_on(4, 20).candidate
    high = world.go_on(24, 8).candidate
    world.go_on(4, 40)

    assert high.prefill > low.prefill
    assert world.plans[-1].candidate == low
    after = [plan.move for plan in world.plans[20:] if plan.move is not Move.HOLD]
    assert after == sorted(after, key=[Move.UP, Move.DOWN].index)


def test_a_load_beyond_the_limits_takes_all_that_is_allowed_and_says_what_it_would_take() -> None:
    world = World(spec(decode=Bounds(1, 2), prefill=Bounds(1, 3)))
    plan = world.go_on(60, 6)

    assert plan.prefill == 3
    assert plan.verdict is Verdict.LIMITED
    assert plan.would_take is not None
    assert plan.would_take.prefill > 3


def test_an_objective_out_of_reach_is_said_to_be() -> None:
    plan = World(spec(objective=Objective(ttft_s=0.8, tpot_s=0.001))).go_on(2, 4)

    assert plan.verdict is Verdict.UNATTAINABLE
    assert "no number of workers" in plan.reason


def test_a_cap_on_cost_is_kept() -> None:
    priced = spec(decode=Bounds(1, 16, cost=2.0), prefill=Bounds(1, 16, cost=2.0), max_cost_per_hour=8.0)
    world = World(priced)
    world.go_on(60, 3)

    assert max(plan.cost_per_hour for plan in world.plans) <= 8.0
    assert world.plans[-1].verdict is Verdict.LIMITED


def test_a_budget_below_the_minimum_moves_nothing_and_is_named() -> None:
    plan = World(spec(max_devices=1)).go(5)

    assert plan.verdict is Verdict.BUDGET
    assert plan.move is Move.HOLD
    assert "minReplicas" in plan.reason


def test_silence_scales_to_zero_and_a_request_wakes() -> None:
    idle = spec(decode=Bounds(0, 8), prefill=Bounds(0, 8))
    world = World(idle)
    world.go_on(4, 10)
    asleep = world.go_on(0, 20)
    awake = world.go(0, queued=1)

    assert asleep.candidate.decode == 0
    assert asleep.candidate.prefill == 0
    assert awake.decode >= 1
    assert awake.prefill >= 1


def test_words_change_only_with_what_they_say() -> None:
    """Whoever shows a plan writes it anew when it says something else."""
    world = World(spec())
    world.go_on(4, 10)
    world.go_on(0, 30)

    assert len({plan.reason for plan in world.plans[-8:]}) == 1


def test_silence_of_the_sources_is_not_silence_of_the_users() -> None:
    world = World(spec(decode=Bounds(0, 8), prefill=Bounds(0, 8)))
    here = world.go_on(12, 20).candidate
    for _ in range(40):
        world.go(0, counts=(), blind=True, sample=None)

    assert world.plans[-1].candidate == here
    assert world.plans[-1].verdict is Verdict.UNKNOWN


def test_an_interval_heard_in_part_is_a_lower_bound() -> None:
    world = World(spec())
    here = world.go_on(12, 20).candidate
    for _ in range(20):
        world.go(0, counts=(Count(world.now + PERIOD_S, 3, whole=False),))

    assert world.plans[-1].candidate == here


def test_a_worker_that_waits_for_a_device_keeps_more_from_being_asked_for() -> None:
    world = World(spec())
    here = world.go_on(4, 10).candidate
    world.now += 15.0
    waiting = Workers(here.decode, here.decode - 1, pending_since_s=world.now - 300.0)
    plan = world.go(40, decode=waiting)

    assert plan.candidate == here
    assert plan.verdict is Verdict.PENDING


def test_replicas_that_somebody_else_sets_are_left_alone() -> None:
    plan = World(spec()).go(40, decode=Workers(1, 1, owned_by="kubectl"))

    assert plan.move is Move.HOLD
    assert plan.verdict is Verdict.EXTERNAL
    assert "kubectl" in plan.reason


@pytest.mark.slow
def test_decode_workers_are_lent_while_prefill_is_short() -> None:
    world = World(spec(), start_up_s=300.0)
    world.go_on(6, 30)
    world.changes.append((world.now - 600.0, 1, 6))
    plan = world.go(30, prefill=Workers(1, 1), decode=Workers(6, 6))

    assert plan.lent > 0
    assert world.go_on(30, 30).lent == 0


def test_the_same_arguments_give_the_same_plan() -> None:
    world = World(spec())
    world.go_on(7, 9)
    seen, now = world.see(21), world.now + PERIOD_S

    assert step(world.state, seen, world.spec, now)[1] == step(world.state, seen, world.spec, now)[1]


@pytest.mark.parametrize("delay_s", [PERIOD_S, 60.0, 120.0])
def test_a_miss_is_counted_once_however_short_the_delay(delay_s: float) -> None:
    world = World(spec(patience=Patience(down_delay_s=delay_s, max_step=4)), prefill=4, decode=4)
    world.go_on(4, 8)
    missed = Measured(100, ttft_s=5.0, tpot_s=0.01, attainment=0.5)
    world.go_on(4, round(WINDOW_S / PERIOD_S), measured=missed)

    assert world.state.doubt == pytest.approx(1.1)
