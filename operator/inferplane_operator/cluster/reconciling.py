"""One step for one key: observe, ask the pure core, carry out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Protocol

from inferplane_operator.cluster.errors import RefusedError, TerminatingError
from inferplane_operator.cluster.facts import FactSource, gather, sooner
from inferplane_operator.cluster.kinds import ADAPTER, KV_STORE, ROUTE, SERVICE
from inferplane_operator.cluster.kv_store_pages import KVStorePages
from inferplane_operator.cluster.picture import observe, observe_kv_store, observe_route, pods_with_store
from inferplane_operator.cluster.store import Store
from inferplane_operator.cluster.stored import ObjectId, Stored
from inferplane_operator.cluster.work_keys import ADAPTERS, WorkKey
from inferplane_operator.cluster.writing import Writer
from inferplane_operator.reconcile.service_adapters import orphaned
from inferplane_operator.reconcile.values import Manifest, Observed, ObservedKVStore, ObservedRoute, Outcome


class Core(Protocol):
    """The pure functions."""

    def service(self, observed: Observed, /) -> Outcome: ...

    def kv_store(self, observed: ObservedKVStore, /) -> Outcome: ...

    def route(self, observed: ObservedRoute, /) -> Outcome: ...


class AdapterWork(Protocol):
    """One round of loading and unloading on the workers of a service."""

    async def run(self, observed: Observed, *, commits: Mapping[str, str] | None = None) -> Outcome: ...

    def forget(self, namespace: str, name: str) -> None: ...


class Commits(Protocol):
    async def of_adapters(self, adapters: Sequence[Manifest], key: WorkKey, /) -> Mapping[str, str]:
        """Return the commits that adapters from a hub resolved to, by object name; the key is queued for the rest."""
        ...


@dataclass(frozen=True, slots=True)
class _Refusals:
    """What was said against the last round of an object; told in its status."""

    refused: str = ""
    unrecorded: str = ""


_NONE: Final = _Refusals()
_RECORD_AGAIN_S: Final = 60.0
"""Nobody tells when a quota or a policy is gone."""


class Steps:
    """What `Workers` calls for each key."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        core: Core,
        *,
        facts: Sequence[FactSource],
        adapters: AdapterWork,
        commits: Commits,
        kv_stores: KVStorePages,
        wall: Callable[[], float],
    ) -> None:
        self._store = store
        self._writer = writer
        self._core = core
        self._facts = facts
        self._adapters = adapters
        self._commits = commits
        self._kv_stores = kv_stores
        self._wall = wall
        self._refused: dict[WorkKey, _Refusals] = {}

    async def step(self, key: WorkKey) -> float | None:
        """Return when to look again, or None."""
        if key.kind == ADAPTERS:
            return await self._adapters_of(key)
        stored = self._store.get(ObjectId(key.kind, key.namespace, key.name))
        if stored is None or stored.terminating:
            self._refused.pop(key, None)
            if stored is None and key.kind == SERVICE.kind:
                for source in self._facts:
                    source.forget(key.namespace, key.name)
            if stored is None and key.kind == KV_STORE.kind:
                self._kv_stores.forget(key.namespace, key.name)
            return None
        outcome, again_in_s = await self._decide(stored)
        try:
            unrecorded = await self._writer.carry_out(outcome)
        except TerminatingError:
            raise
        except RefusedError as error:
            await self._say_refused(key, _Refusals(refused=str(error)))
            raise
        await self._say_refused(key, _Refusals(unrecorded=unrecorded))
        return sooner(sooner(outcome.again_in_s, again_in_s), _RECORD_AGAIN_S if unrecorded else None)

    async def _say_refused(self, key: WorkKey, refusals: _Refusals) -> None:
        """Let the status say what was refused just now, or that nothing is any more."""
        if self._refused.get(key, _NONE) == refusals:
            return
        self._refused[key] = refusals
        if refusals == _NONE:
            del self._refused[key]
        stored = self._store.get(ObjectId(key.kind, key.namespace, key.name))
        if stored is not None and key.kind == SERVICE.kind:
            outcome, _ = await self._decide(stored)
            await self._writer.carry_out(Outcome(status=outcome.status, events=outcome.events))

    async def _decide(self, stored: Stored) -> tuple[Outcome, float | None]:
        now = self._now()
        if stored.id.kind == KV_STORE.kind:
            seen = observe_kv_store(self._store, stored, now=now)
            read, again_in_s = await self._kv_stores.add_to(seen, pods_with_store(self._store, stored))
            return self._core.kv_store(read), again_in_s
        if stored.id.kind == ROUTE.kind:
            return self._core.route(observe_route(self._store, stored, now=now)), None
        if stored.id.kind != SERVICE.kind:
            return Outcome(), None
        key = WorkKey(stored.id.kind, stored.id.namespace, stored.id.name)
        said = self._refused.get(key, _NONE)
        picture = observe(self._store, stored, now=now)
        observed = replace(picture, refused=said.refused, unrecorded=said.unrecorded)
        found = await gather(self._facts, observed)
        return self._core.service(found.observed), found.again_in_s

    async def _adapters_of(self, key: WorkKey) -> float | None:
        """Bring adapters to the workers of a service; their weights may be large, so this holds up nothing else."""
        service = self._store.get(ObjectId(SERVICE.kind, key.namespace, key.name))
        if service is None or service.terminating:
            self._adapters.forget(key.namespace, key.name)
            left = [found.manifest() for found in self._store.naming(ADAPTER.kind, key.namespace, key.name)]
            for adapter in left:
                told = orphaned(adapter, now=self._now())
                await self._writer.carry_out(Outcome(status=told.status, events=told.events))
            return None
        observed = observe(self._store, service, now=self._now())
        commits = await self._commits.of_adapters(observed.adapters, key)
        outcome = await self._adapters.run(observed, commits=commits)
        await self._writer.carry_out(outcome)
        return outcome.again_in_s

    def _now(self) -> str:
        return datetime.fromtimestamp(self._wall(), UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
