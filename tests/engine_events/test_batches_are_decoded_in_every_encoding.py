"""vLLM writes events as maps, older releases as arrays; nothing odd may cost the rest of a batch."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack

from inferplane_engine.kv_events import (
    AllBlocksCleared,
    BatchError,
    BlockRemoved,
    BlockStored,
    EventBatch,
    EventDecoder,
    encode_batch,
)

WRITTEN_BY_VLLM_0_32 = bytes.fromhex(
    "93cb4029000000000000948da474797065ab426c6f636b53746f726564ac626c6f636b5f6861736865739201cfffffffffff"
    "ffffffb1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739401020304aa626c6f636b5f73697a6502a7"
    "6c6f72615f696401a66d656469756da3475055a96c6f72615f6e616d65a26164aa65787472615f6b6579739293a2616492a6"
    "6d6d68617368ffa473616c7491a26164a967726f75705f69647801b26b765f63616368655f737065635f6b696e64ae736c69"
    "64696e675f77696e646f77bc6b765f63616368655f737065635f736c6964696e675f77696e646f7708aa73657373696f6e5f"
    "6964a1738aa474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391c4020102b1706172656e745f626c"
    "6f636b5f68617368c40100a9746f6b656e5f696473920506aa626c6f636b5f73697a6502a76c6f72615f6964c0a66d656469"
    "756da3435055a96c6f72615f6e616d65c0a86c6f63616c697479a54c4f43414ca96f776e657273686970a47469657284a474"
    "797065ac426c6f636b52656d6f766564ac626c6f636b5f6861736865739107a66d656469756da3475055a967726f75705f69"
    "64780081a474797065b0416c6c426c6f636b73436c656172656403"
)


def decode(raw: Any) -> tuple[EventBatch, dict[str, int]]:
    decoder = EventDecoder()
    return decoder.decode(msgpack.encode(raw)), dict(decoder.counts)


def test_what_vllm_writes_is_understood_to_the_last_field() -> None:
    decoder = EventDecoder()

    batch = decoder.decode(WRITTEN_BY_VLLM_0_32)

    assert batch == EventBatch(
        ts=12.5,
        events=(
            BlockStored(
                block_hashes=(1, 2**64 - 1),
                parent_block_hash=None,
                token_ids=(1, 2, 3, 4),
                block_size=2,
                lora_id=1,
                medium="GPU",
                lora_name="ad",
                extra_keys=(("ad", ["mmhash", -1], "salt"), ("ad",)),
                group_idx=1,
                kv_cache_spec_kind="sliding_window",
                kv_cache_spec_sliding_window=8,
                session_id="s",
            ),
            BlockStored(
                block_hashes=(b"\x01\x02",),
                parent_block_hash=b"\x00",
                token_ids=(5, 6),
                block_size=2,
                medium="CPU",
                locality="LOCAL",
                ownership="tier",
            ),
            BlockRemoved(block_hashes=(7,), medium="GPU", group_idx=0),
            AllBlocksCleared(),
        ),
        data_parallel_rank=3,
    )
    assert not decoder.counts


def test_a_batch_survives_its_own_encoding() -> None:
    batch = EventBatch(1.0, (BlockRemoved((1,), "GPU", 2), AllBlocksCleared()), 0)

    assert EventDecoder().decode(encode_batch(batch)) == batch


def test_positional_events_of_older_releases_are_understood() -> None:
    batch, counts = decode(
        [1.0, [["BlockStored", [1], None, [5, 6], 2, None], ["BlockRemoved", [1]], ["AllBlocksCleared"]]]
    )

    assert batch.events == (BlockStored((1,), None, (5, 6), 2), BlockRemoved((1,)), AllBlocksCleared())
    assert batch.data_parallel_rank is None
    assert counts == {}


def test_a_batch_written_as_a_map_is_understood() -> None:
    batch, _ = decode({"ts": 1, "events": [{"type": "AllBlocksCleared"}], "data_parallel_rank": 2})

    assert batch == EventBatch(1.0, (AllBlocksCleared(),), 2)


def test_unknown_types_are_counted_and_the_rest_is_kept() -> None:
    batch, counts = decode([1.0, [{"type": "BlockMoved", "x": 1}, {"type": "BlockRemoved", "block_hashes": [1]}, 7], 0])

    assert batch.events == (BlockRemoved((1,)),)
    assert counts == {"type:BlockMoved": 1, "type:int": 1}


def test_unknown_fields_are_ignored_and_counted() -> None:
    batch, counts = decode([1.0, [{"type": "BlockRemoved", "block_hashes": [1], "reason": "x"}], 0])

    assert batch.events == (BlockRemoved((1,)),)
    assert counts == {"field:reason": 1}


def test_a_malformed_event_is_counted_and_the_rest_is_kept() -> None:
    batch, counts = decode([1.0, [{"type": "BlockRemoved", "block_hashes": "no"}, ["AllBlocksCleared"]], 0])

    assert batch.events == (AllBlocksCleared(),)
    assert counts == {"malformed:BlockRemoved": 1}


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x93\x01", msgpack.encode({"a": 1}), msgpack.encode([1.0])])
def test_what_is_no_batch_is_refused(payload: bytes) -> None:
    with pytest.raises(BatchError, match="an event batch must be"):
        EventDecoder().decode(payload)


@given(st.binary(max_size=60))
def test_any_bytes_give_a_batch_or_the_one_error(payload: bytes) -> None:
    try:
        EventDecoder().decode(payload)
    except BatchError:
        return
