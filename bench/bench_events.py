"""From an engine's events to a router's index; one JSON line at the end.

    python bench/bench_events.py [--blocks N] [--block-size N] [--agents N] [--held N]

First one agent's half: stretches of 1, 8 and 64 blocks an event are decoded and stored in its map, then removed one
block an event, as vLLM does.  CPU time, best of the repeats, so that a busy machine disturbs less.

Then the streams of agents to a router, over loopback: `blocks_per_s` is how many blocks, stored or removed, a router
takes in a second of its CPU time when every agent's cache is full and changes by ten thousand blocks a second
(`agent_blocks_per_s`: what the agents need for it).  `refill_s` is how long a router that starts needs until it has
`--held` blocks of each of `--agents` agents, whose sets are packed already; that is time as a clock tells it.
"""

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
from _event_stream import Load, follow

from inferplane_engine.identity import KeySpace, hash_blocks
from inferplane_engine.kv_events import BlockMap, BlockRemoved, BlockStored, EventBatch, EventDecoder, encode_batch
from inferplane_workers.agent.stream_hub import BLOCKS_FLUSH_S

STRETCHES = (1, 8, 64)
BLOCKS_A_SECOND = 10_000


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


def measure_streams(agents: int, held: int) -> dict[str, float]:
    blocks = round(BLOCKS_A_SECOND * BLOCKS_FLUSH_S)
    rounds = [follow(Load(agents=8, held=1000, flushes=200, blocks=blocks))[1] for _ in range(3)]
    refill, _ = follow(Load(agents=agents, held=held))
    return {
        "blocks_per_s": round(max(each.changes / each.router_cpu_s for each in rounds)),
        "agent_blocks_per_s": round(max(each.changes / each.agents_cpu_s for each in rounds)),
        "blocks_per_message": 2 * blocks,
        "refill_blocks": refill.changes,
        "refill_s": round(refill.wall_s, 2),
        "refill_cpu_s": round(refill.router_cpu_s, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=64_000)
    parser.add_argument("--block-size", type=int, default=16)
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--held", type=int, default=100_000)
    options = parser.parse_args()
    hash_blocks(np.zeros(options.block_size, np.int32), options.block_size, 1)
    figures: dict[str, float] = {}
    for stretch in STRETCHES:
        figures |= measure(options.blocks, stretch, options.block_size)
    figures |= measure_streams(options.agents, options.held)
    print(json.dumps({"bench": "events", "blocks": options.blocks, "block_size": options.block_size, **figures}))


if __name__ == "__main__":
    main()
