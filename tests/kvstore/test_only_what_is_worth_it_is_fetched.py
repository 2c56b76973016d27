"""Blocks are fetched when they come sooner than the engine would compute them, and a wrong belief does not last."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_kv_connector.worth import PROBE, Worth

BLOCK = 32


def measured(*, token_s: float, **block_s: float) -> Worth:
    return Worth(BLOCK, token_s=token_s, block_s=block_s)


def test_what_was_never_measured_is_fetched() -> None:
    assert Worth(BLOCK).choose(["redis"] * 5) == 5
    assert measured(token_s=1e-6).choose(["redis"] * 5) == 5


def test_a_tier_slower_than_computing_is_left_alone() -> None:
    worth = measured(token_s=0.001, dram=0.001, redis=0.1)

    assert worth.choose(["dram"] * 4) == 4
    assert worth.choose(["redis"] * 4) == 0
    assert worth.choose(["dram", "dram", "redis", "redis"]) == 2
    assert (worth.fetched, worth.declined) == (6, 6)


def test_worth_can_be_left_out_of_account() -> None:
    worth = Worth(BLOCK, always=True, token_s=0.001, block_s={"redis": 1.0})

    assert worth.choose(["redis"] * 4) == 4


def test_a_slow_block_is_taken_for_the_sake_of_what_follows_it() -> None:
    worth = measured(token_s=0.001, dram=0.001, ssd=0.05)

    assert worth.choose(["dram", "ssd", "dram", "dram"]) == 4


def test_loads_that_wait_ahead_count() -> None:
    worth = measured(token_s=0.001, ssd=0.016)
    worth.load_began("other", ["ssd"] * 120, now=0.0)

    assert worth.expect(["ssd"]) == pytest.approx(121 * 0.016)
    assert worth.choose(["ssd"] * 100) == 0
    worth.forget("other")
    assert worth.choose(["ssd"] * 100) == 100


def test_a_tier_that_has_become_fast_is_found_out() -> None:
    worth, now, taken = measured(token_s=0.001, redis=1.0), 0.0, 0
    for number in range(40 * PROBE):
        taken = worth.choose(["redis"] * 8)
        if taken:
            worth.load_began(str(number), ["redis"] * taken, now)
            now += 0.001 * taken
            worth.load_ended(str(number), now)

    assert taken == 8
    assert worth.block_s["redis"] < BLOCK * worth.token_s  # type: ignore[operator]  # it was measured


def test_steps_that_overlap_are_timed_one_after_the_other() -> None:
    worth = Worth(BLOCK)
    worth.step_began(1000, 0.0)
    worth.step_began(1000, 0.1)
    worth.step_ended(1.0)
    worth.step_ended(2.0)
    worth.step_began(1, 2.0)
    worth.step_ended(3.0)

    assert worth.token_s == pytest.approx(0.001)


@given(
    costs=st.fixed_dictionaries({"dram": st.floats(1e-5, 1.0), "ssd": st.floats(1e-5, 1.0)}),
    loads=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=5),
)
def test_costs_are_learnt_from_loads_of_mixed_tiers(costs: dict[str, float], loads: list[tuple[int, int]]) -> None:
    """Whatever is loaded, what is expected of the same load comes near what it took."""
    worth, now = Worth(BLOCK), 0.0
    mixes = [["dram"] * dram + ["ssd"] * ssd for dram, ssd in loads if dram + ssd]
    for _ in range(300):
        for mix in mixes:
            worth.load_began("one", mix, now)
            now += sum(costs[tier] for tier in mix)
            worth.load_ended("one", now)

    assert all(value >= 0 for value in worth.block_s.values())
    assert set(worth.block_s) == {tier for mix in mixes for tier in mix}
    if len(mixes) == 1:
        assert worth.expect(mixes[0]) == pytest.approx(sum(costs[tier] for tier in mixes[0]), rel=0.01)
