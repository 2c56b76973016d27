"""A plan for a load that is known beforehand: cheapest, within its limits, and explained."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_engine.profiles import profile_named
from inferplane_planner.core.contract import Spec, Verdict
from inferplane_planner.core.demand import Demand
from inferplane_planner.core.engine_model import CALIBRATED, EngineModel
from inferplane_planner.core.predict import Candidate
from inferplane_planner.core.sizing import Sizing, aggregated, size
from inferplane_planner.core.solve import Bounds, Objective
from inferplane_planner.core.times import EngineTimes

ENGINE = EngineTimes(profile_named("h100-8b"))
SPEC = Spec(
    objective=Objective(1.0, 0.03, 0.95),
    prior=EngineModel(ENGINE, ENGINE, deviation=CALIBRATED),
    decode=Bounds(1, 12),
    prefill=Bounds(1, 8),
)


def load(rate_per_s: float) -> Demand:
    rng = np.random.default_rng(4)
    return Demand(
        rate_per_s,
        uncached=np.ceil(rng.lognormal(7.5, 0.6, 80)),
        cached=np.zeros(80),
        output=np.ceil(rng.lognormal(5.3, 0.5, 80)),
    )


def at_percentile(sizing: Sizing, percentile: float) -> tuple[float, float]:
    found = next(each for each in sizing.expected if each.percentile == percentile)
    return found.ttft.expected_s, found.tpot.expected_s


@pytest.mark.slow
@settings(max_examples=15)
@given(st.floats(0.1, 30.0), st.floats(1.0, 2.0))
def test_more_load_never_costs_less_and_a_plan_that_says_met_is_within_both_limits(rate: float, more: float) -> None:
    less, larger = size(SPEC, load(rate)), size(SPEC, load(rate * more))

    if larger.met:
        assert less.met
        assert less.cost_per_hour <= larger.cost_per_hour
        ttft_s, tpot_s = at_percentile(larger, 0.95)
        assert ttft_s <= SPEC.objective.ttft_s
        assert tpot_s <= SPEC.objective.tpot_s


def test_an_expected_time_lies_within_its_error() -> None:
    for each in size(SPEC, load(5.0)).expected:
        for found in (each.ttft, each.tpot):
            assert 0 < found.low_s < found.expected_s < found.high_s


def test_the_reason_says_what_one_worker_fewer_would_miss() -> None:
    found = size(SPEC, load(25.0))

    assert found.verdict is Verdict.MET
    assert f"{found.candidate} is the cheapest that keeps the objective" in found.reason
    assert f"{Candidate(found.candidate.prefill - 1, found.candidate.decode)} has" in found.reason


def test_room_to_spare_is_never_less_than_the_plan() -> None:
    found = size(SPEC, load(8.0))

    assert found.spare is not None
    assert SPEC.limits.cost(found.spare) >= found.cost_per_hour


def test_what_limits_forbid_is_named_with_what_it_would_take() -> None:
    found = size(replace(SPEC, max_devices=3), load(60.0))

    assert found.verdict is Verdict.LIMITED
    assert found.would_take is not None
    assert str(found.would_take) in found.reason
    assert found.devices <= 3


def test_an_objective_out_of_reach_names_the_best_that_an_idle_engine_gives() -> None:
    found = size(replace(SPEC, objective=Objective(0.01, 0.03, 0.95)), load(1.0))

    assert found.verdict is Verdict.UNATTAINABLE
    assert "an idle engine has a TTFT of" in found.reason
    assert "it takes a TTFT limit of" in found.reason
    assert "TPOT limit" not in found.reason
    assert math.isfinite(found.idle.ttft_s)


@pytest.mark.parametrize("rate", [1.0, 10.0])
def test_the_other_shape_has_no_prefill_workers(rate: float) -> None:
    found = size(aggregated(SPEC), load(rate))

    assert found.candidate.prefill == 0
    assert found.met
