import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_api.proto.worker_pb2 import (
    OUTCOME_BAD_REQUEST,
    OUTCOME_CLIENT_GONE,
    OUTCOME_DEADLINE,
    OUTCOME_ENGINE_ERROR,
    OUTCOME_ENGINE_LOST,
    OUTCOME_OK,
    OUTCOME_REFUSED,
    Outcome,
)
from inferplane_router.gateway.attainment import Course, Verdict, judge
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_runtime.metrics.instruments import Instruments

TTFT_S, TPOT_S = 2.0, 0.1
FAULTS = (OUTCOME_ENGINE_ERROR, OUTCOME_ENGINE_LOST, OUTCOME_REFUSED, OUTCOME_DEADLINE)


def course(
    outcome: Outcome = OUTCOME_OK, *, first: float | None = 1.0, last: float = 2.0, pieces: int = 11, status: int = 200
) -> Course:
    return Course(outcome, status=status, begun=0.0, first=first, last=last, pieces=pieces, over=max(last, 2.5))


@pytest.mark.parametrize(
    ("given_course", "expected"),
    [
        pytest.param(course(), Verdict(ttft=True, tpot=True), id="in time"),
        pytest.param(course(first=2.1, last=3.1), Verdict(ttft=False, tpot=True), id="late first token"),
        pytest.param(course(last=2.2), Verdict(ttft=True, tpot=False), id="slow tokens"),
        pytest.param(course(first=2.0), Verdict(ttft=True, tpot=True), id="at the limit"),
        pytest.param(course(pieces=1, last=1.0), Verdict(ttft=True, tpot=None), id="one piece"),
        pytest.param(
            course(OUTCOME_REFUSED, first=None, last=0.0, pieces=0, status=0),
            Verdict(ttft=False, tpot=None),
            id="no place",
        ),
        pytest.param(
            course(OUTCOME_REFUSED, first=0.1, last=0.1, pieces=1, status=429),
            Verdict(ttft=False, tpot=None),
            id="an engine is full",
        ),
        pytest.param(
            course(OUTCOME_ENGINE_ERROR, pieces=1, status=404), Verdict(ttft=None, tpot=None), id="no such adapter"
        ),
        pytest.param(
            course(OUTCOME_BAD_REQUEST, first=None, last=0.0, pieces=0, status=0),
            Verdict(ttft=None, tpot=None),
            id="no request",
        ),
        pytest.param(course(OUTCOME_ENGINE_LOST, last=1.5), Verdict(ttft=True, tpot=False), id="broke off"),
        pytest.param(
            course(OUTCOME_CLIENT_GONE, first=None, last=0.0, pieces=0, status=0),
            Verdict(ttft=False, tpot=None),
            id="gave up after the limit",
        ),
        pytest.param(course(OUTCOME_CLIENT_GONE), Verdict(ttft=True, tpot=True), id="left in the middle"),
    ],
)
def test_what_a_client_saw_decides(given_course: Course, expected: Verdict) -> None:
    assert judge(given_course, ttft_s=TTFT_S, tpot_s=TPOT_S) == expected


def test_a_client_that_left_before_the_limit_says_nothing() -> None:
    left = Course(OUTCOME_CLIENT_GONE, status=0, begun=0.0, first=None, last=0.0, pieces=0, over=1.9)

    assert judge(left, ttft_s=TTFT_S, tpot_s=TPOT_S) == Verdict(ttft=None, tpot=None)


COURSES = st.builds(
    course,
    st.sampled_from([OUTCOME_OK, OUTCOME_CLIENT_GONE, OUTCOME_BAD_REQUEST, *FAULTS]),
    first=st.one_of(st.none(), st.floats(0, 5)),
    last=st.floats(5, 10),
    pieces=st.integers(0, 100),
    status=st.sampled_from([0, 200, 400, 404, 429, 500, 503]),
)


@given(COURSES)
def test_no_fault_of_ours_is_within_both(one: Course) -> None:
    verdict = judge(one, ttft_s=TTFT_S, tpot_s=TPOT_S)

    assert not (one.outcome in FAULTS and verdict.both)


@given(COURSES, st.floats(0.1, 10), st.floats(0.001, 1))
def test_a_wider_limit_never_misses_what_a_narrow_one_met(one: Course, ttft_s: float, tpot_s: float) -> None:
    narrow, wide = judge(one, ttft_s=ttft_s, tpot_s=tpot_s), judge(one, ttft_s=ttft_s * 2, tpot_s=tpot_s * 2)

    assert not (narrow.ttft and wide.ttft is False)
    assert not (narrow.tpot and wide.tpot is False)


def test_priorities_are_counted_in_three_bands_however_many_clients_invent() -> None:
    instruments = Instruments()
    meters = GatewayMeters(instruments).of(("default", "s"))
    for priority in (-7, -1, 0, 1, 999):
        meters.judged(Verdict(ttft=True, tpot=None), priority=priority, tenant="")
    bands = {
        sample.labels["priority"]: sample.value
        for family in instruments.registry.collect()
        for sample in family.samples
        if sample.name == "inferplane_gateway_slo_requests_total"
        and (sample.labels["objective"], sample.labels["met"]) == ("both", "yes")
    }

    assert bands == {"low": 2, "normal": 1, "high": 2}


def test_a_miss_is_shown_as_zero_before_the_first_one() -> None:
    """A rate sees the difference of two samples: a series that begins with a miss has none."""
    instruments = Instruments()
    GatewayMeters(instruments).of(("default", "s")).judged(Verdict(ttft=True, tpot=None), priority=0, tenant="")
    shown = {
        (sample.labels["objective"], sample.labels["met"]): sample.value
        for family in instruments.registry.collect()
        for sample in family.samples
        if sample.name == "inferplane_gateway_slo_requests_total"
    }

    assert shown == {("ttft", "yes"): 1, ("ttft", "no"): 0, ("both", "yes"): 1, ("both", "no"): 0}
