"""Percentiles, timelines and the ideal cache: a fixed amount of memory, and close to the truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_api.catalogue import WorkerRole
from inferplane_engine.profiles import CPU_TEST
from inferplane_engine.sim.events import KeysChanged
from inferplane_simulator import Crash, Delays, PoolSpec, Scenario, ScenarioError, Slo
from inferplane_simulator.agent import Changes
from inferplane_simulator.histogram import Histogram
from inferplane_simulator.ideal import IdealCache
from inferplane_simulator.testing import pool
from inferplane_simulator.timeline import Timeline


@given(st.lists(st.floats(2e-4, 4000.0), min_size=1, max_size=200), st.floats(0.01, 1.0))
def test_a_percentile_is_off_by_a_hundredth_at_most(values: list[float], share: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    true = float(np.quantile(values, share, method="inverted_cdf"))

    assert histogram.percentile(share) == pytest.approx(true, rel=0.0101)
    assert histogram.mean == pytest.approx(float(np.mean(values)))


@given(st.lists(st.floats(0.0, 5000.0), min_size=1, max_size=50))
def test_a_timeline_keeps_its_sums_however_long_it_gets(times: list[float]) -> None:
    line = Timeline(("seen",))
    for at_s in times:
        line.add("seen", at_s)

    assert sum(line.values("seen")) == len(times)
    assert len(line.sums["seen"]) == 240
    assert line.used * line.width_s >= max(times)


def test_the_ideal_cache_hits_beginnings_and_forgets_the_oldest_generation() -> None:
    cache = IdealCache(generation=4)

    assert cache.hit([1, 2, 3], 2) == 0
    assert cache.hit([1, 2, 9], 2) == 2
    assert cache.hit([9, 1], 2) == 2  # whoever was seen, in whatever chain: names are of whole prefixes
    assert not cache.forgot
    cache.hit([20, 21, 22, 23, 24], 5)
    cache.hit([30, 31, 32, 33, 34], 5)
    assert cache.forgot
    assert cache.hit([1], 1) == 0


def changed(stored: list[int], removed: list[int]) -> KeysChanged:
    return KeysChanged(0.0, np.array(stored, np.uint64), np.array(removed, np.uint64))


def test_changes_of_blocks_add_up_to_what_is_there() -> None:
    changes = Changes([changed([1, 2], []), changed([3], [1]), changed([4], [3, 5])])

    delta = changes.take()

    assert delta is not None
    assert np.frombuffer(delta.stored, np.uint64).tolist() == [2, 4]
    assert np.frombuffer(delta.removed, np.uint64).tolist() == [1, 3, 5]
    assert changes.take() is None


@pytest.mark.parametrize(
    ("make", "field"),
    [
        pytest.param(lambda: Scenario(()), "pools", id="no pool"),
        pytest.param(lambda: Scenario((pool(1), pool(2))), "pools", id="a role twice"),
        pytest.param(lambda: Scenario((pool(1),), policy="best"), "policy", id="unknown policy"),
        pytest.param(lambda: Scenario((pool(1),), routers=0), "routers", id="no router"),
        pytest.param(lambda: Scenario((pool(1),), warm_up_s=9, duration_s=5), "duration", id="only warm-up"),
        pytest.param(lambda: PoolSpec(WorkerRole.DECODE, -1, CPU_TEST), "decode.workers", id="negative workers"),
        pytest.param(lambda: Slo(ttft_s=float("nan")), "slo.ttft_s", id="no number"),
        pytest.param(lambda: Delays(report_s=-1.0), "delays.report_s", id="negative delay"),
        pytest.param(lambda: Crash(float("inf"), "decode-0"), "crash.at", id="never"),
    ],
)
def test_scenarios_that_cannot_be_are_refused_by_field(make: object, field: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        make()  # type: ignore[operator]  # parametrised

    assert caught.value.field == field
