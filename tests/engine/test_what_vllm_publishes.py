"""KV events, as vLLM 0.32 really sends them: what the agent's decoder and the router's index rest on."""

import pytest

from engine_probe import Engines, wait_until

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(180, func_only=True)]

BLOCK = 32
PROMPT = list(range(1000, 1000 + 2 * BLOCK + 9))


def test_a_stored_event_is_a_map_with_these_fields(engines: Engines, salt: str) -> None:
    engines.prefill.complete(PROMPT, cache_salt=salt)
    event = engines.prefill.wait_stored(salt, 2)[0]

    assert event == {
        "type": "BlockStored",
        "block_hashes": event["block_hashes"],
        "parent_block_hash": None,
        "token_ids": PROMPT[: 2 * BLOCK],
        "block_size": BLOCK,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        "extra_keys": [[salt], None],
        "group_idx": 0,
        "kv_cache_spec_kind": "full_attention",
    }
    assert [type(block) for block in event["block_hashes"]] == [int, int]


def test_batches_carry_time_events_and_rank_and_are_numbered_from_zero_without_gaps(
    engines: Engines, salt: str
) -> None:
    engines.prefill.complete(PROMPT, cache_salt=salt)
    engines.prefill.wait_stored(salt, 2)
    batches = engines.prefill.replay()

    assert [batch.sequence for batch in batches] == list(range(len(batches)))
    assert all(len(batch.payload) == 3 and batch.payload[2] == 0 for batch in batches)


def test_replay_begins_where_it_is_asked_to(engines: Engines, salt: str) -> None:
    engines.prefill.complete(PROMPT, cache_salt=salt)
    engines.prefill.wait_stored(salt, 2)
    last = engines.prefill.replay()[-1].sequence

    assert [batch.sequence for batch in engines.prefill.replay(last)] == [last]


def test_a_longer_prompt_stores_its_new_blocks_under_the_old_ones(engines: Engines, salt: str) -> None:
    engines.prefill.complete(PROMPT, cache_salt=salt)
    first = engines.prefill.wait_stored(salt, 2)[0]
    engines.prefill.complete([*PROMPT, *range(2000, 2000 + BLOCK)], cache_salt=salt)
    second = engines.prefill.wait_stored(salt, 3)[1]

    assert second["parent_block_hash"] == first["block_hashes"][-1]
    assert second["extra_keys"] == [None]
    assert len(second["block_hashes"]) == 1


def test_blocks_that_are_there_already_are_not_announced_again(engines: Engines, salt: str) -> None:
    for _ in range(3):
        engines.prefill.complete(PROMPT, cache_salt=salt)
    engines.prefill.complete(PROMPT, cache_salt=f"{salt}-fence")
    engines.prefill.wait_stored(f"{salt}-fence", 2)

    assert len(engines.prefill.stored_under(salt)) == 1


def test_generated_tokens_fill_blocks_that_are_announced_too(engines: Engines, salt: str) -> None:
    answer = engines.prefill.complete(PROMPT, cache_salt=salt, max_tokens=2 * BLOCK, ignore_eos=True)
    generated = answer["choices"][0]["token_ids"]
    events = engines.prefill.wait_stored(salt, 4)
    stored = [token for event in events for token in event["token_ids"]]

    assert stored == [*PROMPT, *generated][: 4 * BLOCK]


def test_another_salt_gives_other_hashes_for_the_same_tokens(engines: Engines, salt: str) -> None:
    hashes: list[set[int]] = []
    for name in (f"{salt}-a", f"{salt}-b"):
        engines.prefill.complete(PROMPT, cache_salt=name)
        hashes.append(set(engines.prefill.wait_stored(name, 2)[0]["block_hashes"]))

    assert hashes[0].isdisjoint(hashes[1])


def test_engines_of_one_model_name_equal_blocks_equally(engines: Engines, salt: str) -> None:
    named: list[list[int]] = []
    for engine in (engines.prefill, engines.decode):
        engine.complete(PROMPT, cache_salt=salt)
        named.append(engine.wait_stored(salt, 2)[0]["block_hashes"])

    assert named[0] == named[1]


def test_an_evicted_block_is_announced_and_no_longer_counted(engines: Engines, salt: str) -> None:
    engine = engines.other_decode
    engine.complete(PROMPT, cache_salt=salt)
    mine = set(engine.wait_stored(salt, 2)[0]["block_hashes"])
    start = engine.replay()[-1].sequence

    for filler in range(4):  # 4 x 3,000 tokens through a cache of 8,192
        engine.complete([100 + (filler + index) % 3000 for index in range(3000)], cache_salt=f"{salt}-{filler}")
    removed = wait_until(
        lambda: {
            block
            for batch in engine.replay(start)
            for event in batch.events
            if event["type"] == "BlockRemoved"
            for block in event["block_hashes"]
        },
        mine.issubset,
    )

    assert mine <= removed
    assert engine.complete(PROMPT, cache_salt=salt)["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
