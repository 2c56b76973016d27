"""One step for one key: observe, ask the pure core, carry out."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol

from inferplane_operator.cluster.facts import FactSource, gather, sooner
from inferplane_operator.cluster.kinds import KV_STORE, ROUTE, SERVICE
from inferplane_operator.cluster.picture import observe, observe_kv_store, observe_route
from inferplane_operator.cluster.store import Store
from inferplane_operator.cluster.stored import ObjectId, Stored
from inferplane_operator.cluster.work_keys import WorkKey
from inferplane_operator.cluster.writing import Writer
from inferplane_operator.reconcile.values import Observed, ObservedKVStore, ObservedRoute, Outcome


class Core(Protocol):
    """The pure functions."""

    def service(self, observed: Observed, /) -> Outcome: ...

    def kv_store(self, observed: ObservedKVStore, /) -> Outcome: ...

    def route(self, observed: ObservedRoute, /) -> Outcome: ...


class Steps:
    """What `Workers` calls for each key."""

    def __init__(
        self, store: Store, writer: Writer, core: Core, *, facts: Sequence[FactSource], wall: Callable[[], float]
    ) -> None:
        self._store = store
        self._writer = writer
        self._core = core
        self._facts = facts
        self._wall = wall

    async def step(self, key: WorkKey) -> float | None:
        """Return when to look again, or None."""
        stored = self._store.get(ObjectId(key.kind, key.namespace, key.name))
        if stored is None or stored.terminating:
            if stored is None and key.kind == SERVICE.kind:
                for source in self._facts:
                    source.forget(key.namespace, key.name)
            return None
        outcome, again_in_s = await self._decide(stored)
        await self._writer.carry_out(outcome)
        return sooner(outcome.again_in_s, again_in_s)

    async def _decide(self, stored: Stored) -> tuple[Outcome, float | None]:
        now = datetime.fromtimestamp(self._wall(), UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        if stored.id.kind == KV_STORE.kind:
            return self._core.kv_store(observe_kv_store(self._store, stored, now=now)), None
        if stored.id.kind == ROUTE.kind:
            return self._core.route(observe_route(self._store, stored, now=now)), None
        if stored.id.kind != SERVICE.kind:
            return Outcome(), None
        found = await gather(self._facts, observe(self._store, stored, now=now))
        return self._core.service(found.observed), found.again_in_s
