"""All that is watched, kept in tables; a planner looks at them when its time has come."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from inferplane_api.claims import Key
from inferplane_planner.cluster import kinds, reading
from inferplane_planner.cluster.records import PoolRecord, RouterRecord, ServiceRecord
from inferplane_runtime.kube.kinds import WatchedKind
from inferplane_runtime.kube.table import Table
from inferplane_runtime.kube.watching import ClusterApi, KindWatch, Patience
from inferplane_runtime.lifecycle import spawn


class Tables:
    """Services and pools of the cluster, routers of the release; `routers` names the Service before them."""

    def __init__(self, *, routers: str, router_port: int) -> None:
        self.changed = asyncio.Event()
        self._router_port = router_port
        self._endpoints = kinds.endpoints_of(routers)
        self.services: Table[ServiceRecord] = Table(reading.read_service, changed=self.changed.set)
        self.prefill_pools: Table[PoolRecord] = Table(reading.read_pool, changed=self.changed.set)
        self.decode_pools: Table[PoolRecord] = Table(reading.read_pool, changed=self.changed.set)
        self.slices: Table[RouterRecord] = Table(reading.read_routers, changed=self.changed.set)

    async def watch(
        self,
        cluster: ClusterApi,
        release: ClusterApi,
        *,
        rng: Random,
        patience: Patience | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Follow both until cancelled; `release` is the namespace that the routers are in."""
        async with asyncio.TaskGroup() as group:
            for kind, table in self._watched():
                watch = KindWatch(
                    kind,
                    table,
                    release if table is self.slices else cluster,
                    failed=lambda: None,  # it is logged, and what is known stays
                    sleep=sleep,
                    rng=rng,
                    patience=patience or Patience(),
                )
                spawn(group, f"watch {kind.plural}", watch.run())

    @property
    def missing(self) -> str:
        """What was not listed yet; "" when everything was."""
        return ", ".join(kind.plural for kind, table in self._watched() if not table.listed)

    def _watched(self) -> list[tuple[WatchedKind, Table[Any]]]:
        return [
            (kinds.INFERENCE_SERVICE, self.services),
            (kinds.PREFILL_POOL, self.prefill_pools),
            (kinds.DECODE_POOL, self.decode_pools),
            (self._endpoints, self.slices),
        ]

    def pool(self, service: ServiceRecord, role: str) -> PoolRecord | None:
        """Return the pool that a service controls."""
        pools = self.prefill_pools if role == "prefill" else self.decode_pools
        return next((pool for pool in pools.rows.values() if pool.service_uid == service.uid), None)

    def service(self, key: Key) -> ServiceRecord | None:
        return next((record for record in self.services.rows.values() if record.key == key), None)

    @property
    def routers(self) -> tuple[str, ...]:
        """host:port of the Router service of each router."""
        found = {address for record in self.slices.rows.values() for address in record.addresses}
        return tuple(sorted(_joined(address, self._router_port) for address in found))


def _joined(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
