"""A KVStore's status: what the agents beside its stores show, added up and read seldom."""

import asyncio
from typing import Any

from inferplane_operator.cluster.kv_store_pages import KVStorePages, reading_of
from inferplane_operator.reconcile.core import PureCore
from inferplane_operator.reconcile.values import Merge, ObservedKVStore, StoreReading, TierReading
from inferplane_runtime.metrics.exposition import page
from inferplane_runtime.metrics.instruments import Instruments
from inferplane_workers.agent.store_metrics import StoreMetrics

TIERS = [{"name": "memory", "medium": "dram", "capacity": "1Gi"}, {"name": "far", "medium": "redis", "address": "r:1"}]
STORE = {
    "apiVersion": "inferplane.dev/v1alpha1",
    "kind": "KVStore",
    "metadata": {"name": "cache", "namespace": "a", "generation": 1},
    "spec": {"tiers": TIERS},
}
READING = StoreReading(
    asked=2,
    answering=2,
    lookups=100,
    misses=40,
    fetched=45,
    declined=15,
    tiers={"dram": TierReading(used_bytes=2048, blocks=2, hits=50, corrupt=1), "redis": TierReading(hits=10)},
)


def shown(store: str, *, hits: int, reachable: bool = True) -> str:
    """Return what an agent shows of a store."""
    make = Instruments()
    counted = {"hits": hits, "written": 0, "corrupt": 1, "failed": 0, "dropped": 0, "read_bytes": 0, "read_s": 0.0}
    tiers = [{"name": "dram", "usedBytes": 1024, "capacityBytes": 4096, "blocks": 1, "evictions": 0, "refused": 0}]
    tiers += [{"name": "redis", "usedBytes": None, "reachable": reachable}]
    counters = {name: {**counted, "reads": [0] * 14} for name in ("dram", "redis")}
    stat = {
        "tiers": tiers,
        "counters": {"lookups": 10, "misses": 3, "tiers": counters},
        "worth": {"fetched": 5, "declined": 2},
        "engines": [{"tokenS": 0.001, "blockTokens": 16, "blockS": {"dram": 0.002}}],
    }
    StoreMetrics(make).take(store, stat)
    return page(make.registry).decode()


def status(reading: StoreReading) -> dict[str, Any]:
    (merge,) = PureCore().kv_store(ObservedKVStore(STORE, reading=reading)).status
    assert isinstance(merge, Merge)
    return dict(merge.patch["status"])


def ready(reading: StoreReading) -> tuple[str, str]:
    (condition,) = status(reading)["conditions"]
    return condition["status"], condition["reason"]


def test_a_store_that_two_agents_show_counts_once() -> None:
    reading = reading_of([shown("one", hits=4), shown("one", hits=4), shown("two", hits=6), ""])

    assert (reading.answering, reading.lookups, reading.misses, reading.fetched, reading.declined) == (2, 20, 6, 10, 4)
    assert reading.tiers["dram"] == TierReading(used_bytes=2048, blocks=2, hits=10, corrupt=2)


def test_measured_tiers_bear_the_names_of_the_spec() -> None:
    assert status(READING)["tiers"] == [
        {"name": "memory", "used": "2048", "blocks": 2, "hitRatio": 0.5, "corruptBlocks": 1},
        {"name": "far", "used": "0", "blocks": 0, "hitRatio": 0.1, "corruptBlocks": 0},
    ]
    (condition,) = status(READING)["conditions"]
    assert "60 % of the blocks" in condition["message"]
    assert "75 % of those were worth" in condition["message"]


def test_ready_says_whether_stores_and_tiers_answer() -> None:
    down = reading_of([shown("one", hits=1, reachable=False)])

    assert ready(StoreReading()) == ("Unknown", "Pending")
    assert ready(StoreReading(asked=2)) == ("False", "KVStoreUnavailable")
    assert ready(StoreReading(asked=1, answering=1, tiers=down.tiers)) == ("False", "KVStoreUnavailable")
    assert ready(READING) == ("True", "Serving")


class Pages:
    """One agent's page, and how often it was read."""

    def __init__(self) -> None:
        self.read = 0

    async def metrics(self, address: str, /) -> str:
        assert address == "10.0.0.1"
        self.read += 1
        return shown("one", hits=self.read)


def test_stores_are_read_seldom() -> None:
    pages, now = Pages(), [0.0]
    source = KVStorePages(pages, now=lambda: now[0])
    working = {"status": {"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}}
    starting = {"status": {"podIP": "10.0.0.2"}}

    async def look() -> tuple[int, float]:
        observed, again_in_s = await source.add_to(ObservedKVStore(STORE), [working, starting])
        return observed.reading.tiers["dram"].hits, again_in_s

    assert asyncio.run(look()) == (1, 30.0)
    now[0] = 10.0
    assert asyncio.run(look()) == (1, 20.0)
    now[0] = 30.0
    assert asyncio.run(look()) == (2, 30.0)
    source.forget("a", "cache")
    assert asyncio.run(look()) == (3, 30.0)
