"""Factors of an engine model, from times that a known engine makes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_engine.profiles import profile_named
from inferplane_planner.core.engine_model import CALIBRATED, GUESSED, SLOWEST, EngineModel, Factors, Learned, Part
from inferplane_planner.core.times import EngineTimes

PRIOR = EngineModel(EngineTimes(profile_named("h100-8b")), EngineTimes(profile_named("h100-8b")))


def observed(part: Part, factor: float, *, count: int = 40, seed: int = 1) -> tuple[Learned, ...]:
    """Return samples of an engine that takes `factor` times as long as the prior has it."""
    rng = np.random.default_rng(seed)
    samples: list[Learned] = []
    for _ in range(count):
        tokens, batch = float(rng.integers(100, 8000)), float(rng.integers(1, 64))
        sample = Learned(part, 1.0, tokens * (batch if part is Part.DECODE else 1.0), batch=batch)
        seconds = float(PRIOR.terms(sample).sum()) * factor
        samples.append(Learned(part, seconds, sample.tokens, batch=batch))
    return tuple(samples)


@pytest.mark.slow
@settings(max_examples=10)
@pytest.mark.parametrize("part", list(Part))
@given(factor=st.floats(0.25, 4.0))
def test_an_engine_that_is_slower_by_a_factor_is_found_out(part: Part, factor: float) -> None:
    model = PRIOR
    for seed in range(6):
        model = model.learn(observed(part, factor, seed=seed))
    asked = Learned(part, 1.0, 3000.0, batch=8.0)

    assert model.seconds(asked) == pytest.approx(PRIOR.seconds(asked) * factor, rel=0.1)
    assert model.uncertainty(asked) < PRIOR.uncertainty(asked)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=20))
def test_factors_stay_within_bounds_whatever_is_observed(times: list[float]) -> None:
    samples = tuple(Learned(part, seconds, 500.0, batch=2.0) for part in Part for seconds in times)
    model = PRIOR.learn(samples)

    for part in Part:
        mean = model.factors(part).mean
        assert bool(np.isfinite(mean).all())
        assert 1.0 / SLOWEST <= float(mean.min()) <= float(mean.max()) <= SLOWEST


@given(
    st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.001, 100.0)), min_size=1, max_size=30),
    st.sampled_from([CALIBRATED, GUESSED]),
)
def test_an_observation_never_takes_the_expected_time_further_from_itself(
    observations: list[tuple[float, float]], deviation: float
) -> None:
    factors = Factors.of_prior(2, deviation)
    for share, seconds in observations:
        shares = np.array([share, 1.0 - share])
        found = min(SLOWEST, max(1.0 / SLOWEST, seconds))
        before = abs(float(shares @ factors.mean) - found)
        factors = factors.faded().observe(shares, seconds)

        assert abs(float(shares @ factors.mean) - found) <= before * (1.0 + 1e-9) + 1e-12


def test_waiting_inside_an_engine_is_not_taken_for_a_slow_engine() -> None:
    alone = observed(Part.PREFILL, 1.0, count=10)
    waited = tuple(Learned(Part.PREFILL, it.seconds * 5.0, it.tokens) for it in observed(Part.PREFILL, 1.0, count=20))
    model = PRIOR.learn(alone + waited)
    asked = Learned(Part.PREFILL, 1.0, 2000.0)

    assert model.seconds(asked) == pytest.approx(PRIOR.seconds(asked), rel=0.05)


def test_a_calibrated_prior_is_held_more_dearly_than_a_guess() -> None:
    asked = Learned(Part.TRANSFER, 1.0, 2000.0)
    sample = (Learned(Part.TRANSFER, PRIOR.seconds(asked) * 3.0, 2000.0),)
    guess = EngineModel(PRIOR.prefill, PRIOR.decode, GUESSED).learn(sample).seconds(asked)
    calibrated = EngineModel(PRIOR.prefill, PRIOR.decode, CALIBRATED).learn(sample).seconds(asked)

    assert PRIOR.seconds(asked) < calibrated < guess


def test_silence_and_fading_never_leave_less_known_than_the_prior() -> None:
    factors = Factors.of_prior(2, GUESSED)
    for _ in range(500):
        factors = factors.observe(np.array([1.0, 0.0]), 1.0)

    assert math.sqrt(float(np.linalg.eigvalsh(factors.covariance)[-1])) <= GUESSED * 1.01


def test_the_times_of_a_pair_are_those_that_were_learned() -> None:
    model = PRIOR.learn(observed(Part.DECODE, 2.0, count=300)).learn(observed(Part.PREFILL, 3.0, count=600))
    pair = model.pair()

    assert pair.decode.decode_step_s(16, 32_000) == pytest.approx(PRIOR.decode.decode_step_s(16, 32_000) * 2.0, rel=0.1)
    alone = np.array([4000.0])
    zero = np.array([0.0])
    assert float(pair.prefill.prefill_s(alone, zero)[0]) == pytest.approx(
        float(PRIOR.prefill.prefill_s(alone, zero)[0]) * 3.0, rel=0.1
    )
