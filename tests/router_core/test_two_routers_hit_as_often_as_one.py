"""Conversations over a small fleet in virtual time, routed by one router, by two, and by two of which one is killed."""

import pytest

from inferplane_router.core.testing_replicas import hit_rate

CLOSE = 0.02


@pytest.mark.slow
def test_two_routers_hit_as_often_as_one_also_when_one_of_them_starts_anew() -> None:
    alone = hit_rate(routers=1)

    assert alone > 0.6
    assert abs(hit_rate(routers=2) - alone) <= CLOSE
    assert abs(hit_rate(routers=2, killed=True) - alone) <= CLOSE
