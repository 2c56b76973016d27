"""What is done where the limits do not allow enough, against looking for the cheapest at every share."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_engine.profiles import PROFILES
from inferplane_planner.core.attaining import attain
from inferplane_planner.core.demand import Demand
from inferplane_planner.core.engine_model import EngineModel
from inferplane_planner.core.predict import Candidate, Question, predict
from inferplane_planner.core.solve import Bounds, Limits, Objective, cheapest
from inferplane_planner.core.times import EngineTimes

OBJECTIVE = Objective(ttft_s=2.0, tpot_s=0.06)
TIMES = EngineTimes(PROFILES["l40s-8b"])
PAIR = EngineModel(TIMES, TIMES).pair()


def asked(rate_per_s: float, seed: int) -> Question:
    rng = np.random.default_rng(seed)
    prompts, outputs = rng.lognormal(7.0, 0.6, 32), np.maximum(1.0, rng.lognormal(4.0, 0.6, 32))
    return Question(Demand(rate_per_s, prompts, np.zeros(32), outputs), 0.95, OBJECTIVE.ttft_s)


def by_trying_every_share(question: Question, limits: Limits) -> Candidate | None:
    low, high, best = 0.0, 1.0, None
    for _ in range(10):
        share = (low + high) / 2.0
        demand = question.demand.at(question.demand.rate_per_s * share)
        part = Question(demand, question.percentile, question.ttft_limit_s)
        found = cheapest(lambda each, part=part: predict(part, each, PAIR), OBJECTIVE, limits)  # type: ignore[misc]  # mypy does not infer a default's type
        low, high, best = (low, share, best) if found is None else (share, high, found)
    return best


@settings(max_examples=25)
@given(
    st.integers(0, 3),
    st.floats(40.0, 400.0),
    st.sampled_from(
        [
            Limits(Bounds(1, 4)),
            Limits(Bounds(1, 3), Bounds(1, 3)),
            Limits(Bounds(1, 4), Bounds(1, 4), max_devices=5),
            Limits(Bounds(1, 4), Bounds(1, 4, devices=2), max_devices=7),
        ]
    ),
)
def test_the_cheapest_that_carries_the_largest_share_is_taken(seed: int, rate_per_s: float, limits: Limits) -> None:
    question = asked(rate_per_s, seed)
    choice = attain(question, PAIR, OBJECTIVE, limits)
    expected = by_trying_every_share(question, limits)

    assert choice.met or choice.candidate == expected


@pytest.mark.parametrize("rate_per_s", [1e-3, 1.0])
def test_a_load_that_fits_is_carried_whole(rate_per_s: float) -> None:
    assert attain(asked(rate_per_s, 0), PAIR, OBJECTIVE, Limits(Bounds(1, 8))).met
