"""Limits and percentiles of own time plus wait, against the share that is late counted request by request."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_planner.core.demand import Floats
from inferplane_planner.core.queueing import ENDLESS, NO_WAIT, Wait
from inferplane_planner.core.totals import Total

OWN = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=40).map(np.array)
WAITS = st.builds(Wait, st.floats(1e-6, 1.0), st.floats(1e-3, 1e3))
SHARES = st.floats(0.01, 0.999)


def within(queue: Wait, own: Floats, limit_s: float) -> float:
    """Return the share of requests within a limit."""
    late = [
        1.0 if each > limit_s else queue.waits * math.exp(-(limit_s - each) / queue.mean_of_waiting_s) for each in own
    ]
    return 1.0 - sum(late) / len(late)


@given(WAITS, OWN, st.floats(1e-3, 1e4))
def test_the_share_within_a_limit_is_the_one_that_is_counted(queue: Wait, own: Floats, limit_s: float) -> None:
    assert Total(queue, own).within(limit_s) == pytest.approx(within(queue, own, limit_s), abs=1e-9)


@given(WAITS, OWN, SHARES)
def test_a_percentile_is_the_least_limit_that_reaches_it(queue: Wait, own: Floats, share: float) -> None:
    found = Total(queue, own).percentile(share)

    assert within(queue, own, found * (1 + 1e-9)) >= share - 1e-9
    assert within(queue, own, found * (1 - 1e-6)) <= share + 1e-9


@given(OWN, SHARES)
def test_without_a_wait_a_percentile_is_an_own_time(own: Floats, share: float) -> None:
    for queue in (NO_WAIT, Wait(0.5, 1e-300)):
        assert Total(queue, own).percentile(share) in own


def test_an_endless_wait_is_within_no_limit() -> None:
    total = Total(ENDLESS, np.ones(3))

    assert total.within(1e9) == 0.0
    assert math.isinf(total.percentile(0.5))
