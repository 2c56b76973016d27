"""Any window of the last hour is the difference of two samples; memory is bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_router.console.history import History, Sample, Tally, percentile, share, steps

BOUNDS = (0.1, 0.2, 0.5, 1.0)


def sample(at: float, met: int = 0, counts: tuple[int, ...] = ()) -> Sample:
    return Sample(at, 1, 2, 0, 0, Tally(ttft_met=met, ttft=counts))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(1, 100))
def test_a_window_counts_what_came_in_it(came: list[int], seconds: int) -> None:
    history, total = History(), 0
    for at, count in enumerate(came):
        total += count
        history.add([("s", sample(float(at), total))])

    assert history.window("s", seconds).ttft_met == sum(came[1:][-seconds:])


def test_the_oldest_samples_and_the_services_that_are_gone_are_forgotten() -> None:
    history = History(most=3)
    for at in range(10):
        history.add([("a", sample(float(at))), ("b", sample(float(at)))])
    history.add([("a", sample(10.0))])

    assert [it.at for it in history.of("a")] == [8.0, 9.0, 10.0]
    assert history.of("b") == ()
    assert history.window("b", 60.0) == Tally()


def test_a_service_that_is_asked_for_the_first_time_has_counted_everything_since() -> None:
    samples = (sample(0.0), sample(5.0, 2, (1, 1, 0, 0, 0)), sample(10.0, 5, (3, 1, 1, 0, 0)))

    assert [(it.ttft_met, it.ttft) for _, it in steps(samples)] == [(2, (1, 1, 0, 0, 0)), (3, (2, 0, 1, 0, 0))]


@given(st.lists(st.integers(0, 9), min_size=5, max_size=5), st.floats(1, 99))
def test_a_percentile_lies_in_the_bucket_that_holds_it(counts: list[int], percent: float) -> None:
    found = percentile(tuple(counts), BOUNDS, percent)
    if not sum(counts):
        assert found is None
        return
    assert found is not None
    wanted = sum(counts) * percent / 100
    below = sum(count for count, bound in zip(counts, BOUNDS, strict=False) if bound < found - 1e-9)
    at_most = sum(count for count, bound in zip(counts, BOUNDS, strict=False) if bound <= found + 1e-9)
    following = next((count for count, bound in zip(counts, BOUNDS, strict=False) if bound > found + 1e-9), 0)
    assert below <= wanted + 1e-9
    assert at_most + following >= wanted - 1e-9 or found == BOUNDS[-1]


@pytest.mark.parametrize(("met", "missed", "expected"), [(0, 0, None), (3, 1, 0.75), (0, 2, 0.0)])
def test_a_share_of_nothing_is_not_told(met: int, missed: int, expected: float | None) -> None:
    assert share(met, missed) == expected
