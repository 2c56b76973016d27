"""Coefficients out of measured times: those of the engine that gave them, with noise and without."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_engine.profiles import CPU_TEST, profile_named
from inferplane_engine.timing import TimingProfile
from inferplane_planner.calibration.fitting import expected, fit
from inferplane_planner.calibration.grid import DecodePoint, Grid, PrefillPoint, Sample
from inferplane_planner.core.errors import PlanningError

COEFFICIENTS = ("token_compute_s", "attention_pair_s", "kv_token_s", "sequence_s", "weights_s", "step_overhead_s")


def measured(profile: TimingProfile, way_s: float, *, noise: float = 0.0) -> list[Sample]:
    rng, found = np.random.default_rng(3), list[Sample]()
    for point in Grid(longest=4096, most=32, context=2048).points():
        kv = float(point.batch * (point.context + 10)) if isinstance(point, DecodePoint) else 0.0
        plain = Sample(point, 1.0, kv)
        found.append(replace(plain, seconds=expected(profile, plain, way_s) * float(rng.lognormal(0.0, noise))))
    return found


@pytest.mark.parametrize("name", ["cpu-test", "l40s-8b", "h100-8b", "h100-70b-tp4"])
def test_times_without_noise_give_the_profile_again(name: str) -> None:
    truth = profile_named(name)
    found = fit(measured(truth, 0.004), like=CPU_TEST)

    for coefficient in COEFFICIENTS:
        assert getattr(found.profile, coefficient) == pytest.approx(getattr(truth, coefficient), rel=0.05), coefficient
    assert found.overhead_s == pytest.approx(0.004, rel=0.05)
    assert found.largest_error < 0.01


@pytest.mark.slow
@settings(max_examples=20, derandomize=True)
@given(st.floats(0.2, 5.0), st.floats(0.0, 0.02))
def test_noise_of_a_twentieth_leaves_predictions_within_a_fifth(factor: float, way_s: float) -> None:
    truth = profile_named("l40s-8b").scaled(factor)
    found = fit(measured(truth, way_s, noise=0.05), like=CPU_TEST)

    for sample in measured(truth, way_s):
        assert expected(found.profile, sample, found.overhead_s) == pytest.approx(sample.seconds, rel=0.2)


def test_what_cannot_be_seen_is_taken_from_another_profile() -> None:
    found = fit(measured(profile_named("h100-8b"), 0.0), like=replace(CPU_TEST, kv_capacity_tokens=77))

    assert found.profile.kv_capacity_tokens == 77
    assert found.profile.link == CPU_TEST.link


def test_no_coefficient_is_negative_whatever_was_measured() -> None:
    odd = [Sample(PrefillPoint(tokens), 1.0 / tokens) for tokens in (1, 10, 100, 1000)]
    found = fit([*odd, *(Sample(DecodePoint(batch, 16), 1.0 / batch, 16.0 * batch) for batch in (1, 2, 4))], CPU_TEST)

    assert min(getattr(found.profile, coefficient) for coefficient in COEFFICIENTS) >= 0


def test_too_few_samples_are_refused_with_the_fix() -> None:
    with pytest.raises(PlanningError, match=r"samples\.decode: are 0; measure 3 points or more"):
        fit([Sample(PrefillPoint(tokens), 1.0) for tokens in (1, 2, 3)], CPU_TEST)
