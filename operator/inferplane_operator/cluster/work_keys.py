"""What is reconciled: one key for each object that has a reconciler, and the keys that a change is about.

A change of an object concerns the service at the end of its chain of controllers, whatever its labels say; and whoever
shares something with it by name (served names, a KVStore, a route's targets).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from inferplane_operator.cluster.kinds import ADAPTER, KV_STORE, POD, POOLS, ROUTE, SERVICE
from inferplane_operator.cluster.store import Store
from inferplane_operator.cluster.stored import ObjectId, Stored

ADAPTERS: Final = "LoRAAdapters"
"""All adapters of the service whose name the key has: they share its workers, so they are one piece of work."""
_POOL_KINDS = frozenset(kind.kind for kind in POOLS)
_LONGEST_CHAIN = 8
"""Pod, StatefulSet, leader Pod, StatefulSet, LeaderWorkerSet, pool: six; more would be a loop."""


@dataclass(frozen=True, slots=True, order=True)
class WorkKey:
    """One object to reconcile."""

    kind: str
    namespace: str
    name: str


def keys_for(store: Store, changed: Stored, before: Stored | None = None) -> Iterator[WorkKey]:
    """Say what to look at after `changed` came, changed (from `before`) or went; its owners are still in the store."""
    id_ = changed.id
    if id_.kind == SERVICE.kind:
        yield _key(id_)
        yield from _stores_used(changed, before)
        if before is None or before.generation != changed.generation:
            yield WorkKey(ADAPTERS, id_.namespace, id_.name)
    elif id_.kind == ADAPTER.kind:
        for service in {one.target for one in (changed, before) if one is not None}:
            yield WorkKey(SERVICE.kind, id_.namespace, service)
            yield WorkKey(ADAPTERS, id_.namespace, service)
    elif id_.kind == KV_STORE.kind:
        yield _key(id_)
        yield from (_key(user.id) for user in store.naming(SERVICE.kind, id_.namespace, id_.name))
    elif id_.kind == ROUTE.kind:
        yield _key(id_)
        if before is None or before.generation != changed.generation:
            yield from (_key(route.id) for route in store.of_kind(ROUTE.kind))
    else:
        yield from _service_above(store, changed)
        if before is not None and before.controller != changed.controller:  # who had it shall have it back
            yield from _service_above(store, before)
    if before is None or before.served_names != changed.served_names:
        yield from _sharing(store, changed, before)


def pool_above(store: Store, stored: Stored) -> Stored | None:
    """Follow controllers by uid up to a pool."""
    here: Stored | None = stored
    for _ in range(_LONGEST_CHAIN):
        if here is None or here.id.kind in _POOL_KINDS:
            return here
        here = store.by_uid(here.controller) if here.controller else None
        if here is not None and here.id.namespace != stored.id.namespace:
            return None
    return None


def _service_above(store: Store, changed: Stored) -> Iterator[WorkKey]:
    pool = pool_above(store, changed)
    if pool is not None:
        yield WorkKey(SERVICE.kind, pool.id.namespace, pool.target)
        if changed.id.kind == POD.kind:
            yield WorkKey(ADAPTERS, pool.id.namespace, pool.target)
        return
    owner = store.by_uid(changed.controller) if changed.controller else None
    if owner is not None and owner.id.kind == SERVICE.kind:  # a ControllerRevision
        yield _key(owner.id)


def _stores_used(changed: Stored, before: Stored | None) -> Iterator[WorkKey]:
    if before is not None and before.target == changed.target:
        return
    for name in {changed.target, before.target if before else ""} - {""}:
        yield WorkKey(KV_STORE.kind, changed.id.namespace, name)


def _sharing(store: Store, changed: Stored, before: Stored | None) -> Iterator[WorkKey]:
    """Services and routes whose names may be won or lost by a change of who claims what."""
    names = {*changed.served_names, *(before.served_names if before else ())}
    if not names:
        return
    for name in names:
        for other in store.claiming(name):
            service = other.id.name if other.id.kind == SERVICE.kind else other.target
            yield WorkKey(SERVICE.kind, other.id.namespace, service)
    yield from (_key(route.id) for route in store.of_kind(ROUTE.kind))


def _key(id_: ObjectId) -> WorkKey:
    return WorkKey(id_.kind, id_.namespace, id_.name)
