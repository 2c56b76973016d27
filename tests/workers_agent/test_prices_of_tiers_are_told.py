"""What routers are told of a tier's speed: seconds per token, when it has changed, and never less than is known."""

from typing import Any

from inferplane_api.proto import worker_pb2 as pb
from inferplane_workers.agent.tier_prices import TierPrices


def stat(*engines: dict[str, float], tokens: int = 16) -> dict[str, Any]:
    return {"engines": [{"blockS": tiers, "blockTokens": tokens, "tokenS": None} for tiers in engines]}


def test_a_blocks_time_becomes_a_tokens_and_a_tier_a_plane() -> None:
    prices = TierPrices()

    assert prices.take(stat({"dram": 0.016, "ssd": 0.16}))
    assert {each.plane: each.token_s for each in prices.messages()} == {pb.PLANE_HOST: 0.001, pb.PLANE_DISK: 0.01}


def test_several_engines_of_one_store_are_averaged() -> None:
    prices = TierPrices()
    prices.take(stat({"redis": 0.016}, {"redis": 0.048}, {}))

    assert prices.told == {"redis": 0.002}


def test_only_a_change_of_more_than_a_tenth_is_told() -> None:
    prices = TierPrices()

    assert [prices.take(stat({"ssd": seconds})) for seconds in (1.0, 1.05, 0.95, 1.2, 1.2)] == [
        True,
        False,
        False,
        True,
        False,
    ]


def test_an_engine_that_restarts_takes_nothing_back() -> None:
    prices = TierPrices()
    prices.take(stat({"ssd": 1.6}))

    assert not prices.take(stat({}))
    assert not prices.take(stat())
    assert prices.told == {"ssd": 0.1}


def test_what_was_not_measured_is_not_told() -> None:
    prices = TierPrices()

    assert not prices.take(stat({"ssd": 0.0, "tape": 1.0}))
    assert prices.messages() == []
