"""The formulas against queues that are played out, request by request and step by step."""

import heapq
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_engine.profiles import profile_named
from inferplane_planner.core.decoding import settle
from inferplane_planner.core.demand import Demand, Floats
from inferplane_planner.core.predict import Candidate, Pair, Question, predict
from inferplane_planner.core.queueing import erlang_c, wait
from inferplane_planner.core.times import EngineTimes

ENGINE = EngineTimes(profile_named("h100-8b"))
BOTH = Pair(ENGINE, ENGINE)


def demand(rate_per_s: float, *, seed: int = 1, size: int = 400) -> Demand:
    rng = np.random.default_rng(seed)
    return Demand(
        rate_per_s,
        uncached=np.ceil(rng.lognormal(7.0, 0.7, size)),
        cached=np.ceil(rng.lognormal(6.0, 1.0, size)),
        output=np.ceil(rng.lognormal(5.0, 0.6, size)),
    )


@given(st.integers(1, 40), st.floats(0.01, 0.9), st.floats(1.0, 8.0))
def test_bursts_wait_however_low_the_load_and_less_before_more_servers(servers: int, use: float, burst: float) -> None:
    def mean_s(count: int, spread: float) -> float:
        return wait(servers=count, rate_per_s=use * servers, mean_s=1.0, variation=1.0, burst=spread).mean_s

    assert mean_s(servers + 1, burst) <= mean_s(servers, burst)
    assert mean_s(servers, 1.0) <= mean_s(servers, burst)


def test_those_behind_as_many_of_their_burst_as_there_are_servers_wait() -> None:
    """Batches of geometric size 4.5 on an idle server: a request has 3.5 before it on average."""
    alone = wait(servers=1, rate_per_s=1e-6, mean_s=2.0, variation=0.0, burst=8.0)

    assert alone.mean_s == pytest.approx(3.5 * 2.0, rel=0.01)
    assert wait(servers=10, rate_per_s=1e-6, mean_s=2.0, variation=0.0, burst=8.0).waits == pytest.approx(
        0.08, abs=0.01
    )


def played_waits(service: Floats, servers: int, rate_per_s: float, *, seed: int = 2, count: int = 60_000) -> Floats:
    """Return the waits of a first-come queue, the first tenth left out."""
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(1.0 / rate_per_s, count))
    times = rng.choice(service, count)
    free = [0.0] * servers
    waits = np.empty(count)
    for place in range(count):
        begin = max(arrivals[place], heapq.heappop(free))
        waits[place] = begin - arrivals[place]
        heapq.heappush(free, begin + times[place])
    return waits[count // 10 :]


@dataclass(frozen=True, slots=True)
class Played:
    step_s: float
    sequences: float


def played_batch(asked: Demand, *, seconds: float = 400.0, seed: int = 3) -> Played:
    """Return means over steps of one decoding worker that takes whatever comes."""
    rng = np.random.default_rng(seed)
    now, next_at = 0.0, 0.0
    left: list[list[float]] = []
    steps: list[float] = []
    counts: list[int] = []
    while now < seconds:
        while next_at <= now:
            place = int(rng.integers(asked.output.size))
            left.append([float(asked.output[place]), float(asked.prompt[place])])
            next_at += float(rng.exponential(1.0 / asked.rate_per_s))
        if not left:
            now = next_at
            continue
        step = ENGINE.decode_step_s(len(left), sum(kv for _, kv in left))
        now += step
        if now > seconds / 10:
            steps.append(step)
            counts.append(len(left))
        left = [[tokens - 1, kv + 1] for tokens, kv in left if tokens > 1]
    return Played(float(np.mean(steps)), float(np.average(counts, weights=steps)))


@pytest.mark.parametrize(
    ("servers", "load", "chance"),
    [
        pytest.param(1, 0.5, 0.5, id="one server waits as often as it is busy"),
        pytest.param(2, 1.0, 1 / 3, id="two at half"),
        pytest.param(5, 4.0, 0.5541, id="from tables"),
        pytest.param(3, 0.0, 0.0, id="no load"),
        pytest.param(3, 3.0, 1.0, id="all of it"),
    ],
)
def test_erlangs_c_is_the_one_in_tables(servers: int, load: float, chance: float) -> None:
    assert erlang_c(servers, load) == pytest.approx(chance, abs=1e-4)


@given(st.integers(1, 200), st.floats(0.01, 0.99), st.floats(0.0, 5.0))
def test_more_servers_wait_less_and_more_load_waits_more(servers: int, use: float, variation: float) -> None:
    def mean_s(count: int, rate_per_s: float) -> float:
        return wait(servers=count, rate_per_s=rate_per_s, mean_s=1.0, variation=variation).mean_s

    assert mean_s(servers + 1, servers * use) <= mean_s(servers, servers * use)
    assert mean_s(servers, servers * use * 0.9) <= mean_s(servers, servers * use)
    assert wait(servers=servers, rate_per_s=servers * 1.01, mean_s=1.0, variation=1.0).endless


@pytest.mark.slow
@pytest.mark.parametrize("servers", [1, 2, 4, 16])
@pytest.mark.parametrize("use", [0.3, 0.6, 0.85])
def test_a_ttft_percentile_is_within_a_fifth_of_the_played_queue(servers: int, use: float) -> None:
    asked = demand(1.0)
    service = ENGINE.prefill_s(asked.uncached, asked.cached)
    rate = use * servers / float(service.mean())
    decode = 64
    said = predict(Question(asked.at(rate), 0.95, 1.0), Candidate(servers, decode), BOTH)
    rng = np.random.default_rng(4)
    waits = played_waits(service, servers, rate)
    places = rng.integers(service.size, size=waits.size)
    rest = ENGINE.transfer_s(asked.transferred) + settle(ENGINE, asked.at(rate), per_worker=rate / decode).step_s
    played = float(np.quantile(waits + (service + rest)[places], 0.95))

    assert said.ttft_s == pytest.approx(played, rel=0.2)
    assert said.prefill_use == pytest.approx(use)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [2.0, 8.0, 20.0])
