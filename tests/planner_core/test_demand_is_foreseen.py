"""Forecasts of made-up histories."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_planner.core.errors import PlanningError
from inferplane_planner.core.forecast import Forecaster, Settings

INTERVAL_S = 15.0
PLAIN = Settings(interval_s=INTERVAL_S, season_s=None)


def told(rates: "list[float] | np.ndarray[tuple[int], np.dtype[np.float64]]", settings: Settings = PLAIN) -> Forecaster:
    forecaster = Forecaster(settings)
    for place, rate in enumerate(rates, start=1):
        forecaster.observe(place * settings.interval_s, round(float(rate) * settings.interval_s))
    return forecaster


def test_nothing_is_foreseen_before_anything_was_seen() -> None:
    assert Forecaster(PLAIN).at(100.0).high_per_s == 0.0


@given(st.integers(0, 2000), st.integers(2, 100), st.floats(0, 3600))
def test_a_constant_load_is_foreseen_exactly(requests: int, intervals: int, ahead_s: float) -> None:
    rate = requests / INTERVAL_S
    forecast = told([rate] * intervals).at(intervals * INTERVAL_S + ahead_s)

    assert forecast.rate_per_s == pytest.approx(rate)
    assert forecast.high_per_s == pytest.approx(rate)


def test_a_rising_load_is_foreseen_higher_and_a_falling_one_lower() -> None:
    rising = told([1.0 + 0.2 * step for step in range(60)])
    falling = told([20.0 - 0.2 * step for step in range(60)])

    assert rising.at(60 * INTERVAL_S + 120).rate_per_s > 1.0 + 0.2 * 60
    assert falling.at(60 * INTERVAL_S + 120).rate_per_s < 20.0 - 0.2 * 59 + 0.5


def test_a_step_is_followed_within_a_few_intervals() -> None:
    forecaster = told([2.0] * 40 + [10.0] * 8)

    assert forecaster.at(48 * INTERVAL_S).rate_per_s == pytest.approx(10.0, rel=0.15)


def test_the_band_is_wide_while_few_counts_were_compared() -> None:
    rng = np.random.default_rng(4)
    inside = 0
    for _ in range(200):
        counts = rng.poisson(3.0 * INTERVAL_S, 2)
        inside += told([float(each) / INTERVAL_S for each in counts]).at(45.0).high_per_s >= 3.0

    assert inside >= 180


@given(st.lists(st.integers(0, 500), min_size=1, max_size=60))
def test_a_load_that_ends_is_not_foreseen_below_nothing(counts: list[int]) -> None:
    forecaster = told([*(count / INTERVAL_S for count in counts), *[0.0] * 20])

    assert forecaster.level_per_s >= 0.0


def test_the_band_holds_nine_in_ten_of_what_comes() -> None:
    rng = np.random.default_rng(1)
    rates = rng.poisson(6.0 * INTERVAL_S, 1200) / INTERVAL_S
    forecaster, within = Forecaster(PLAIN), 0
    for place, rate in enumerate(rates, start=1):
        if place > 200:
            within += rate <= forecaster.at(place * INTERVAL_S).high_per_s
        forecaster.observe(place * INTERVAL_S, round(float(rate) * INTERVAL_S))

    assert 0.85 <= within / 1000 <= 0.96


def test_a_day_that_was_seen_is_foreseen() -> None:
    settings = Settings(interval_s=60.0, season_s=86_400.0, season_parts=48)
    minutes = np.arange(3 * 1440)
    rates = 10.0 - 9.0 * np.cos(2 * math.pi * minutes / 1440)
    forecaster = told(rates, settings)
    noon = 3 * 86_400 + 43_200

    assert forecaster.at(noon).rate_per_s == pytest.approx(19.0, rel=0.15)
    assert forecaster.at(3 * 86_400 + 600).rate_per_s < 4.0
    assert forecaster.highest(3 * 86_400, noon).rate_per_s == pytest.approx(19.0, rel=0.15)


def test_doubled_late_and_impossible_news_change_nothing() -> None:
    forecaster = told([4.0] * 20)
    before = forecaster.at(400.0)
    for at_s, requests in ((300.0, 900), (15.0, 900), (-1e9, 900), (315.0, -5)):
        forecaster.observe(at_s, requests)

    assert forecaster.at(400.0) == before


def test_after_a_long_silence_it_begins_anew() -> None:
    forecaster = told([20.0] * 20)
    forecaster.observe(20 * INTERVAL_S + 3600.0, 15)

    assert forecaster.at(20 * INTERVAL_S + 3600.0).rate_per_s == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("settings", "words"), [({"interval_s": 0.0}, "interval: 0 s"), ({"season_s": 60.0}, "season: 96 parts")]
)
def test_lengths_that_make_no_sense_are_refused(settings: dict[str, float], words: str) -> None:
    with pytest.raises(PlanningError, match=words):
        Settings(**settings)  # type: ignore[arg-type]  # both are numbers
