import numpy as np

from inferplane_router.core.block_index import BlockIndex
from inferplane_router.core.values import Hashes

BOUND = 64 * 1024
"""Bytes: 4096 slots of 16 bytes, up to 85 % of them with a key."""
TRUSTED = np.array([1], np.uint64)
NOTHING = np.zeros(2, np.uint64)


def random_keys(count: int, seed: int) -> Hashes:
    return np.random.default_rng(seed).integers(1, 2**64 - 1, count, dtype=np.uint64)


def bounded_index(keys: Hashes) -> BlockIndex:
    index = BlockIndex(most_bytes=BOUND)
    for at in range(0, keys.shape[0], 64):
        index.store(0, keys[at : at + 64])
    return index


def prefix_of(index: BlockIndex, keys: Hashes) -> int:
    counts = np.zeros((64, 5), np.int32)
    index.find(keys, TRUSTED, NOTHING, counts)
    return int(counts[0, 0])


def test_new_keys_are_refused_and_counted_and_old_ones_stay() -> None:
    keys = random_keys(6000, 1)

    index = bounded_index(keys)

    assert index.table.nbytes <= BOUND + 4096  # the head is not counted
    assert index.blocks(0) + index.table.refused == 6000
    assert index.table.refused > 2000
    assert prefix_of(index, keys) == index.blocks(0)


def test_a_key_that_is_there_is_taken_for_another_target() -> None:
    keys = random_keys(6000, 2)
    index = bounded_index(keys)
    before = index.table.refused

    index.store(1, keys[:1000])

    assert index.blocks(1) == 1000
    assert index.table.refused == before


def test_what_is_removed_makes_room_again() -> None:
    keys = random_keys(6000, 3)
    index = bounded_index(keys)
    index.remove(0, keys[:2000])
    newcomers = random_keys(1500, 4)
    before = index.table.refused

    for at in range(0, 1500, 64):
        index.store(0, newcomers[at : at + 64])

    assert index.table.refused == before
    assert prefix_of(index, newcomers) == 1500


def test_a_refused_block_can_be_removed_without_a_trace() -> None:
    keys = random_keys(6000, 5)
    index = bounded_index(keys)

    index.remove(0, keys)

    assert index.blocks(0) == 0
    assert index.table.live() == 0


def test_another_word_of_targets_is_granted_beyond_the_bound() -> None:
    keys = random_keys(6000, 6)
    index = bounded_index(keys)

    index.store(100, keys[:500])

    assert index.blocks(100) == 500
    assert index.blocks(0) + index.table.refused == 6000
