"""The core keeps its accounts, and what it says depends on nothing but the KV."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_engine.sim.config import EngineConfig
from inferplane_engine.sim.events import CacheChanged, Finished
from inferplane_engine.sim.testing import Workload, configs, outputs, replayed, run, timed, workloads

pytestmark = pytest.mark.slow


@given(config=configs(), workload=workloads())
@settings(deadline=None, max_examples=30)
def test_every_request_ends_and_every_block_comes_back(config: EngineConfig, workload: Workload) -> None:
    engine, events = run(config, workload)

    assert engine.held_blocks == 0
    assert engine.free_blocks == config.blocks - 1
    assert {event.request_id for event in events if isinstance(event, Finished)} == {r.request_id for _, r in workload}


@given(config=configs(), workload=workloads())
@settings(deadline=None, max_examples=30)
def test_events_replayed_give_the_cache(config: EngineConfig, workload: Workload) -> None:
    engine, events = run(config, workload)

    assert engine.cached() == dict(replayed(events))


@given(config=configs(), workload=workloads())
@settings(deadline=None, max_examples=30)
def test_output_does_not_depend_on_batching_chunking_preemption_or_cache(
    config: EngineConfig, workload: Workload
) -> None:
    _, events = run(config, workload)

    alone: dict[str, tuple[int, ...]] = {}
    plain = EngineConfig(
        blocks=1000, max_model_len=160, max_num_batched_tokens=4096, prefix_caching=False, block_size=config.block_size
    )
    for _, request in workload:
        alone |= outputs(run(plain, [(0.0, request)])[1])
    assert outputs(events) == alone


@given(
    config=configs(),
    workload=workloads(),
    aborts=st.lists(st.tuples(st.floats(0, 0.05), st.sampled_from(["r0", "r1", "r2"])), max_size=2),
)
@settings(deadline=None, max_examples=60)
def test_skipping_ahead_equals_stepping_exactly(
    config: EngineConfig, workload: Workload, aborts: list[tuple[float, str]]
) -> None:
    exact_engine, exact = run(config, workload, tuple(aborts))
    engine, skipped = run(replace(config, exact=False), workload, tuple(aborts))

    assert timed(skipped) == timed(exact)
    assert [e for e in skipped if isinstance(e, CacheChanged)] == [e for e in exact if isinstance(e, CacheChanged)]
    assert [e for e in skipped if isinstance(e, Finished)] == [e for e in exact if isinstance(e, Finished)]
    assert engine.cached() == exact_engine.cached()
    assert engine.gauges() == exact_engine.gauges()


@given(config=configs(), workload=workloads())
@settings(deadline=None, max_examples=30)
def test_skipping_without_contents_keeps_the_times(config: EngineConfig, workload: Workload) -> None:
    bare = replace(config, content=False)
    exact = run(bare, workload)[1]
    skipped = run(replace(bare, exact=False), workload)[1]

    assert timed(skipped) == timed(exact)
    assert [e for e in skipped if isinstance(e, CacheChanged)] == [e for e in exact if isinstance(e, CacheChanged)]
