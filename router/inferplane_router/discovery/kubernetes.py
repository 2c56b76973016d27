"""Discovery in a cluster: the objects of a service and their Pods are watched, and a catalogue is computed from them.

Problem.  A catalogue is made of ten kinds of objects that change one by one, in bursts, in no order, while the router
answers requests in the same thread.
Idea.  A table a kind is kept by its own watch; whatever changes, a moment later the whole catalogue is computed anew by
a pure function and handed over if it differs.  Nothing is patched, so nothing can be missed.
Trade-off.  A change is worth a look at every Pod; a burst is one look.
Invariants.  Nothing is handed over before every kind was listed once: half a picture has no workers.  While the API
server cannot be read, the last catalogue stays.  Generations rise.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

import structlog

from inferplane_api.catalogue import Catalogue
from inferplane_router.discovery import kinds, reading
from inferplane_router.discovery.composing import Composed, compose
from inferplane_router.discovery.records import Owned, Picture
from inferplane_runtime.kube.kinds import WatchedKind
from inferplane_runtime.kube.table import Table
from inferplane_runtime.kube.watching import ClusterApi, KindWatch, Patience, Rows
from inferplane_runtime.lifecycle import spawn

_OWNERS: Final = (
    kinds.PREFILL_POOL,
    kinds.DECODE_POOL,
    kinds.DEPLOYMENT,
    kinds.REPLICA_SET,
    kinds.STATEFUL_SET,
    kinds.LEADER_WORKER_SET,
)
_log = structlog.get_logger("inferplane.discovery")


@dataclass(frozen=True, slots=True)
class Heard:
    """Who is told what."""

    apply: Callable[[Catalogue], None]
    failed: Callable[[], None]
    """Something could not be read."""
    ignored: Callable[[Mapping[str, int]], None]
    """What was found and left out: how much, by reason."""


class ClusterCatalogue:
    """The catalogue of a cluster."""

    def __init__(
        self,
        api: ClusterApi,
        heard: Heard,
        *,
        rng: Random,
        patience: Patience | None = None,
        gather_s: float = 0.05,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._heard = heard
        self._rng = rng
        self._patience = patience or Patience()
        self._gather_s = gather_s
        """How long changes are gathered before the catalogue is computed."""
        self._sleep = sleep
        self._news = asyncio.Event()
        changed = self._news.set
        self.services = Table(reading.read_service, changed=changed)
        self.adapters = Table(reading.read_adapter, changed=changed)
        self.routes = Table(reading.read_route, changed=changed)
        self.pods = Table(reading.read_pod, changed=changed)
        self.owners = {kind.kind: Table(partial(_read_owned, kind.kind), changed=changed) for kind in _OWNERS}
        self._current: Composed | None = None
        self._generation = 0

    async def watch(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind, table in self._tables():
                watch = KindWatch(
                    kind,
                    table,
                    self._api,
                    failed=self._heard.failed,
                    sleep=self._sleep,
                    rng=self._rng,
                    patience=self._patience,
                )
                spawn(group, f"watch {kind.plural}", watch.run())
            spawn(group, "compose the catalogue", self._follow())

    def picture(self) -> Picture:
        """Return everything known now; it changes with the tables."""
        return Picture(
            services=self.services.rows,
            adapters=self.adapters.rows,
            routes=self.routes.rows,
            owners={kind: table.rows for kind, table in self.owners.items()},
            pods=self.pods.rows,
        )

    # Inside.

    def _tables(self) -> list[tuple[WatchedKind, Rows]]:
        return [
            (kinds.INFERENCE_SERVICE, self.services),
            (kinds.LORA_ADAPTER, self.adapters),
            (kinds.MODEL_ROUTE, self.routes),
            (kinds.POD, self.pods),
            *((kind, self.owners[kind.kind]) for kind in _OWNERS),
        ]

    @property
    def _complete(self) -> bool:
        return all(table.listed for _, table in self._tables())

    async def _follow(self) -> None:
        while True:
            await self._news.wait()
            if self._current is not None:
                await self._sleep(self._gather_s)
            self._news.clear()
            if self._complete:
                self._compose_safely()

    def _compose_safely(self) -> None:
        try:
            self._compose()
        except Exception:  # noqa: BLE001 - a task's boundary: what a cluster holds must not end the router
            _log.exception("no catalogue can be made of this; the last one stays")
            self._heard.failed()

    def _compose(self) -> None:
        before = self._current
        found = compose(self.picture(), before)
        self._current = found
        if before is None or found.ignored != before.ignored:
            self._heard.ignored({str(reason): count for reason, count in found.ignored.items()})
        for name, loser in sorted(found.lost - (before.lost if before is not None else frozenset())):
            _log.warning("a name is taken", name=name, namespace=loser.namespace, claimed_by=loser.name)
        if before is None or _content(found) != _content(before):
            self._generation += 1
            self._heard.apply(
                Catalogue(
                    generation=self._generation, services=found.services, routes=found.routes, workers=found.workers
                )
            )


def _content(composed: Composed) -> tuple[object, ...]:
    return composed.services, composed.routes, composed.workers


def _read_owned(kind: str, raw: reading.Raw, _before: Owned | None) -> Owned:
    return reading.read_owned(kind, raw)
