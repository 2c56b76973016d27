"""Decode KV event batches and apply them to the block map; one JSON line at the end.

    python bench/bench_events.py [--blocks N] [--block-size N]

Stretches of 1, 8 and 64 blocks an event are stored and then removed one block an event, as vLLM does.
CPU time, best of the repeats, so that a busy machine disturbs less.
"""

import argparse
import json
import time
from collections.abc import Callable

import numpy as np

from inferplane_engine.identity import KeySpace, hash_blocks
from inferplane_engine.kv_events import BlockMap, BlockRemoved, BlockStored, EventBatch, EventDecoder, encode_batch

STRETCHES = (1, 8, 64)


def stored_batches(blocks: int, stretch: int, block_size: int) -> list[bytes]:
    rng = np.random.default_rng(stretch)
    batches: list[bytes] = []
    for first in range(0, blocks, stretch):
        event = BlockStored(
            block_hashes=tuple(range((stretch << 40) + first, (stretch << 40) + first + stretch)),
            parent_block_hash=None,
            token_ids=tuple(rng.integers(0, 150_000, block_size * stretch).tolist()),
            block_size=block_size,
            medium="GPU",
            extra_keys=(None,) * stretch,
            group_idx=0,
            kv_cache_spec_kind="full_attention",
        )
        batches.append(encode_batch(EventBatch(1.0, (event,), 0)))
    return batches


def removed_batches(blocks: int, stretch: int) -> list[bytes]:
    first = stretch << 40
    hashes = range(first, first + blocks)
    return [
        encode_batch(EventBatch(1.0, tuple(BlockRemoved((one,), "GPU", 0) for one in hashes[at : at + 64]), 0))
        for at in range(0, blocks, 64)
    ]


def cpu_seconds(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def measure(blocks: int, stretch: int, block_size: int, repeats: int = 5) -> dict[str, float]:
    stored, removed = stored_batches(blocks, stretch, block_size), removed_batches(blocks, stretch)
    decoder = EventDecoder()
    block_map = BlockMap(KeySpace("model", "revision", block_size))

    def apply(payloads: list[bytes]) -> None:
        for payload in payloads:
            problems = block_map.apply(decoder.decode(payload).events)
            if problems:
                raise AssertionError(problems)
        block_map.take()

    store = remove = float("inf")
    for _ in range(repeats):
        store = min(store, cpu_seconds(lambda: apply(stored)))
        remove = min(remove, cpu_seconds(lambda: apply(removed)))
    return {
        f"store_{stretch}_blocks_per_s": round(blocks / store),
        f"remove_{stretch}_blocks_per_s": round(blocks / remove),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=64_000)
    parser.add_argument("--block-size", type=int, default=16)
    options = parser.parse_args()
    hash_blocks(np.zeros(options.block_size, np.int32), options.block_size, 1)
    figures: dict[str, float] = {}
    for stretch in STRETCHES:
        figures |= measure(options.blocks, stretch, options.block_size)
    print(json.dumps({"bench": "events", "blocks": options.blocks, "block_size": options.block_size, **figures}))


if __name__ == "__main__":
    main()
