"""Prefix hits are counted and limited as vLLM does."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_engine.profiles import CPU_TEST
from inferplane_engine.sim.config import EngineConfig, GroupKind, KvGroup, Speculation
from inferplane_engine.sim.engine import SimEngine
from inferplane_engine.sim.events import (
    BlocksRemoved,
    BlocksStored,
    CacheChanged,
    CacheCleared,
    EngineRequest,
    Finished,
)
from inferplane_engine.sim.testing import VOCABULARY, replayed, run

BLOCK = 16


def ask(name: str, prompt: tuple[int, ...], max_tokens: int = 1, **more: object) -> EngineRequest:
    return EngineRequest(name, prompt, max_tokens, **more)  # type: ignore[arg-type]  # fields by name in tests


def cached_tokens(config: EngineConfig, *requests: EngineRequest) -> list[int]:
    _, events = run(config, [(float(index), request) for index, request in enumerate(requests)])
    return [event.stats.cached_tokens for event in events if isinstance(event, Finished)]


@given(length=st.integers(1, 200))
@settings(deadline=None, max_examples=40)
def test_a_repeated_prompt_hits_all_full_blocks_before_its_last_token(length: int) -> None:
    prompt = tuple(range(length))

    first, second = cached_tokens(EngineConfig(), ask("a", prompt), ask("b", prompt))

    assert (first, second) == (0, (length - 1) // BLOCK * BLOCK)


@pytest.mark.parametrize(
    "other",
    [
        ask("b", tuple(range(64)), salt="tenant"),
        ask("b", tuple(range(64)), adapter="lora"),
        ask("b", (9, *range(1, 64))),
    ],
    ids=["salt", "adapter", "first-token"],
)
def test_what_differs_does_not_hit(other: EngineRequest) -> None:
    assert cached_tokens(EngineConfig(), ask("a", tuple(range(64))), other) == [0, 0]


def test_multimodal_keys_separate_blocks_from_theirs_on() -> None:
    prompt = tuple(range(64))
    first = ask("a", prompt, extra_keys={2: (("image-1", 3),)})
    second = ask("b", prompt, extra_keys={2: (("image-2", 3),)})

    assert cached_tokens(EngineConfig(), first, second) == [0, 32]


def test_speculative_heads_compute_one_block_again() -> None:
    config = EngineConfig(speculation=Speculation(2, 0.5))

    assert cached_tokens(config, ask("a", tuple(range(64))), ask("b", tuple(range(64)))) == [0, 32]


def test_a_hybrid_hit_needs_its_window() -> None:
    groups = (KvGroup(), KvGroup(GroupKind.SLIDING, 32))
    config = EngineConfig(groups=groups, max_num_batched_tokens=32, blocks=1 + 22, max_model_len=272)
    long = tuple(range(256))

    # Blocks that fell out of the window were taken again by the rest of the prompt: a shorter prompt finds no window.
    cached = cached_tokens(config, ask("a", long), ask("again", long), ask("shorter", long[:97]))

    assert cached == [0, 240, 0]


def test_generated_blocks_are_found_by_the_next_turn() -> None:
    engine, events = run(EngineConfig(), [(0.0, ask("a", tuple(range(40)), 40, ignore_eos=True))])
    said = tuple(token for event in events for token in getattr(event, "tokens", ()))
    engine.submit(ask("b", (*range(40), *said, 5)), 10.0)
    finished = [event for event in engine.advance(20.0) if isinstance(event, Finished)]

    # The last token said was never computed, so 79 tokens are held: four full blocks.
    assert [event.stats.cached_tokens for event in finished] == [64]


def test_least_recently_used_blocks_go_first() -> None:
    config = EngineConfig(blocks=1 + 8, max_model_len=128)
    prompts = [tuple(range(base, base + 49)) for base in (0, 1000)]
    filler = tuple(range(5000, 5049))

    cached = cached_tokens(
        config,
        ask("a", prompts[0]),
        ask("b", prompts[1]),
        ask("a2", prompts[0]),
        ask("c", filler),
        ask("a3", prompts[0]),
    )

    assert cached == [0, 0, 48, 0, 48]


def test_equal_requests_at_once_make_copies_that_are_announced_each() -> None:
    twins = [(0.0, ask(name, tuple(range(40)), 40, ignore_eos=True)) for name in ("a", "b")]
    engine, events = run(EngineConfig(), twins)

    assert set(engine.cached().values()) == {1, 2}
    assert engine.cached() == dict(replayed(events))


def test_a_reset_is_announced_with_the_next_step_and_refused_while_blocks_are_held() -> None:
    engine = SimEngine(EngineConfig(), CPU_TEST, VOCABULARY)
    engine.submit(ask("a", tuple(range(40)), 30, ignore_eos=True), 0.0)
    engine.advance(0.002)

    assert not engine.reset_prefix_cache(0.002)
    engine.advance(10.0)
    assert engine.reset_prefix_cache(10.0)
    assert engine.advance(11.0) == []

    engine.submit(ask("b", tuple(range(40))), 11.0)
    changes = [change for event in engine.advance(12.0) if isinstance(event, CacheChanged) for change in event.events]
    assert isinstance(changes[0], CacheCleared)
    assert isinstance(changes[1], BlocksStored)


def test_stored_events_chain_and_carry_the_extra_keys_of_each_block() -> None:
    _, events = run(
        EngineConfig(), [(0.0, ask("a", tuple(range(40)), 9, salt="s", adapter="l", adapter_id=3, ignore_eos=True))]
    )
    stored = [c for e in events if isinstance(e, CacheChanged) for c in e.events if isinstance(c, BlocksStored)]

    assert stored[0].parent is None
    assert stored[0].token_ids == tuple(range(32))
    assert stored[0].extra_keys == (("l", "s"), ("l",))
    assert stored[1].parent == stored[0].hashes[-1]
    assert (stored[1].adapter, stored[1].adapter_id) == ("l", 3)


def test_windows_leave_holes_that_token_ids_span() -> None:
    config = EngineConfig(groups=(KvGroup(), KvGroup(GroupKind.SLIDING, 16)), max_num_batched_tokens=64, blocks=10_000)
    prompt = tuple(range(512, 512 + 160))
    engine, events = run(config, [(0.0, ask("a", prompt)), (1.0, ask("b", (*prompt, *range(40))))])
    stored = [c for e in events if isinstance(e, CacheChanged) for c in e.events if isinstance(c, BlocksStored)]
    removed = [c for e in events if isinstance(e, CacheChanged) for c in e.events if isinstance(c, BlocksRemoved)]

    assert {event.group for event in stored} == {0, 1}
    assert {event.window for event in stored} == {None, 16}
    assert not removed
    assert engine.held_blocks == 0
