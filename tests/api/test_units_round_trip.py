"""Durations and quantities survive being written and read."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_api.v1alpha1.units import (
    QUANTITY_PATTERN,
    format_bytes,
    format_duration,
    parse_duration,
    parse_quantity,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0.0),
        ("1500ms", 1.5),
        ("2s", 2.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("250us", 0.00025),
        ("250µs", 0.00025),
        ("10ns", 1e-8),
        ("1m0.5s", 60.5),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds, abs=1e-12)


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", "-5s", "5x", "5s ", "1e3s", "1..5s", "∞", "5s" * 40])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=10**16))
def test_a_duration_survives_being_written(nanoseconds: int) -> None:
    seconds = nanoseconds / 10**9

    assert round(parse_duration(format_duration(seconds)) * 10**9) == round(seconds * 10**9)


@settings(deadline=None)
@given(st.sampled_from([0.001, 0.05, 0.5, 1.0, 1.5, 2.0, 60.0, 90.0, 3600.0, 5400.0, 86400.0]))
def test_usual_durations_are_equal_after_a_round_trip(seconds: float) -> None:
    assert seconds == parse_duration(format_duration(seconds))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (0.000_05, "50us"),
        (0.0031, "3.1ms"),
        (1.5, "1500ms"),
        (2.0, "2s"),
        (61.5, "1m1500ms"),
        (300.0, "5m"),
        (5400.0, "1h30m"),
    ],
)
def test_a_duration_is_written_short(seconds: float, text: str) -> None:
    assert text == format_duration(seconds)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("64Mi", 64 * 2**20),
        ("1500m", Decimal("1.5")),
        ("2e9", 2 * 10**9),
        ("1E", 10**18),
        ("1E3", 1000),
        ("1k", 1000),
        ("0.5Gi", 2**29),
        ("268435456", 268435456),
        (".5", Decimal("0.5")),
    ],
)
def test_a_quantity_is_read_as_kubernetes_reads_it(text: str, value: Decimal | int) -> None:
    assert value == parse_quantity(text)


@pytest.mark.parametrize("text", ["", "Mi", "1 Gi", "1mi", "1KB", "1.2.3", "--1", "1Gib", "1e", "NaN"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=2**62))
def test_bytes_survive_being_written(count: int) -> None:
    assert count == parse_quantity(format_bytes(count))


@settings(deadline=None)
@given(st.from_regex(QUANTITY_PATTERN, fullmatch=True).filter(lambda text: len(text) < 40))
def test_whatever_the_schema_lets_in_can_be_read(text: str) -> None:
    assert isinstance(parse_quantity(text), Decimal)
