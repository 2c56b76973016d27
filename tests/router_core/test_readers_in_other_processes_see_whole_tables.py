"""A writer rebuilds the index while readers in processes of their own look prefixes up."""

import os
import signal
from collections.abc import Callable
from multiprocessing import get_context

import numpy as np
import pytest

from inferplane_router.core.arena import PLACES, Arena, ArenaFullError, Place
from inferplane_router.core.block_index import HOST, BlockIndex
from inferplane_router.core.index_reader import IndexReader
from inferplane_router.core.values import Hashes

PLACE, DONE = 0, PLACES - 1
TRUSTED, NOTHING = np.array([~np.uint64(0)]), np.zeros(2, np.uint64)
STABLE = np.random.default_rng(1).integers(1, 2**64 - 1, 200, dtype=np.uint64)
REBUILDS = 60
FORK = get_context("fork")


def random_keys(count: int, seed: int) -> Hashes:
    return np.random.default_rng(seed).integers(1, 2**64 - 1, count, dtype=np.uint64)


def prefixes(reader: IndexReader, keys: Hashes = STABLE) -> list[int]:
    counts = np.zeros((64, 5), np.int32)
    assert reader.find(keys, TRUSTED, NOTHING, counts)
    return [int(count) for count in counts[:3, 0]]


def in_a_process(work: Callable[[], None]) -> int:
    """Run `work` in a forked process; return its exit code."""
    process = FORK.Process(target=work)
    process.start()
    process.join(60)
    return -1 if process.exitcode is None else process.exitcode


def rebuild_again_and_again(arena: Arena) -> None:
    """Write what the readers look for, then grow, shrink and widen around it."""
    index = BlockIndex(memory=Place(arena, PLACE))
    index.store(0, STABLE)
    index.store(1, STABLE[:100])
    for round_ in range(REBUILDS):
        keys = random_keys(3000, 1000 + round_)  # a seed of its own: none of the stable keys is among them
        index.store(2, keys)
        if round_ == REBUILDS // 2:
            index.store(2, keys[:10], HOST)
        index.forget_blocks(2)
    arena.cells[DONE] = 1


def read_until_done(arena: Arena) -> None:
    reader = IndexReader(arena, PLACE)
    while not reader.follow() or not reader.find(STABLE[:1], TRUSTED, NOTHING, np.zeros((64, 5), np.int32)):
        pass
    while prefixes(reader) != [200, 100, 0]:  # the first stores may still be under way
        assert not arena.cells[DONE]
    while not arena.cells[DONE]:
        assert prefixes(reader) == [200, 100, 0]


@pytest.mark.slow
def test_no_find_misses_a_block_or_makes_one_up_while_the_table_is_replaced() -> None:
    arena = Arena(1 << 26)
    readers = [FORK.Process(target=read_until_done, args=(arena,)) for _ in range(2)]
    for reader in readers:
        reader.start()

    written = in_a_process(lambda: rebuild_again_and_again(arena))
    for reader in readers:
        reader.join(60)

    assert written == 0
    assert [reader.exitcode for reader in readers] == [0, 0]


def write_then_die(arena: Arena) -> None:
    index = BlockIndex(memory=Place(arena, PLACE))
    index.store(0, STABLE)
    Place(arena, 1).take(1000)[:] = 7  # a table that was never shown
    os.kill(os.getpid(), signal.SIGKILL)


def test_readers_keep_the_last_table_of_a_writer_that_was_killed_until_the_next_has_its_own() -> None:
    arena = Arena(1 << 24)
    assert in_a_process(lambda: write_then_die(arena)) == -signal.SIGKILL
    reader = IndexReader(arena, PLACE)

    arena.adopt()
    place = Place(arena, PLACE, holding_back=True)
    index = BlockIndex(memory=place)
    index.store(1, STABLE[:50])
    index.store(2, random_keys(5000, 9))

    assert prefixes(reader) == [200, 0, 0]

    place.show()

    assert prefixes(reader) == [0, 50, 0]
    assert not arena.take(arena.free_bytes // 8 // 4).any()


def test_all_memory_comes_back() -> None:
    arena = Arena(1 << 24)
    free = arena.free_bytes
    place = Place(arena, PLACE)
    index = BlockIndex(memory=place)
    for seed in range(5):
        index.store(0, random_keys(20_000, seed))
        index.forget_blocks(0)
    index.reserve(300)

    place.close()

    assert arena.free_bytes == free


def test_a_place_that_was_taken_down_holds_nothing() -> None:
    arena = Arena(1 << 24)
    place = Place(arena, PLACE)
    BlockIndex(memory=place).store(0, STABLE)
    reader = IndexReader(arena, PLACE)
    place.close()
    counts = np.ones((64, 5), np.int32)

    assert not reader.find(STABLE, TRUSTED, NOTHING, counts)
    assert not counts.any()


def test_a_reader_may_come_before_the_writer() -> None:
    arena = Arena(1 << 24)
    reader = IndexReader(arena, PLACE)

    assert not reader.find(STABLE, TRUSTED, NOTHING, np.zeros((64, 5), np.int32))

    BlockIndex(memory=Place(arena, PLACE)).store(0, STABLE)

    assert prefixes(reader) == [200, 0, 0]


def test_an_arena_that_is_too_small_says_so() -> None:
    arena = Arena(1 << 16)

    with pytest.raises(ArenaFullError, match="make it larger"):
        arena.take(1 << 14)
    with pytest.raises(ValueError, match="place 512"):
        Place(arena, PLACES)
