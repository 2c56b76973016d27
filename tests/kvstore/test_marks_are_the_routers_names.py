"""The connector names blocks for routers without the code that routers use."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from inferplane_engine.identity import KeySpace, hash_blocks, prompt_extras, seed
from inferplane_kv_connector.marks import Marker

TOKENS = st.lists(st.integers(0, 2**31 - 1), max_size=80)
TEXT = st.text(max_size=8)


@given(model=TEXT, revision=TEXT, salt=TEXT, block_size=st.integers(1, 17), tokens=TOKENS)
def test_marks_equal_what_a_router_computes(
    model: str, revision: str, salt: str, block_size: int, tokens: list[int]
) -> None:
    start = seed(KeySpace(model, revision, block_size))
    expected = hash_blocks(np.array(tokens, np.int32), block_size, start, prompt_extras(salt))

    assert Marker.of(model, revision, block_size, salt).extend([], tokens) == expected.tolist()


@given(salt=TEXT, block_size=st.integers(1, 9), tokens=TOKENS, cut=st.integers(0, 8))
def test_a_prompt_can_be_marked_piece_by_piece(salt: str, block_size: int, tokens: list[int], cut: int) -> None:
    marker = Marker.of("m", "r", block_size, salt)
    whole = marker.extend([], tokens)
    first = whole[:cut]

    assert first + marker.extend(first, tokens[len(first) * block_size :]) == whole
