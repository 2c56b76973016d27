"""What KV stores say of themselves, read from the agents beside them.

Problem: a store runs in every worker's Pod, and a KVStore's status speaks of all of them.
Idea: agents show their store's figures among their metrics; a few Pods are read and their figures added up, by the name
of the store, so that one which several agents follow counts once.
Trade-off: at most `_SAMPLE` Pods are read, so bytes and blocks of a larger fleet are those of the sample.
Invariant: a KVStore is read once in `_EVERY_S`, however often something else changes: each status written is a change.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from prometheus_client.parser import text_string_to_metric_families

from inferplane_operator.cluster.canary_counters import PageReader
from inferplane_operator.cluster.pods import address_of, is_ready
from inferplane_operator.reconcile.values import Manifest, ObservedKVStore, StoreReading, TierReading
from inferplane_runtime.metrics.catalogue import kv_store as catalogue

_EVERY_S = 30.0
_SAMPLE = 32
_Figures = dict[tuple[str, str, str], float]
"""By metric, store and tier."""


@dataclass(slots=True)
class KVStorePages:
    reader: PageReader
    now: Callable[[], float]
    _read: dict[tuple[str, str], tuple[float, StoreReading]] = field(
        default_factory=dict[tuple[str, str], tuple[float, StoreReading]]
    )

    async def add_to(self, observed: ObservedKVStore, pods: Sequence[Manifest]) -> tuple[ObservedKVStore, float]:
        """Return the observation with what the stores say, and when to look again."""
        metadata, now = observed.store["metadata"], self.now()
        key = (str(metadata.get("namespace", "")), str(metadata["name"]))
        read_at, reading = self._read.get(key, (now - _EVERY_S, StoreReading()))
        if now - read_at >= _EVERY_S:
            asked = [pod for pod in pods if is_ready(pod) and address_of(pod)][:_SAMPLE]
            pages = await asyncio.gather(*(self.reader.metrics(address_of(pod)) for pod in asked))
            read_at, reading = now, replace(reading_of(pages), asked=len(asked))
            self._read[key] = (read_at, reading)
        return replace(observed, reading=reading), _EVERY_S - (now - read_at)

    def forget(self, namespace: str, name: str) -> None:
        self._read.pop((namespace, name), None)


def reading_of(pages: Iterable[str]) -> StoreReading:
    """Add up what stores say on agents' pages."""
    figures: _Figures = {}
    for page in pages:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                store = sample.labels.get("store")
                if store is not None and sample.name in _WANTED:
                    name = (sample.name, store, sample.labels.get("tier", ""))
                    figures[name] = max(figures.get(name, 0.0), sample.value)
    tiers = sorted({tier for _, _, tier in figures if tier})
    return StoreReading(
        answering=len({store for _, store, _ in figures}),
        lookups=_sum(figures, catalogue.LOOKUPS.name),
        misses=_sum(figures, catalogue.MISSES.name),
        fetched=_sum(figures, catalogue.FETCHED.name),
        declined=_sum(figures, catalogue.DECLINED.name),
        tiers={tier: _tier(figures, tier) for tier in tiers},
    )


_WANTED = frozenset(
    spec.name
    for spec in (
        catalogue.LOOKUPS,
        catalogue.MISSES,
        catalogue.FETCHED,
        catalogue.DECLINED,
        catalogue.UP,
        catalogue.USED,
        catalogue.BLOCKS,
        catalogue.HITS,
        catalogue.CORRUPT,
    )
)


def _tier(figures: _Figures, tier: str) -> TierReading:
    up = [value for (name, _, of), value in figures.items() if name == catalogue.UP.name and of == tier]
    return TierReading(
        used_bytes=_sum(figures, catalogue.USED.name, tier),
        blocks=_sum(figures, catalogue.BLOCKS.name, tier),
        hits=_sum(figures, catalogue.HITS.name, tier),
        corrupt=_sum(figures, catalogue.CORRUPT.name, tier),
        down=sum(value == 0 for value in up),
    )


def _sum(figures: _Figures, metric: str, tier: str = "") -> int:
    return int(sum(value for (name, _, of), value in figures.items() if name == metric and of == tier))
