"""Time per token on workers that also prefill, against a worker that is played step by step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_planner.core.demand import Demand, Floats
from inferplane_planner.core.queueing import wait
from inferplane_planner.core.stalls import stalled_tpot_s

STEP_S = 0.025
SERVICE = np.random.default_rng(5).lognormal(-2.0, 0.6, 200)


def demand(rate_per_s: float, output: float) -> Demand:
    answers = np.ceil(np.random.default_rng(6).lognormal(np.log(output), 0.5, 200)) + 1.0
    return Demand(rate_per_s, uncached=np.ones(200), cached=np.zeros(200), output=answers)


def played(asked: Demand, *, requests: int = 1500, workers: int = 1) -> Floats:
    """Return the times per token on one of the workers, who take turns; its steps take the same whatever its batch."""
    rng = np.random.default_rng(7)
    arrivals = np.cumsum(rng.exponential(1.0 / asked.rate_per_s, requests * workers))[::workers]
    services, outputs = rng.choice(SERVICE, requests), rng.choice(asked.output, requests)
    running = dict[int, tuple[float, float]]()
    now, following, found = 0.0, 0, list[float]()
    while following < requests or running:
        if following < requests and (arrivals[following] <= now or not running):
            now = max(now, arrivals[following]) + services[following]
            running[following] = (now, outputs[following] - 1.0)
            following += 1
            continue
        now += STEP_S
        for number, (since, left) in list(running.items()):
            running[number] = (since, left - 1.0)
            if left <= 1.0:
                found.append((now - since) / (outputs[number] - 1.0))
                del running[number]
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("output", [8.0, 40.0, 300.0])
@pytest.mark.parametrize("rate", [0.5, 2.0])
def test_the_percentile_comes_close_to_what_is_played(rate: float, output: float) -> None:
    asked = demand(rate, output)
    mean_s = float(SERVICE.mean())
    queue = wait(servers=1, rate_per_s=rate, mean_s=mean_s, variation=float(SERVICE.var()) / mean_s**2)
    expected = stalled_tpot_s(asked, SERVICE, step_s=STEP_S, wait_s=queue.mean_s, workers=1, burst=1.0, percentile=0.95)

    assert expected == pytest.approx(float(np.quantile(played(asked), 0.95)), rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("output", [8.0, 40.0])
@pytest.mark.parametrize("workers", [4, 10])
def test_workers_that_take_turns_have_fewer_stalls_than_one_alone_at_the_same_load(workers: int, output: float) -> None:
    asked, alone = demand(2.0 * workers, output), demand(2.0, output)

    def expected(load: Demand, count: int) -> float:
        return stalled_tpot_s(load, SERVICE, step_s=STEP_S, wait_s=0.0, workers=count, burst=1.0, percentile=0.95)

    found = float(np.quantile(played(asked, workers=workers), 0.95))
    assert expected(asked, workers) == pytest.approx(found, rel=0.2)
    assert expected(asked, workers) < expected(alone, 1)


@settings(max_examples=12)
@given(st.floats(0.1, 20.0), st.floats(2.0, 400.0), st.integers(1, 20), st.floats(1.0, 8.0))
def test_more_workers_are_never_worse_and_bursts_never_better(
    rate: float, output: float, workers: int, burst: float
) -> None:
    def tpot_s(count: int, spread: float) -> float:
        asked = demand(rate, output)
        return stalled_tpot_s(asked, SERVICE, step_s=STEP_S, wait_s=0.0, workers=count, burst=spread, percentile=0.95)

    assert STEP_S <= tpot_s(workers + 1, burst) <= tpot_s(workers, burst) * 1.02
    assert tpot_s(workers, 1.0) <= tpot_s(workers, burst) * 1.02


def test_answers_of_one_token_have_no_time_per_token() -> None:
    asked = Demand(5.0, uncached=np.ones(3), cached=np.zeros(3), output=np.ones(3))

    assert stalled_tpot_s(asked, SERVICE, step_s=STEP_S, wait_s=0.0, workers=1, burst=1.0, percentile=0.95) == 0.0
