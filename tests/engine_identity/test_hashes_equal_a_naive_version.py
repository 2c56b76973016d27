"""The kernel against plain Python integers, and the properties that routing stands on."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_engine.identity import Adapter, KeySpace, extra_key, hash_blocks, seed
from inferplane_engine.identity_kernels import chain_blocks

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)

token_lists = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=80)
block_sizes = st.integers(1, 20)
words = st.integers(0, MASK)


def rotate(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & MASK


def mix(value: int) -> int:
    value = ((value ^ (value >> 33)) * P2) & MASK
    value = ((value ^ (value >> 29)) * P3) & MASK
    return value ^ (value >> 32)


def naive(tokens: Sequence[int], block_size: int, start: int, extras: Sequence[int] = ()) -> list[int]:
    hashes: list[int] = []
    for block in range(len(tokens) // block_size):
        words = [token & 0xFFFFFFFF for token in tokens[block * block_size : (block + 1) * block_size]]
        a, b = P4, P5
        while len(words) >= 4:
            w, x, y, z, *words = words
            a = rotate(((a ^ ((w | x << 32) * P2)) * P1) & MASK, 31)
            b = rotate(((b ^ ((y | z << 32) * P3)) * P2) & MASK, 29)
        for word in words:
            a = rotate(((a ^ (word * P3)) * P1) & MASK, 29)
        value = start ^ a ^ rotate(b, 31)
        if block < len(extras) and extras[block]:
            value = mix(value) ^ ((extras[block] * P1) & MASK)
        start = mix(value) or P5
        hashes.append(start)
    return hashes


def int32(tokens: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(tokens, np.int32)


@settings(deadline=None)
@given(token_lists, block_sizes, words, st.lists(words, max_size=10))
def test_hashes_equal_the_naive_version_for_every_block_size_and_extra_key(
    tokens: list[int], block_size: int, start: int, extras: list[int]
) -> None:
    got = hash_blocks(int32(tokens), block_size, start, np.array(extras, np.uint64)).tolist()

    assert got == naive(tokens, block_size, start, extras)


@settings(deadline=None)
@given(token_lists, token_lists, block_sizes, words)
def test_hashes_of_a_prefix_are_a_prefix_of_the_hashes(
    head: list[int], tail: list[int], block_size: int, start: int
) -> None:
    whole = hash_blocks(int32(head + tail), block_size, start).tolist()

    assert whole[: len(head) // block_size] == hash_blocks(int32(head), block_size, start).tolist()


@settings(deadline=None)
@given(token_lists, block_sizes, words, st.lists(words, max_size=10), st.integers(0, 100))
def test_a_chain_continues_from_its_parent(
    tokens: list[int], block_size: int, start: int, extras: list[int], cut: int
) -> None:
    keys = np.array(extras, np.uint64)
    whole = hash_blocks(int32(tokens), block_size, start, keys)
    cut = min(cut, len(whole))
    parent = int(whole[cut - 1]) if cut else None

    rest = hash_blocks(int32(tokens[cut * block_size :]), block_size, start, keys[cut:], parent)

    assert rest.tolist() == whole[cut:].tolist()


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**31 - 1), min_size=16, max_size=16), st.integers(0, 15), st.integers(0, 31))
def test_a_single_changed_bit_changes_the_hash(tokens: list[int], position: int, bit: int) -> None:
    changed = list(tokens)
    changed[position] = int(np.uint32(changed[position] ^ (1 << bit)).astype(np.int32))

    assert hash_blocks(int32(tokens), 16, 1)[0] != hash_blocks(int32(changed), 16, 1)[0]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_structured_tokens_do_not_collide(start: int) -> None:
    """Neighbouring small ids in every pair of positions: what real prompts differ in."""
    rows = [
        [5] * first + [a] + [5] * (second - first - 1) + [b] + [5] * (15 - second)
        for first in range(4)
        for second in range(first + 1, 5)
        for a in range(0, 1 << 17, 1 << 13)
        for b in range(0, 1 << 17, 1 << 13)
    ]
    unique = {tuple(row) for row in rows}
    hashes = {int(hash_blocks(int32(row), 16, start)[0]) for row in unique}

    assert len(hashes) == len(unique)


SPACE = KeySpace(model="m", model_revision="r", block_size=16)
SEEDS = {
    "base": seed(SPACE),
    "model": seed(KeySpace("m2", "r", 16)),
    "revision": seed(KeySpace("m", "r2", 16)),
    "block size": seed(KeySpace("m", "r", 32)),
    "adapter": seed(SPACE, Adapter("a")),
    "adapter revision": seed(SPACE, Adapter("a", "1")),
    "shifted text": seed(KeySpace("mr", "", 16)),
}


def test_every_part_of_the_seed_counts() -> None:
    first = {int(hash_blocks(np.arange(16, dtype=np.int32), 16, value)[0]) for value in SEEDS.values()}

    assert len(first) == len(SEEDS)


def test_an_extra_key_changes_its_block_and_all_after_it() -> None:
    tokens = np.arange(64, dtype=np.int32)
    plain = hash_blocks(tokens, 16, 1)
    marked = hash_blocks(tokens, 16, 1, np.array([0, 0, extra_key("image", 3)], np.uint64))

    assert (plain == marked).tolist() == [True, True, False, False]


def test_values_are_part_of_the_protocol() -> None:
    """Frozen: routers and agents of different releases must agree."""
    key_space = KeySpace(model="org/model", model_revision="abc", block_size=5)
    hashes = hash_blocks(np.arange(10, dtype=np.int32), 5, seed(key_space, Adapter("a", "1")))

    assert [f"{value:016x}" for value in hashes.tolist()] == ["1e246fe58d47a359", "7ba139c9529d3de4"]


def test_a_block_size_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="block_size must be at least 1, got 0"):
        KeySpace("m", "r", 0)


def test_fewer_tokens_than_a_block_have_no_hash() -> None:
    assert hash_blocks(np.arange(15, dtype=np.int32), 16, 1).shape == (0,)


def test_views_and_read_only_arrays_hash_like_their_values() -> None:
    tokens = np.arange(64, dtype=np.int32)
    packed = np.frombuffer(tokens.tobytes(), np.int32)
    strided = np.repeat(tokens, 2)[::2]

    assert hash_blocks(packed, 16, 1).tolist() == hash_blocks(tokens, 16, 1).tolist()
    assert hash_blocks(strided, 16, 1).tolist() == hash_blocks(tokens, 16, 1).tolist()
    assert len(chain_blocks.signatures) <= 1  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]
