"""How many requests a target takes: slow at first beside others, and no more than the pace allows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_router.core.cost import CostSettings
from inferplane_router.core.fleet import Fleet
from inferplane_router.core.room import LEAST, Room
from inferplane_router.core.router import RouterCore
from inferplane_router.core.score_kernels import (
    MOST_REQUESTS,
    STEP_BASE,
    STEP_CONTEXT,
    STEP_FACTOR,
    STEP_REQUEST,
    STEP_SPREAD,
)
from inferplane_router.core.testing import FakeWorker, ask, catalogue, connect, make_core, service
from inferplane_router.core.values import Routed

FIRST, SECOND = FakeWorker("d1"), FakeWorker("d2")


def placed(core: RouterCore, numbers: range, now: float) -> dict[str, int]:
    """Place requests without prompts; return how many went where."""
    count = {"d1": 0, "d2": 0}
    for number in numbers:
        answer = core.pick(ask(core, f"r{number}", None), now)
        assert isinstance(answer, Routed)
        count[answer.decode.worker_id] += 1
    return count


def join(core: RouterCore, now: float) -> None:
    core.apply_catalogue(catalogue([service()], [FIRST, SECOND]), now)
    connect(core, SECOND, now=now)


def test_a_worker_that_joins_others_is_filled_over_some_seconds() -> None:
    core = make_core(FIRST)
    assert placed(core, range(40), 100.0)["d1"] == 40
    join(core, 100.0)

    assert placed(core, range(40, 60), 100.0)["d2"] == LEAST
    core.poll(105.0)
    assert LEAST < placed(core, range(60, 100), 105.0)["d2"] + LEAST < 60
    core.poll(111.0)
    assert placed(core, range(100, 140), 111.0)["d2"] > 10


def test_workers_that_come_together_are_not_slowed_down() -> None:
    core = make_core(FIRST, SECOND)
    core.poll(0.5)

    assert placed(core, range(60), 0.5)["d2"] > 20


def test_a_lone_worker_is_not_slowed_down() -> None:
    core = make_core(FIRST)
    core.worker_lost("d1", 50.0)
    core.poll(90.0)
    connect(core, FIRST, now=100.0)

    assert placed(core, range(40), 100.0)["d1"] == 40


def fleet_of(base_s: float, request_s: float, context_s: float, factor: float, declared: int) -> Fleet:
    fleet = Fleet(epoch=1, settings=CostSettings())
    fleet.speeds[0, [STEP_BASE, STEP_REQUEST, STEP_CONTEXT, STEP_FACTOR]] = base_s, request_s, context_s, factor
    fleet.declared[0] = declared
    fleet.ready_decode[0] = True
    return fleet


@given(
    base_s=st.floats(1e-4, 0.2),
    request_s=st.floats(1e-6, 1e-2),
    context_s=st.floats(0, 1e-6),
    factor=st.floats(0.5, 4.0),
    declared=st.integers(1, 4096),
    tpot_s=st.floats(0.005, 0.5),
)
def test_the_largest_batch_that_keeps_the_pace(
    *, base_s: float, request_s: float, context_s: float, factor: float, declared: int, tpot_s: float
) -> None:
    fleet, room = fleet_of(base_s, request_s, context_s, factor, declared), Room()
    room.follow(fleet, 0.0, tpot_s)
    most = int(fleet.tags[0, MOST_REQUESTS])

    def step_s(requests: int) -> float:
        return factor * (base_s + requests * (request_s + context_s * room.context))

    least = min(declared, max(8, min(declared, 256) // 8))

    assert least <= most <= declared
    if most < declared:
        assert step_s(most + max(2, most // 18)) > tpot_s * 0.999999
    if least < most < declared:
        assert step_s(most) < tpot_s * 1.06


@pytest.mark.parametrize("percentile", [50.0, 90.0, 95.0, 99.0])
def test_so_many_percent_keep_the_pace_as_the_objective_asks(percentile: float) -> None:
    """Requests spread around what is predicted as much as predictions have been wrong."""
    fleet, room, error = fleet_of(0.01, 1e-3, 0.0, 1.0, 4096), Room(), 0.2
    fleet.speeds[0, STEP_SPREAD] = error
    room.follow(fleet, 0.0, 0.1, percentile=percentile)
    predicted_s = 0.01 + 1e-3 * int(fleet.tags[0, MOST_REQUESTS])
    spread = np.random.default_rng(1).normal(1.0, error * np.sqrt(np.pi / 2), 100_000)

    assert np.mean(predicted_s * spread <= 0.1) * 100 == pytest.approx(percentile, abs=1.5)


def test_small_changes_are_not_written() -> None:
    fleet, room = fleet_of(0.01, 1e-3, 0.0, 1.0, 4096), Room()
    room.follow(fleet, 0.0, 0.1)
    crowd = fleet.crowd
    fleet.speeds[0, STEP_REQUEST] = 1.01e-3
    room.follow(fleet, 1.0, 0.1)

    assert fleet.crowd is crowd
    assert np.array_equal(fleet.crowd.limits, fleet.limits)
