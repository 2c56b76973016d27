"""Content keys: stored bytes are found only by everything that determines them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_engine.content_key import KEY_BYTES, content_keys, content_seed
from inferplane_engine.identity import Adapter, KeySpace

SPACE = KeySpace("m", "r", 4)


def test_a_key_has_at_least_128_bits() -> None:
    keys = content_keys(np.arange(9, dtype=np.int32), 4, content_seed(SPACE))

    assert [len(key) for key in keys] == [KEY_BYTES, KEY_BYTES]
    assert KEY_BYTES * 8 >= 128


@settings(deadline=None)
@given(st.lists(st.integers(0, 200_000), max_size=40), st.integers(1, 9), st.integers(0, 10))
def test_a_content_chain_continues_from_its_parent(tokens: list[int], block_size: int, cut: int) -> None:
    array = np.array(tokens, np.int32)
    start = content_seed(SPACE)
    whole = content_keys(array, block_size, start)
    cut = min(cut, len(whole))

    rest = content_keys(array[cut * block_size :], block_size, whole[cut - 1] if cut else start)

    assert rest == whole[cut:]


def test_every_part_counts() -> None:
    seeds = {
        content_seed(SPACE),
        content_seed(SPACE, layout="fp8/tp2"),
        content_seed(SPACE, Adapter("a")),
        content_seed(SPACE, Adapter("a", "1")),
        content_seed(KeySpace("mr", "", 4)),
        content_seed(KeySpace("m", "r", 8)),
    }

    assert len(seeds) == 6


def test_extra_keys_change_their_block_and_all_after_it() -> None:
    tokens = np.arange(12, dtype=np.int32)
    plain = content_keys(tokens, 4, content_seed(SPACE))
    marked = content_keys(tokens, 4, content_seed(SPACE), [b"", b"image"])

    assert [a == b for a, b in zip(plain, marked, strict=True)] == [True, False, False]
