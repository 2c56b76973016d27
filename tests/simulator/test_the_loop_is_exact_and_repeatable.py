"""One outcome for a seed, skipping or not; and nothing is lost on the way."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_api.catalogue import RoutingMode
from inferplane_engine.profiles import CPU_TEST
from inferplane_engine.timing import prefill_s
from inferplane_planner.workload import workload
from inferplane_planner.workload.open_loop import Ends
from inferplane_simulator import Crash, Outcome, PoolSpec, Scenario, Simulation, Slo
from inferplane_simulator.journey import End
from inferplane_simulator.testing import Written, apart, pool, request

SLO = Slo(ttft_s=0.5, tpot_s=0.05)


def told(outcome: Outcome) -> str:
    return repr(outcome.document())


def test_one_request_alone_takes_what_its_engine_takes() -> None:
    scenario = Scenario((pool(1),), slo=SLO, max_model_len=8192)
    source = Written([request(0, 1.0, (1, 1000), output=11)])
    outcome = Simulation(scenario, source).run()
    ways = 2 * scenario.delays.route_s
    alone = prefill_s(CPU_TEST, uncached_tokens=1000, cached_tokens=0, chunk_tokens=2048)

    assert outcome.ttft.p50 == pytest.approx(alone + ways, rel=0.01)
    assert outcome.attainment == 1.0
    assert outcome.ended[End.ANSWERED] == 1
    assert source.finished_at[0] == pytest.approx(1.0 + outcome.e2e.mean)


@pytest.mark.slow
@pytest.mark.timeout(300)  # thousands of events on a machine that may be busy
@settings(max_examples=8)
@given(
    seed=st.integers(0, 1000),
    name=st.sampled_from(["saas", "agents", "zipf-shift", "reasoning"]),
    pools=st.sampled_from([(pool(3),), apart(2, 2)]),
    routers=st.integers(1, 3),
    block_tokens=st.sampled_from([16, 64, 512]),
)
def test_skipping_ahead_gives_what_stepping_exactly_gives(
    seed: int, name: str, pools: tuple[PoolSpec, ...], routers: int, block_tokens: int
) -> None:
    crash = Crash(1.5, "decode-1", down_s=0.5)
    scenario = Scenario(
        pools, slo=SLO, max_model_len=16_384, routers=routers, seed=seed, block_tokens=block_tokens, crashes=(crash,)
    )

    def run(*, exact: bool) -> str:
        source = workload(name, 15.0, seed=seed, ends=Ends(requests=30))
        return told(Simulation(replace(scenario, exact=exact), source).run())

    assert run(exact=False) == run(exact=True)


@pytest.mark.slow
@pytest.mark.timeout(300)  # thousands of events on a machine that may be busy
@settings(max_examples=6)
@given(seed=st.integers(0, 1000), name=st.sampled_from(["saas", "agents", "zipf-shift"]), routers=st.integers(1, 3))
def test_a_seed_gives_one_outcome_and_every_request_one_end(seed: int, name: str, routers: int) -> None:
    def run() -> Outcome:
        scenario = Scenario((pool(2),), slo=SLO, max_model_len=32_768, routers=routers, seed=seed)
        return Simulation(scenario, workload(name, 10.0, seed=seed, ends=Ends(requests=30))).run()

    outcome = run()

    assert told(outcome) == told(run())
    assert sum(outcome.ended.values()) == outcome.requests
    assert 0.0 <= outcome.hit_rate <= outcome.ideal_hit_rate + 1e-9


def test_a_shared_beginning_is_hit_on_the_worker_that_has_it() -> None:
    requests = [request(number, 1.0 + number, (1, 4096), (100 + number, 64)) for number in range(5)]
    outcome = Simulation(Scenario((pool(3),), slo=SLO, max_model_len=8192), Written(requests)).run()

    assert outcome.hit_rate == pytest.approx(4 * 4096 / (5 * 4160))
    assert outcome.hit_share == pytest.approx(1.0)


def test_a_prompt_is_computed_by_one_pool_and_answered_by_the_other() -> None:
    scenario = Scenario(apart(1, 1), slo=SLO, mode=RoutingMode.DISAGGREGATED, max_model_len=8192)
    simulation = Simulation(scenario, Written([request(0, 0.5, (1, 3000))]))
    outcome = simulation.run()
    prefill, decode = (simulation.fleet.workers[name].engine.gauges() for name in ("prefill-0", "decode-0"))
    moved_s = 3000 * CPU_TEST.kv_bytes_per_token / CPU_TEST.link.bytes_per_s

    assert outcome.ended[End.ANSWERED] == 1
    assert prefill.external_hits == 0
    assert decode.external_hits == 3000
    assert outcome.ttft.mean > moved_s
    assert simulation.fleet.workers["prefill-0"].engine.held_blocks == 0


def test_too_long_prompts_and_fleets_of_nobody_are_told_apart() -> None:
    scenario = Scenario((pool(1),), slo=SLO, max_model_len=1024)
    long = Simulation(scenario, Written([request(0, 0.5, (1, 2000))])).run()
    nobody = Simulation(replace(scenario, pools=(pool(0),)), Written([request(0, 0.5, (1, 200))])).run()

    assert long.ended[End.TOO_LONG] == 1
    assert math.isnan(long.ttft.p50)
    assert long.document()["ttft"]["p50"] is None
    assert nobody.ended[End.REFUSED] == 1
    assert nobody.attainment == 0.0
