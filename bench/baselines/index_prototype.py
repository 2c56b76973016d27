"""The least that an index could do: one bit mask a key, power-of-two capacity, no growth, one tier, 64 workers.

What `bench_index` compares the real index with: whatever that adds (growth, tiers, predictions, more workers, dead keys
used again) may cost at most a tenth of this.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_ZERO, _ONE = np.uint64(0), np.uint64(1)


@njit(cache=True, nogil=True)
def store(keys: Words, masks: Words, hashes: Words, bit: np.uint64) -> int:
    """Set a worker's bit for every hash; return how many are new."""
    last = np.uint64(keys.shape[0] - 1)
    added = 0
    for at in range(hashes.shape[0]):
        key = hashes[at]
        slot = np.int64(key & last)
        while True:
            found = keys[slot]
            if found == key:
                masks[slot] |= bit
                break
            if found == _ZERO:
                keys[slot] = key
                masks[slot] = bit
                added += 1
                break
            slot = (slot + 1) & np.int64(last)
    return added


@njit(cache=True, nogil=True)
def find(keys: Words, masks: Words, hashes: Words, live: np.uint64, depth: NDArray[np.int64]) -> None:
    """Write how many leading hashes each live worker has."""
    last = np.uint64(keys.shape[0] - 1)
    n = hashes.shape[0]
    for at in range(n):
        key = hashes[at]
        slot = np.int64(key & last)
        mask = _ZERO
        while True:
            found = keys[slot]
            if found == key:
                mask = masks[slot]
                break
            if found == _ZERO:
                break
            slot = (slot + 1) & np.int64(last)
        gone = live & ~mask
        while gone != _ZERO:
            low = gone & (~gone + _ONE)
            worker = 0
            while low > _ONE:
                low >>= _ONE
                worker += 1
            depth[worker] = at
            gone &= gone - _ONE
        live &= mask
        if live == _ZERO:
            return
    worker = 0
    while live != _ZERO:
        if live & _ONE != _ZERO:
            depth[worker] = n
        live >>= _ONE
        worker += 1


@njit(cache=True, nogil=True)
def drop(masks: Words, bit: np.uint64) -> None:
    """Forget one worker."""
    keep = ~bit
    for slot in range(masks.shape[0]):
        masks[slot] &= keep
