"""Windows of the week: when they hold, which bounds that gives, and which of them contradict each other."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from inferplane_api.v1alpha1.inference_service import InferenceServiceSpec
from inferplane_api.v1alpha1.pool_template import PoolTemplate
from inferplane_api.v1alpha1.windows import Day, ScalingWindow, bounds

MONDAY = datetime(2026, 11, 30, tzinfo=UTC)
POOL = PoolTemplate.model_validate({"replicas": 1, "minReplicas": 1, "maxReplicas": 8})


def window(**fields: Any) -> ScalingWindow:
    return ScalingWindow.model_validate({"name": "w", "start": "08:00", "end": "18:00", **fields})


def at(day: int, hour: int, minute: int = 0) -> float:
    return (MONDAY + timedelta(days=day, hours=hour, minutes=minute)).timestamp()


@pytest.mark.parametrize(
    ("fields", "moment", "holds"),
    [
        ({}, at(0, 8), True),
        ({}, at(0, 7, 59), False),
        ({}, at(6, 17, 59), True),
        ({}, at(0, 18), False),
        ({"days": ["Mon"]}, at(1, 9), False),
        ({"days": ["Sun"], "start": "22:00", "end": "06:00"}, at(7, 5, 59), True),
        ({"days": ["Sun"], "start": "22:00", "end": "06:00"}, at(0, 5, 59), True),
        ({"days": ["Sun"], "start": "22:00", "end": "06:00"}, at(1, 5, 59), False),
        ({"start": "00:00", "end": "00:00"}, at(3, 12), True),
    ],
)
def test_a_window_holds_from_its_start_to_its_end(fields: dict[str, Any], moment: float, holds: bool) -> None:  # noqa: FBT001 - a table
    assert window(**fields).holds(moment) is holds


@given(
    st.lists(st.sampled_from(Day), max_size=7, unique=True),
    st.integers(0, 1439),
    st.integers(0, 1439),
    st.integers(0, 7 * 1440 - 1),
)
def test_a_window_holds_as_a_calendar_says(days: list[Day], start: int, end: int, minute: int) -> None:
    found = window(days=[*days], start=f"{start // 60:02}:{start % 60:02}", end=f"{end // 60:02}:{end % 60:02}")
    moment = MONDAY + timedelta(days=7, minutes=minute)
    lasts = timedelta(minutes=(end - start) % 1440 or 1440)
    midnights = [moment.replace(hour=0, minute=0) - timedelta(days=back) for back in (0, 1)]
    begins = [each + timedelta(minutes=start) for each in midnights if not days or list(Day)[each.weekday()] in days]

    assert found.holds(moment.timestamp()) is any(begin <= moment < begin + lasts for begin in begins)


def test_the_highest_floor_and_the_lowest_ceiling_hold() -> None:
    windows = [
        window(decode={"minReplicas": 2}),
        window(decode={"minReplicas": 3, "maxReplicas": 6}),
        window(start="20:00", end="21:00", decode={"minReplicas": 5}),
    ]

    assert bounds(windows, "decode", POOL) == (5, 6)
    assert bounds(windows[:2], "decode", POOL) == (3, 6)
    assert bounds(windows, "prefill", POOL) == (1, 8)


def test_a_window_only_narrows_what_the_pool_allows() -> None:
    wide = window(decode={"minReplicas": 0, "maxReplicas": 100})

    assert bounds([wide], "decode", POOL) == (1, 8)


def spec(*windows: dict[str, Any]) -> dict[str, Any]:
    named = [{"name": f"w{index}", "start": "08:00", "end": "18:00", **each} for index, each in enumerate(windows)]
    return {
        "model": {"name": "m"},
        "engine": {"type": "sim"},
        "decode": POOL.model_dump(by_alias=True),
        "scaling": {"windows": named},
    }


@pytest.mark.parametrize(
    ("windows", "words"),
    [
        (
            [{"decode": {"minReplicas": 5}}, {"decode": {"maxReplicas": 4}, "start": "17:59", "end": "20:00"}],
            "'w0' and 'w1' overlap and leave no number of decode workers",
        ),
        ([{"name": "day"}, {"name": "day"}], "'day' appears twice"),
        ([{"decode": {"minReplicas": 9}}], "'w0' asks for 9, and the pool's own bound is 8"),
        ([{"decode": {"minReplicas": 3, "maxReplicas": 2}}], "3 exceeds maxReplicas 2"),
        ([{"start": "24:00"}], "start"),
    ],
)
def test_windows_that_contradict_are_named(windows: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        InferenceServiceSpec.model_validate(spec(*windows))

    assert words in str(refused.value)


def test_windows_that_only_touch_are_fine() -> None:
    morning = {"decode": {"minReplicas": 5}, "start": "06:00", "end": "12:00"}
    evening = {"decode": {"maxReplicas": 2}, "start": "12:00", "end": "06:00"}

    assert len(InferenceServiceSpec.model_validate(spec(morning, evening)).scaling.windows) == 2
