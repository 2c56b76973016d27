"""The block index beside a minimal prototype, in the same process: `python bench/bench_index.py [--blocks N]`.

Stores come as agents send them, 64 blocks a message, half of them new.  Both sides take turns, the better of several
rounds counts, and CPU time is measured, so that a busy machine disturbs the ratio little.  The last line is JSON.
"""

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
from baselines import index_prototype as prototype

from inferplane_router.core.block_index import DISK, HOST, BlockIndex
from inferplane_router.core.values import Hashes

_BATCH = 64
_ROUNDS = 5
_WORKERS = 8
_GENERATIONS = 10


def random_hashes(count: int, seed: int) -> Hashes:
    return np.random.default_rng(seed).integers(1, 2**64 - 1, count, dtype=np.uint64)


def cpu_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


class PrototypeIndex:
    def __init__(self, slots: int) -> None:
        self.keys, self.masks = np.ones(slots, np.uint64), np.ones(slots, np.uint64)
        self.keys[:] = self.masks[:] = 0  # touched, so that page faults are not measured

    def store(self, worker: int, hashes: Hashes) -> None:
        prototype.store(self.keys, self.masks, hashes, np.uint64(1 << worker))

    def find(self, hashes: Hashes, depth: np.ndarray) -> None:
        prototype.find(self.keys, self.masks, hashes, np.uint64((1 << _WORKERS) - 1), depth)


def touched_index(blocks: int) -> BlockIndex:
    index = BlockIndex(expected_blocks=blocks)
    index.table.cells[:] = 1
    index.table.cells[:] = 0
    return index


def store_all(store: Callable[[int, Hashes], object], hashes: Hashes) -> None:
    for worker in (0, 1):
        for at in range(0, hashes.shape[0], _BATCH):
            store(worker, hashes[at : at + _BATCH])


def measure_stores(blocks: int) -> tuple[float, float]:
    """Return blocks a second of the index and of the prototype."""
    hashes = random_hashes(blocks, 1)
    slots = 1 << (2 * blocks - 1).bit_length()
    store_all(touched_index(1000).store, hashes[:1000])
    store_all(PrototypeIndex(4096).store, hashes[:1000])
    ours, theirs = [], []
    for _ in range(_ROUNDS):
        index, plain = touched_index(int(slots * 0.875)), PrototypeIndex(slots)
        ours.append(cpu_seconds(lambda index=index: store_all(index.store, hashes)))
        theirs.append(cpu_seconds(lambda plain=plain: store_all(plain.store, hashes)))
    return 2 * blocks / min(ours), 2 * blocks / min(theirs)


def measure_finds(blocks: int, tokens: int) -> tuple[float, float]:
    """Return microseconds of one find over 8 workers with staggered prefixes, ours and the prototype's."""
    slots = 1 << (2 * blocks - 1).bit_length()
    index, plain = touched_index(int(slots * 0.875)), PrototypeIndex(slots)
    filler, prompt = random_hashes(blocks, 2), random_hashes(tokens // 16, 3)
    for each in (index, plain):
        each.store(0, filler)
        for worker in range(_WORKERS):
            each.store(worker, prompt[: prompt.shape[0] * (worker + 1) // _WORKERS])
    counts, depth = np.zeros((64, 5), np.int32), np.zeros(64, np.int64)
    trusted, nothing = np.array([2**64 - 1], np.uint64), np.zeros(2, np.uint64)
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(300):
        began = time.perf_counter()
        index.find(prompt, trusted, nothing, counts)
        between = time.perf_counter()
        plain.find(prompt, depth)
        ours.append(between - began)
        theirs.append(time.perf_counter() - between)
    assert counts[:_WORKERS, 0].tolist() == depth[:_WORKERS].tolist()
    return 1e6 * float(np.median(ours)), 1e6 * float(np.median(theirs))


def churned_bytes(blocks: int, planes: tuple[int, ...], *, remote: bool) -> float:
    """Bytes of table per unique block after ten generations of blocks have come and gone."""
    index = BlockIndex()
    held: list[Hashes] = []
    step = max(1, blocks // 10)
    for generation in range(100):
        hashes = random_hashes(step, 100 + generation)
        for plane in planes:
            index.store(0, hashes, plane)
        if remote:
            index.store_remote("store", hashes)
        held.append(hashes)
        if len(held) > _GENERATIONS:
            oldest = held.pop(0)
            for plane in planes:
                index.remove(0, oldest, plane)
            if remote:
                index.remove_remote("store", oldest)
    return index.table.nbytes / sum(hashes.shape[0] for hashes in held)


def measure_drop() -> float:
    """Return milliseconds to forget one worker of a table of 2 M slots."""
    index = touched_index(int((1 << 21) * 0.875))
    index.store(0, random_hashes(1_000_000, 4))
    index.store(1, random_hashes(1000, 5))
    index.drop(1)
    return 1e3 * min(cpu_seconds(lambda: (index.store(1, random_hashes(10, 6)), index.drop(1))) for _ in range(_ROUNDS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=1_000_000)
    blocks: int = parser.parse_args().blocks
    ours, theirs = measure_stores(blocks)
    find_8k, find_8k_prototype = measure_finds(blocks, 8192)
    find_64k, find_64k_prototype = measure_finds(blocks, 65536)
    result = {
        "stores_per_s": round(ours),
        "stores_vs_prototype": round(ours / theirs, 3),
        "bytes_per_block": round(churned_bytes(blocks // 2, (0,), remote=False), 1),
        "bytes_per_block_tiers": round(churned_bytes(blocks // 4, (0, HOST, DISK), remote=True), 1),
        "find_8k_us": round(find_8k, 1),
        "find_8k_vs_prototype": round(find_8k_prototype / find_8k, 3),
        "find_64k_us": round(find_64k, 1),
        "find_64k_vs_prototype": round(find_64k_prototype / find_64k, 3),
        "drop_worker_ms": round(measure_drop(), 2),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
