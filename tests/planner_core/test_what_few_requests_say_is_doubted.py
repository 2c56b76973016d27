"""The factors on a load that is known by few requests."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_engine.profiles import profile_named
from inferplane_planner.core.decide import Patience
from inferplane_planner.core.demand import Demand, Floats
from inferplane_planner.core.predict import Pair
from inferplane_planner.core.scarcity import Scarcity, scarcity
from inferplane_planner.core.times import EngineTimes

ENGINE = EngineTimes(profile_named("h100-8b"))
BOTH = Pair(ENGINE, ENGINE)
SPARE = 1.0 / Patience().room
"""What is asked for beyond the truth and less than this is not given back, since who stays has to have that room."""


def sample(prompts: list[float]) -> Demand:
    tokens = np.array(prompts, np.float64)
    return Demand(1.0, uncached=tokens, cached=np.zeros(tokens.size), output=np.full(tokens.size, 50.0))


def work(prompts: Floats) -> float:
    return float(ENGINE.prefill_s(prompts, np.zeros(prompts.size)).mean())


@given(st.lists(st.integers(1, 100_000).map(float), min_size=1, max_size=400))
def test_a_load_is_never_taken_for_less_than_it_was(prompts: list[float]) -> None:
    found = scarcity(sample(prompts), BOTH)

    assert found.prompts >= 1.0
    assert found.answers == 1.0  # they are all alike


@given(st.lists(st.integers(1, 100_000).map(float), min_size=2, max_size=20))
def test_more_of_the_same_requests_are_doubted_less(prompts: list[float]) -> None:
    assert scarcity(sample(prompts * 2), BOTH).prompts <= scarcity(sample(prompts), BOTH).prompts


def test_requests_that_are_all_alike_are_not_doubted() -> None:
    assert scarcity(sample([4000] * 5), BOTH).prompts == pytest.approx(1.0)


def test_doubt_of_prompts_is_no_doubt_of_answers() -> None:
    demand = Scarcity(prompts=1.5, answers=1.2).at(sample([4000] * 5), 2.0)

    assert demand.rate_per_s == pytest.approx(3.0)
    assert demand.answers_per_s == pytest.approx(2.4)
    assert demand.at(6.0).answers_per_s == pytest.approx(4.8)


@given(st.integers(1, 20_000), st.integers(1, 20_000), st.integers(8, 250), st.floats(0.0, 1.0))
def test_while_lengths_shift_no_more_work_is_expected_than_the_longer_of_them_makes(
    before: int, after: int, size: int, gone: float
) -> None:
    new = round(size * gone)
    mixed = sample([float(after)] * new + [float(before)] * (size - new))
    expected = work(mixed.uncached) * scarcity(mixed, BOTH).prompts

    assert expected <= SPARE * work(np.full(1, max(before, after), np.float64))


def test_most_small_samples_no_longer_understate_the_work_and_a_full_one_counts_as_it_is() -> None:
    rng = np.random.default_rng(3)
    everything = np.ceil(rng.lognormal(8.0, 0.8, 20_000))

    draws = [rng.choice(everything, 32) for _ in range(200)]
    plain = sum(work(drawn) >= work(everything) for drawn in draws)
    doubted = sum(work(drawn) * scarcity(sample(drawn.tolist()), BOTH).prompts >= work(everything) for drawn in draws)

    assert plain < 110
    assert doubted > 145
    assert scarcity(sample(everything[:256].tolist()), BOTH) == Scarcity()
