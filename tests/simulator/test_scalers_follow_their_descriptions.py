"""Other ways to scale, each against what its description says of single situations."""

import numpy as np
import pytest

from inferplane_api.catalogue import WorkerRole
from inferplane_engine.profiles import profile_named
from inferplane_planner.core.demand import Demand
from inferplane_planner.core.engine_model import EngineModel
from inferplane_planner.core.solve import Objective
from inferplane_planner.core.times import EngineTimes
from inferplane_simulator.scalers import SCALERS, Setting
from inferplane_simulator.scalers.band import Band
from inferplane_simulator.scalers.by_role import Span
from inferplane_simulator.scalers.capacity import Capacity, capacity
from inferplane_simulator.scalers.panic_window import PanicWindow
from inferplane_simulator.scalers.queue_length import QueueLength
from inferplane_simulator.scalers.saturation import Saturation
from inferplane_simulator.scalers.throughput import Throughput
from inferplane_simulator.scaling import EngineLoad, Served, Staff

DECODE = WorkerRole.DECODE
ENGINE = EngineTimes(profile_named("h100-8b"))
PAIR = EngineModel(ENGINE, ENGINE).pair()
OBJECTIVE = Objective(1.0, 0.03, 0.95)


def staff(*loads: tuple[int, int], kv: float = 0.1, starting: int = 0, queued: int = 0) -> Staff:
    """Make workers of (running, waiting) requests."""
    engines = tuple(EngineLoad(running, waiting, kv) for running, waiting in loads)
    return Staff(len(engines), starting, engines, queued)


def lengths(prompt: float, output: float) -> Demand:
    return Demand(0.0, uncached=np.array([prompt]), cached=np.array([0.0]), output=np.array([output]))


@pytest.mark.parametrize("name", list(SCALERS))
def test_every_one_stays_within_its_bounds(name: str) -> None:
    carries = {DECODE: Capacity(2.0, 8.0)}
    scaler = SCALERS[name](Setting(PAIR, OBJECTIVE, Span(1, 4), carries, {DECODE: 3}))
    crowd = staff((200, 400), (200, 400), kv=0.95)

    for number in range(1, 60):
        scaler.arrived(number * scaler.period_s)
        wanted = scaler.plan({DECODE: crowd if number < 30 else staff((0, 0))}, number * scaler.period_s)

        assert 1 <= wanted[DECODE] <= 4


def test_queue_length_wants_as_many_as_share_the_queue_at_the_target() -> None:
    assert QueueLength(5.0).wanted(staff((9, 10), (9, 10)), 15.0) == 4
    assert QueueLength(5.0).wanted(staff((9, 5), (9, 5)), 15.0) == 2


def test_queue_length_never_more_than_doubles_or_adds_four() -> None:
    assert QueueLength(5.0).wanted(staff((9, 500)), 15.0) == 5


def test_queue_length_comes_down_when_the_highest_wish_is_five_minutes_old() -> None:
    rule = QueueLength(5.0)
    rule.wanted(staff((9, 10), (9, 10)), 0.0)

    assert rule.wanted(staff((1, 0), (1, 0), (1, 0), (1, 0)), 290.0) == 4
    assert rule.wanted(staff((1, 0), (1, 0), (1, 0), (1, 0)), 310.0) == 1


def test_panic_begins_when_the_short_window_wants_twice_what_is_there_and_lets_nothing_go() -> None:
    rule = PanicWindow(4.0)
    for at in range(12):
        assert rule.wanted(staff((4, 0)), at * 10.0) == 1
    panicked = [rule.wanted(staff((4, 16)), at * 10.0) for at in range(12, 19)]

    assert panicked[-1] == 5
    assert rule.wanted(staff(*[(1, 0)] * 5), 240.0) >= 5


def test_a_band_does_nothing_near_its_target_and_at_most_doubles() -> None:
    assert Band(10.0).wanted(staff((10, 0), (11, 0)), 0.0) == 2
    assert Band(10.0).wanted(staff((90, 0), (90, 0)), 0.0) == 4


def test_a_band_comes_down_after_five_minutes_of_less() -> None:
    rule = Band(10.0)

    assert [rule.wanted(staff((2, 0), (2, 0)), at) for at in (0.0, 290.0, 300.0)] == [2, 2, 1]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(staff((9, 0), (9, 0), kv=0.75), 3, id="hardly any KV to spare"),
        pytest.param(staff((9, 4), (9, 4), kv=0.5), 3, id="hardly any queue to spare"),
        pytest.param(staff((9, 0), (9, 0), kv=0.5), 2, id="one fewer would not have enough"),
        pytest.param(staff((1, 0), (1, 0), kv=0.1), 1, id="one fewer would do"),
        pytest.param(staff((9, 9), kv=0.9, starting=1), 2, id="one starts"),
    ],
)
def test_saturation_goes_by_what_is_to_spare(seen: Staff, expected: int) -> None:
    assert Saturation().wanted(seen, 60.0) == expected


def test_throughput_takes_the_last_interval_over_what_an_engine_carries() -> None:
    found = capacity(PAIR, lengths(2000, 100), OBJECTIVE, DECODE, apart=False)
    scaler = Throughput(PAIR, OBJECTIVE, Span(1, 50))
    for number in range(int(180 * found.rate_per_s * 2.5)):
        scaler.arrived(float(number))
    scaler.served(Served(100.0, 2000, 0, 100, 0.1, 0.01))

    assert scaler.plan({DECODE: staff((1, 0))}, 180.0)[DECODE] == 3


def test_throughput_adds_one_when_every_engine_is_over_and_none_while_one_starts() -> None:
    scaler = Throughput(PAIR, OBJECTIVE, Span(1, 50))
    scaler.arrived(1.0)
    scaler.served(Served(100.0, 2000, 0, 100, 0.1, 0.01))
    scaler.plan({DECODE: staff((1, 0))}, 180.0)

    assert scaler.plan({DECODE: staff((9000, 0), (9000, 0))}, 185.0)[DECODE] == 3
    assert scaler.plan({DECODE: staff((9000, 0), (1, 0))}, 185.0)[DECODE] == 2
    assert scaler.plan({DECODE: staff((9000, 0), starting=1)}, 185.0)[DECODE] == 2


def test_one_worker_carries_less_of_longer_requests() -> None:
    short, long = (
        capacity(PAIR, lengths(tokens, 100), OBJECTIVE, DECODE, apart=False).rate_per_s for tokens in (500, 5000)
    )

    assert 0 < long < short
