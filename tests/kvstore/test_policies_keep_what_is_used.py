import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_kvstore.policies import DEFAULT_POLICY, POLICIES
from inferplane_kvstore.sketch import FrequencySketch
from tests.kvstore.mixes import block, conversations, favourites_between_scans, ideal_hits, zipf

CAPACITY = 400
MIXES: dict[str, Callable[[random.Random], list[int]]] = {
    "steady favourites": lambda rng: zipf(4000, 0.9, 16_000, rng),
    "favourites between scans": lambda rng: favourites_between_scans(rng, 6),
    "conversations": lambda rng: conversations(rng, 2000),
    "a loop": lambda _: list(range(1000)) * 12,
}


def hits(policy: str, asked: Sequence[int], capacity: int = CAPACITY) -> int:
    sketch = FrequencySketch(capacity)
    order, held, count = POLICIES[policy](sketch), set[bytes](), 0
    for key in map(block, asked):
        sketch.record(key)
        if key in held:
            count += 1
            order.touch(key)
            continue
        if len(held) >= capacity:
            victim = order.victim()
            assert victim in held
            held.discard(victim)
        held.add(key)
        order.insert(key)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("mix", MIXES)
def test_the_default_is_within_three_points_of_the_best(mix: str) -> None:
    asked = MIXES[mix](random.Random(7))
    reached = {policy: hits(policy, asked) / len(asked) for policy in POLICIES}
    ideal = ideal_hits(asked, CAPACITY) / len(asked)

    assert reached[DEFAULT_POLICY] >= max(reached.values()) - 0.03
    assert max(reached.values()) <= ideal


def test_one_long_scan_sweeps_away_lru_and_not_the_default() -> None:
    favourites = list(range(100)) * 20
    asked = [*favourites, *range(10_000, 10_400), *range(100)]

    assert hits("lru", asked, 200) == 1900
    assert hits(DEFAULT_POLICY, asked, 200) > 1900 + 80


OPERATIONS = st.lists(st.tuples(st.sampled_from("itdv"), st.integers(0, 30)), max_size=120)


@pytest.mark.parametrize("policy", POLICIES)
@given(operations=OPERATIONS)
def test_a_policy_orders_exactly_the_blocks_there_are(policy: str, operations: list[tuple[str, int]]) -> None:
    order, held = POLICIES[policy](FrequencySketch(16)), set[bytes]()
    for operation, number in operations:
        key = block(number)
        if operation == "i" and key not in held:
            held.add(key)
            order.insert(key)
        elif operation == "t":
            order.touch(key)
        elif operation == "d":
            held.discard(key)
            order.discard(key)
        elif operation == "v":
            victim = order.victim()
            assert (victim in held) if held else (victim is None)
            held.discard(victim or b"")
        assert len(order) == len(held)
    assert {order.victim() for _ in range(len(held))} == held


@given(uses=st.lists(st.integers(0, 40), max_size=300))
def test_the_sketch_never_counts_too_little(uses: list[int]) -> None:
    sketch = FrequencySketch(4000)
    for number in uses:
        sketch.record(block(number))

    assert all(sketch.estimate(block(number)) >= uses.count(number) for number in set(uses))