def test_a_decoding_batch_settles_where_the_played_one_does(rate: float) -> None:
    asked = demand(rate)
    said = settle(ENGINE, asked, per_worker=rate)
    played = played_batch(asked)

    assert not said.full
    assert said.step_s == pytest.approx(played.step_s, rel=0.05)
    assert said.sequences == pytest.approx(played.sequences, rel=0.12)


@given(st.floats(0.0, 400.0), st.floats(0.0, 0.9), st.integers(0, 5))
def test_as_many_sequences_leave_a_batch_as_come_to_it(rate: float, prefill_share: float, seed: int) -> None:
    asked = demand(rate, seed=seed, size=60)
    batch = settle(ENGINE, asked, per_worker=rate, prefill_share=prefill_share)
    leave = batch.sequences / (float(asked.output.mean()) * batch.step_s)

    assert leave == pytest.approx(rate) if not batch.full else leave < rate


@given(st.integers(1, 12), st.integers(1, 12), st.floats(0.1, 40.0))
def test_more_workers_of_either_kind_make_nothing_worse(prefill: int, decode: int, rate: float) -> None:
    asked = demand(rate, size=60)

    def look(candidate: Candidate) -> tuple[float, float]:
        said = predict(Question(asked, 0.9, 1.0), candidate, BOTH)
        return said.ttft_s, said.tpot_s

    ttft_s, tpot_s = look(Candidate(prefill, decode))

    for better in (Candidate(prefill + 1, decode), Candidate(prefill, decode + 1)):
        assert look(better)[0] <= ttft_s * (1 + 1e-6)
        assert look(better)[1] <= tpot_s * (1 + 1e-6)


@given(st.integers(1, 12), st.floats(0.1, 40.0))
def test_more_aggregated_workers_make_nothing_worse(decode: int, rate: float) -> None:
    asked = demand(rate, size=60)
    one, other = (predict(Question(asked, 0.9, 1.0), Candidate(0, count), BOTH) for count in (decode, decode + 1))

    assert other.ttft_s <= one.ttft_s * (1 + 1e-6)
    assert other.tpot_s <= one.tpot_s * (1 + 1e-6)


def test_demand_beyond_capacity_is_endless() -> None:
    said = predict(Question(demand(1e5), 0.95, 1.0), Candidate(1, 1), BOTH)

    assert said.endless
    assert said.ttft_met == 0.0
    assert said.prefill_use > 1.0
