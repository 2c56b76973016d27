import re

from hypothesis import given
from hypothesis import strategies as st

from inferplane_observability.burn import PACES, Burn
from inferplane_observability.rule_values import duration

BURNS = st.builds(
    Burn,
    namespace=st.just("a"),
    service=st.just("s"),
    percentile=st.floats(1, 99.99),
    window_s=st.floats(1, 30 * 86400),
    scrape_s=st.sampled_from([1.0, 15.0, 60.0]),
)
UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+)(ms|[smhd])", text)
    assert found
    return int(found[1]) * UNITS_S[found[2]]


@given(st.floats(0.001, 1e7))
def test_a_duration_is_as_long_as_it_was(length_s: float) -> None:
    assert abs(seconds(duration(length_s)) - length_s) <= 0.001 + 1e-9 * length_s


@given(BURNS)
def test_every_pace_can_fire(burn: Burn) -> None:
    """When all requests miss, the share of misses is 1."""
    assert all(0 < burn.threshold(pace) < 1 for pace in PACES)


@given(BURNS)
def test_nothing_fires_while_the_objective_is_kept(burn: Burn) -> None:
    assert all(burn.threshold(pace) >= burn.budget * (1 - 1e-9) for pace in PACES)


@given(BURNS)
def test_a_faster_pace_asks_for_more_misses_in_less_time(burn: Burn) -> None:
    thresholds = [burn.threshold(pace) for pace in PACES]
    spans = [burn.span_s(pace.long) for pace in PACES]

    assert thresholds == sorted(thresholds, reverse=True)
    assert spans == sorted(spans)


@given(BURNS)
def test_a_window_holds_some_scrapes(burn: Burn) -> None:
    assert all(burn.span_s(windows) >= 4 * burn.scrape_s for pace in PACES for windows in (pace.long, pace.short))


def test_the_classic_windows_come_out_for_an_hour() -> None:
    burn = Burn("a", "s", 99.9, 3600.0, 15.0)

    assert [duration(burn.span_s(pace.long)) for pace in PACES] == ["1h", "6h", "1d", "3d"]
    assert [duration(burn.span_s(pace.short)) for pace in PACES] == ["5m", "30m", "2h", "6h"]
    assert [round(burn.threshold(pace), 6) for pace in PACES] == [0.0144, 0.006, 0.003, 0.001]
