"""A request of which only the length and the names of its blocks are known."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_engine.profiles import CPU_TEST
from inferplane_engine.sim.config import EngineConfig
from inferplane_engine.sim.content import block_content
from inferplane_engine.sim.engine import SimEngine
from inferplane_engine.sim.events import BlocksStored, CacheChanged, EngineRequest, Event, Finished, Outline, Tokens
from inferplane_engine.sim.testing import VOCABULARY, Workload, configs, outputs, run, timed, workloads


def outlined(request: EngineRequest, size: int) -> EngineRequest:
    """Name the blocks of prompt and answer as an engine without contents would name them."""
    said = VOCABULARY.words[:1] * request.max_tokens
    tokens = (request.prompt + said)[:160]
    names: list[int] = []
    for first in range(0, len(tokens) - size + 1, size):
        names.append(block_content(names[-1] if names else 0, tokens[first : first + size]))
    return replace(request, prompt=(), outline=Outline(len(request.prompt), names))


def stored(events: list[Event]) -> list[tuple[float, list[tuple[int, ...]]]]:
    changes = [event for event in events if isinstance(event, CacheChanged)]
    return [(event.at, [each.hashes for each in event.events if isinstance(each, BlocksStored)]) for event in changes]


@pytest.mark.slow
@given(config=configs(), workload=workloads(), exact=st.booleans())
@settings(max_examples=30)
def test_times_and_blocks_are_those_of_the_written_prompt(
    config: EngineConfig, workload: Workload, *, exact: bool
) -> None:
    bare = replace(config, content=False, exact=exact, speculation=None)
    plain = [(at, replace(request, salt="", adapter="")) for at, request in workload]
    engine, written = run(bare, plain)
    other, named = run(bare, [(at, outlined(request, config.block_size)) for at, request in plain])

    assert timed(named) == timed(written)
    assert stored(named) == stored(written)
    assert [e for e in named if isinstance(e, Finished)] == [e for e in written if isinstance(e, Finished)]
    assert other.cached() == engine.cached()


def test_only_the_first_token_is_said_where_nobody_counts_the_others() -> None:
    config = EngineConfig(content=False, every_token=False, exact=False)
    _, events = run(config, [(0.0, EngineRequest("r", (), 40, outline=Outline(100, range(8))))])

    assert [len(event.tokens) for event in events if isinstance(event, Tokens)] == [1]
    assert len(outputs(events)["r"]) == 1
    assert [event.stats.output_tokens for event in events if isinstance(event, Finished)] == [40]


def test_an_outline_is_refused_where_contents_are_computed() -> None:
    engine = SimEngine(EngineConfig(), CPU_TEST, VOCABULARY)

    with pytest.raises(ValueError, match="outline"):
        engine.submit(EngineRequest("r", (), 4, outline=Outline(10, [])), 0.0)
