"""The KV store's figures under the names of the catalogue: taken over as the store counts them."""

from collections.abc import Mapping
from typing import Any, Final

from inferplane_runtime.metrics.catalogue import kv_store as catalogue
from inferplane_runtime.metrics.instruments import Instruments
from inferplane_runtime.metrics.spec import MetricSpec

_OF_TIER: Final = {
    catalogue.CAPACITY: "capacityBytes",
    catalogue.USED: "usedBytes",
    catalogue.BLOCKS: "blocks",
    catalogue.EVICTIONS: "evictions",
    catalogue.REFUSED: "refused",
}
_COUNTED: Final = {
    catalogue.HITS: "hits",
    catalogue.WRITTEN: "written",
    catalogue.CORRUPT: "corrupt",
    catalogue.FAILURES: "failed",
    catalogue.DROPPED: "dropped",
    catalogue.READ_BYTES: "read_bytes",
}


class StoreMetrics:
    """One store's instruments."""

    def __init__(self, make: Instruments) -> None:
        self._cells = {spec: make.cells(spec) for spec in catalogue.ALL if not spec.buckets}
        self._reads = make.distributions(catalogue.READ_TIME)

    def take(self, store: str, stat: Mapping[str, Any]) -> None:
        """Show what a store said of itself."""
        counters, worth = stat["counters"], stat["worth"]
        self._set(catalogue.LOOKUPS, counters["lookups"], store)
        self._set(catalogue.MISSES, counters["misses"], store)
        self._set(catalogue.FETCHED, worth["fetched"], store)
        self._set(catalogue.DECLINED, worth["declined"], store)
        for tier in stat["tiers"]:
            self._take_tier(store, tier, counters["tiers"][tier["name"]])
        self._take_times(store, stat["engines"])

    def _take_tier(self, store: str, tier: Mapping[str, Any], counted: Mapping[str, Any]) -> None:
        name = str(tier["name"])
        self._set(catalogue.UP, tier.get("reachable", True), store, name)
        for spec, field in _OF_TIER.items():
            if tier.get(field) is not None:
                self._set(spec, tier[field], store, name)
        for spec, field in _COUNTED.items():
            self._set(spec, counted[field], store, name)
        reads = self._reads.labels(store, name)
        reads.counts, reads.sum = [int(count) for count in counted["reads"]], float(counted["read_s"])

    def _take_times(self, store: str, engines: list[Mapping[str, Any]]) -> None:
        computed = [each["tokenS"] * each["blockTokens"] for each in engines if each.get("tokenS") is not None]
        if computed:
            self._set(catalogue.BLOCK_COMPUTE_TIME, sum(computed) / len(computed), store)
        for tier in {tier for each in engines for tier in each["blockS"]}:
            times = [each["blockS"][tier] for each in engines if tier in each["blockS"]]
            self._set(catalogue.BLOCK_TIME, sum(times) / len(times), store, tier)

    def _set(self, spec: MetricSpec, value: float, *labels: str) -> None:
        self._cells[spec].labels(*labels).set(float(value))
