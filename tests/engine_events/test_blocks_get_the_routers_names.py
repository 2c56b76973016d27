"""What the agent computes from events is what the router computes from a prompt."""

from typing import Any

import numpy as np
import pytest

from inferplane_engine.identity import Adapter, KeySpace, extra_key, hash_blocks, prompt_extras, seed
from inferplane_engine.kv_events import (
    AllBlocksCleared,
    BlockMap,
    BlockRemoved,
    BlockStored,
    EngineHash,
    Plane,
    PlaneChange,
    Problem,
)

SPACE = KeySpace("m", "r", 4)
TOKENS = tuple(range(100, 112))
PROMPT = np.array(TOKENS, np.int32)


def stored(hashes: tuple[EngineHash, ...] = (1, 2, 3), **fields: Any) -> BlockStored:
    given: dict[str, Any] = {"parent_block_hash": None, "token_ids": TOKENS, "block_size": 4, "medium": "GPU"}
    return BlockStored(block_hashes=hashes, **{**given, **fields})


def device(block_map: BlockMap) -> list[int]:
    return [int(block) for block in block_map.snapshot().get(Plane.DEVICE, np.zeros(0, np.uint64))]


def test_a_plain_prompt() -> None:
    block_map = BlockMap(SPACE)
    block_map.apply([stored()])

    assert device(block_map) == hash_blocks(PROMPT, 4, seed(SPACE)).tolist()


def test_a_salted_prompt() -> None:
    block_map = BlockMap(SPACE)
    block_map.apply([stored(extra_keys=(("salt",), None, None))])

    assert device(block_map) == hash_blocks(PROMPT, 4, seed(SPACE), prompt_extras("salt")).tolist()


def test_an_adapter_with_its_revision_and_a_salt() -> None:
    adapter = Adapter("ad", "rev")
    block_map = BlockMap(SPACE, adapter={"ad": adapter}.__getitem__)
    block_map.apply([stored(lora_name="ad", extra_keys=(("ad", "salt"), ("ad",), ("ad",)))])

    assert device(block_map) == hash_blocks(PROMPT, 4, seed(SPACE, adapter), prompt_extras("salt")).tolist()


def test_images_count_by_hash_and_offset_and_a_chain_goes_on() -> None:
    block_map = BlockMap(SPACE)
    block_map.apply(
        [
            stored((1,), token_ids=TOKENS[:4]),
            stored((2, 3), parent_block_hash=1, token_ids=TOKENS[4:], extra_keys=((["image", 3],), (["image", -1],))),
        ]
    )
    extras = np.array([0, extra_key(("image", 3)), extra_key(("image", -1))], np.uint64)

    assert device(block_map) == hash_blocks(PROMPT, 4, seed(SPACE), extras).tolist()


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (stored(parent_block_hash=99), Problem.UNKNOWN_PARENT),
        (stored(block_size=8, token_ids=tuple(range(24))), Problem.BLOCK_SIZE),
        (stored(token_ids=TOKENS[:-1]), Problem.MALFORMED),
        (stored(token_ids=(*TOKENS[:-1], 1 << 40)), Problem.MALFORMED),
        (stored(medium="TAPE"), Problem.UNKNOWN_MEDIUM),
        (BlockRemoved((1,), "GPU", 0), Problem.UNKNOWN_REMOVAL),
    ],
    ids=["parent", "block size", "tokens", "huge token", "medium", "removal"],
)
def test_what_cannot_be_placed_is_reported_and_not_shown(event: BlockStored | BlockRemoved, problem: Problem) -> None:
    block_map = BlockMap(SPACE)

    assert dict(block_map.apply([event])) == {problem: 1}
    assert block_map.take() == []
    assert block_map.problems == {problem: 1}


def test_blocks_without_a_name_get_it_when_a_later_event_tells() -> None:
    block_map = BlockMap(SPACE)
    block_map.apply([stored((2, 3), parent_block_hash=1, token_ids=TOKENS[4:])])
    block_map.apply([BlockRemoved((3,), "GPU"), stored((1, 2), token_ids=TOKENS[:8])])
    block_map.apply([BlockRemoved((2,), "GPU")])

    assert sorted(device(block_map)) == sorted(hash_blocks(PROMPT, 4, seed(SPACE)).tolist()[:2])


def test_offloaded_blocks_that_say_nothing_are_known_by_the_engines_hash() -> None:
    block_map = BlockMap(SPACE)
    block_map.apply([stored(), stored((2,), token_ids=(), block_size=0, medium="CPU")])

    assert block_map.snapshot()[Plane.HOST].tolist() == hash_blocks(PROMPT, 4, seed(SPACE)).tolist()[1:2]


def test_two_engine_names_of_one_block_are_one_block() -> None:
    """An engine may hash what we do not, an adapter's path for example."""
    block_map = BlockMap(SPACE)
    block_map.apply(
        [stored((1, 2, 3)), stored((11, 12, 13)), BlockRemoved((1, 2, 3), "GPU"), BlockRemoved((13,), "GPU")]
    )

    assert device(block_map) == hash_blocks(PROMPT, 4, seed(SPACE)).tolist()[:2]


def test_what_comes_and_goes_between_two_messages_is_not_sent() -> None:
    block_map = BlockMap(SPACE)
    block_map.apply([stored(), BlockRemoved((3,), "GPU")])
    first = block_map.take()
    block_map.apply([BlockRemoved((2,), "GPU"), stored((2,), parent_block_hash=1, token_ids=TOKENS[4:8])])

    assert [(change.plane, len(change.stored), len(change.removed)) for change in first] == [(Plane.DEVICE, 2, 0)]
    assert block_map.take() == []


def test_a_clear_is_sent_as_such_with_what_came_after_it() -> None:
    block_map = BlockMap(SPACE)
    block_map.apply([stored()])
    block_map.take()
    block_map.apply([BlockRemoved((3,), "GPU"), AllBlocksCleared(), stored((1,), token_ids=TOKENS[:4])])
    (change,) = block_map.take()

    assert isinstance(change, PlaneChange)
    assert (change.cleared, len(change.removed), len(change.stored)) == (True, 0, 1)


def test_memory_is_bounded_when_removals_are_lost() -> None:
    block_map = BlockMap(SPACE, max_blocks=4)
    block_map.apply([stored()])

    assert dict(block_map.apply([stored((4, 5), token_ids=tuple(range(8)))])) == {Problem.OVERFLOW: 1}
    assert block_map.blocks == 0


def test_second_engine_names_do_not_pile_up() -> None:
    block_map = BlockMap(SPACE, max_blocks=4)
    for name in range(1, 50):
        found = block_map.apply([stored((name,), token_ids=TOKENS[:4]), stored((name + 1,), token_ids=TOKENS[:4])])
        found += block_map.apply([BlockRemoved((name + 1,), "GPU"), BlockRemoved((name,), "GPU")])
        assert not found


def test_blocks_of_encoders_are_no_prefix() -> None:
    block_map = BlockMap(SPACE)

    assert not block_map.apply([stored(kv_cache_spec_kind="cross_attention")])
    assert block_map.take() == []
