"""What prompts have in common is counted right, whatever they are, and the work has a bound."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from inferplane_router.core.prefix_heat import shared_prefixes
from inferplane_router.core.values import Hashes

PROMPTS = st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=12)


def chain(blocks: list[int]) -> Hashes:
    """Name each block by all that comes before it, as hashes do."""
    names, name = list[int](), 1
    for block in blocks:
        name = name * 4 + block + 1
        names.append(name)
    return np.array(names, np.uint64)


def naive(prompts: list[list[int]]) -> dict[tuple[int, ...], int]:
    """Count prefixes that at least two prompts have, where fewer go on."""
    counts: dict[tuple[int, ...], int] = {}
    for blocks in prompts:
        for length in range(1, len(blocks) + 1):
            counts[tuple(blocks[:length])] = counts.get(tuple(blocks[:length]), 0) + 1
    return {
        prefix: count
        for prefix, count in counts.items()
        if count > 1 and all(counts.get((*prefix, block), 0) < count for block in range(3))
    }


@given(PROMPTS)
def test_prefixes_are_those_of_a_naive_count(prompts: list[list[int]]) -> None:
    found = shared_prefixes([chain(each) for each in prompts], 1000)
    expected = {tuple(chain(list(prefix)).tolist()): count for prefix, count in naive(prompts).items()}

    assert {tuple(it.keys.tolist()): it.asked for it in found} == expected


@given(PROMPTS, st.integers(0, 5))
def test_those_that_save_most_come_first(prompts: list[list[int]], most: int) -> None:
    chains = [chain(each) for each in prompts]
    weights = [it.keys.shape[0] * it.asked for it in shared_prefixes(chains, 1000)]

    assert weights == sorted(weights, reverse=True)
    assert [it.keys.shape[0] * it.asked for it in shared_prefixes(chains, most)] == weights[:most]


def test_older_prompts_are_left_out_where_there_are_too_many_blocks() -> None:
    newest, older = chain([0, 0, 0]), chain([1, 1, 1])

    found = shared_prefixes([newest, newest, older, older], 10, most_blocks=7)

    assert [it.keys.tolist() for it in found] == [newest.tolist()]
