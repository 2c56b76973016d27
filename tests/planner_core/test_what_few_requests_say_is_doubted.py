"""The factor on a load that is known by few requests."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_engine.profiles import profile_named
from inferplane_planner.core.demand import Demand
from inferplane_planner.core.predict import Pair
from inferplane_planner.core.scarcity import scarcity
from inferplane_planner.core.times import EngineTimes

ENGINE = EngineTimes(profile_named("h100-8b"))
BOTH = Pair(ENGINE, ENGINE)


def sample(prompts: list[float]) -> Demand:
    tokens = np.array(prompts, np.float64)
    return Demand(1.0, uncached=tokens, cached=np.zeros(tokens.size), output=np.full(tokens.size, 50.0))


@given(st.lists(st.integers(1, 100_000).map(float), min_size=1, max_size=400))
def test_a_load_is_never_taken_for_less_than_it_was(prompts: list[float]) -> None:
    assert scarcity(sample(prompts), BOTH) >= 1.0


@given(st.lists(st.integers(1, 100_000).map(float), min_size=2, max_size=20))
def test_more_of_the_same_requests_are_doubted_less(prompts: list[float]) -> None:
    assert scarcity(sample(prompts * 2), BOTH) <= scarcity(sample(prompts), BOTH)


def test_requests_that_are_all_alike_are_not_doubted() -> None:
    assert scarcity(sample([4000] * 5), BOTH) == pytest.approx(1.0)


def test_most_small_samples_no_longer_understate_the_work_and_a_full_one_counts_as_it_is() -> None:
    rng = np.random.default_rng(3)
    everything = np.ceil(rng.lognormal(8.0, 0.8, 20_000))

    def work(prompts: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> float:
        return float(ENGINE.prefill_s(prompts, np.zeros(prompts.size)).mean())

    draws = [rng.choice(everything, 32) for _ in range(200)]
    plain = sum(work(drawn) >= work(everything) for drawn in draws)
    doubted = sum(work(drawn) * scarcity(sample(drawn.tolist()), BOTH) >= work(everything) for drawn in draws)

    assert plain < 110
    assert doubted > 145
    assert scarcity(sample(everything[:256].tolist()), BOTH) == 1.0
