"""SGLang's batches, as its publisher writes them, against the names that a router computes; nobody has run one."""

from typing import Any

import numpy as np
import pytest
from msgspec import msgpack

from inferplane_engine.identity import Adapter, KeySpace, hash_blocks, prompt_extras, seed
from inferplane_engine.kv_events import BlockMap, EventDecoder
from inferplane_engine.kv_events.planes import Plane

SPACE = KeySpace("m", "r", 4)
TOKENS = list(range(12))


def stored(**more: Any) -> dict[str, Any]:
    event = {"type": "BlockStored", "block_hashes": [-11, 22, 33], "parent_block_hash": None, "token_ids": TOKENS}
    return {**event, "block_size": 4, "lora_id": None, **more}


def blocks(*events: dict[str, Any], plane: Plane = Plane.DEVICE) -> list[int]:
    decoder = EventDecoder()
    batch = decoder.decode(msgpack.encode([1.5, list(events), 2]))
    known = BlockMap(SPACE)
    assert known.apply(batch.events) == {}
    assert decoder.counts == {}
    assert batch.data_parallel_rank == 2
    snapshot = known.snapshot()
    return sorted(snapshot[plane].tolist()) if plane in snapshot else []


def expected(salt: str | None = None, adapter: Adapter | None = None) -> list[int]:
    tokens = np.array(TOKENS, np.int32)
    found: list[int] = hash_blocks(tokens, 4, seed(SPACE, adapter), prompt_extras(salt)).tolist()
    return sorted(found)


@pytest.mark.parametrize(
    ("more", "salt", "adapter"),
    [
        ({}, None, None),
        ({"medium": "GPU"}, None, None),
        ({"cache_salt": "tenant"}, "tenant", None),
        ({"lora_name": "a"}, None, Adapter("a", "")),
        ({"cache_salt": "tenant", "lora_name": "a", "session_id": "s"}, "tenant", Adapter("a", "")),
    ],
    ids=["plain", "medium", "salt", "adapter", "both"],
)
def test_blocks_have_the_routers_names(more: dict[str, Any], salt: str | None, adapter: Adapter | None) -> None:
    assert expected(salt, adapter) == blocks(stored(**more))


def test_a_salted_prompt_goes_on_under_its_beginning() -> None:
    first = {**stored(cache_salt="t"), "block_hashes": [1], "token_ids": TOKENS[:4]}
    rest = {**stored(cache_salt="t"), "block_hashes": [2, 3], "parent_block_hash": 1, "token_ids": TOKENS[4:]}

    assert expected("t") == blocks(first, rest)


@pytest.mark.parametrize(("medium", "plane"), [("CPU_PINNED", Plane.HOST), ("DISK", Plane.DISK)])
def test_tiers_have_their_planes(medium: str, plane: Plane) -> None:
    assert expected() == blocks(stored(medium=medium), plane=plane)
    assert blocks(stored(medium=medium)) == []


def test_what_is_removed_or_cleared_is_gone() -> None:
    removed = {"type": "BlockRemoved", "block_hashes": [33]}

    assert len(blocks(stored(), removed)) == 2
    assert blocks(stored(), {"type": "AllBlocksCleared"}) == []
