"""How far simulated runs are off real ones: the figures, the bar, the table."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelity import FIGURES, LEAST_BAR, TIMES_REPEAT, figures, percentile, summary, table, verdict, verdicts

TIMES = st.floats(1e-4, 1e3)


def run(**changed: float) -> dict[str, float]:
    return {**dict.fromkeys(FIGURES, 1.0), **changed}


@given(st.lists(TIMES, min_size=1), st.floats(0.01, 1.0))
def test_a_percentile_is_a_value_that_its_share_stays_within(values: list[float], share: float) -> None:
    found = percentile(values, share)

    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert sum(value < found for value in values) < share * len(values) + 1e-9


def test_figures_are_percentiles_of_times_and_the_share_of_hits() -> None:
    found = figures([float(number) for number in range(1, 101)], [0.5], 0.25)

    assert found == {"ttft_p50": 50.0, "ttft_p95": 95.0, "tpot_p50": 0.5, "tpot_p95": 0.5, "hit_rate": 0.25}
    assert math.isnan(figures([], [], 0.0)["ttft_p50"])


@given(TIMES, TIMES, TIMES, st.floats(0.1, 10.0))
def test_errors_are_shares_of_the_mean_whatever_the_unit(one: float, other: float, ours: float, unit: float) -> None:
    plain = verdict("ttft_p50", [one, other], ours)
    scaled = verdict("ttft_p50", [one * unit, other * unit], ours * unit)

    assert scaled.error == pytest.approx(plain.error)
    assert scaled.repeat_error == pytest.approx(plain.repeat_error)


@given(TIMES, TIMES)
def test_whoever_gives_the_mean_of_the_real_runs_has_no_error(one: float, other: float) -> None:
    found = verdict("ttft_p50", [one, other], (one + other) / 2)

    assert found.error == 0.0
    assert found.holds


@pytest.mark.parametrize(
    ("real", "ours", "holds"),
    [
        pytest.param([1.0, 1.0], 1.0 + LEAST_BAR - 1e-6, True, id="within-nine-per-cent"),
        pytest.param([1.0, 1.0], 1.0 + LEAST_BAR + 1e-6, False, id="beyond"),
        pytest.param([0.9, 1.1], 1.0 + 0.2 * TIMES_REPEAT - 1e-6, True, id="real-runs-differ-by-more"),
        pytest.param([0.9, 1.1], 1.0 + 0.2 * TIMES_REPEAT + 1e-6, False, id="beyond-that"),
        pytest.param([0.0, 0.0], 0.0, True, id="nothing-was-hit"),
        pytest.param([0.0, 0.0], 0.1, False, id="hits-that-were-none"),
    ],
)
def test_the_bar_is_nine_per_cent_or_half_as_much_again_as_real_runs_differ(
    real: list[float], ours: float, *, holds: bool
) -> None:
    assert verdict("hit_rate", real, ours).holds is holds


def test_what_is_missed_is_marked_and_named() -> None:
    cells = {"one, 30 %": verdicts([run(), run()], run(tpot_p95=1.2)), "two, 30 %": verdicts([run(), run()], run())}
    rows = list(table(cells))

    assert summary(cells) == {
        "held": 9,
        "of": 10,
        "worst_error": {**dict.fromkeys(FIGURES, 0.0), "tpot_p95": 0.2},
        "missed": ["one, 30 % tpot_p95"],
    }
    assert [row.count("missed") for row in rows] == [0, 0, 1, 0]
    assert "1000 ms → 1200 ms: 20% (0%) **missed**" in rows[2]
