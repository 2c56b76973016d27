"""The store's view of one service: top-down by controller uid, so that nothing joins by label alone."""

from collections.abc import Iterator

from inferplane_api.claims import Claim, Key, holders
from inferplane_operator.cluster.kinds import (
    ADAPTER,
    CONTROLLER_REVISION,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    K8S_SERVICE,
    KV_STORE,
    LEADER_WORKER_SET,
    POD,
    POOLS,
    PROMETHEUS_RULE,
    ROUTE,
    SERVICE,
)
from inferplane_operator.cluster.store import Store
from inferplane_operator.cluster.stored import ObjectId, Stored
from inferplane_operator.reconcile.values import Manifest, Observed, ObservedKVStore, ObservedRoute, ServedNameClaim

_WORKLOADS = frozenset({DEPLOYMENT.kind, LEADER_WORKER_SET.kind})
_HISTORY = CONTROLLER_REVISION.kind
_OTHERS = frozenset({K8S_SERVICE.kind, DISRUPTION_BUDGET.kind})


def observe(store: Store, service: Stored, *, now: str) -> Observed:
    """Put together what belongs to a service; `now` is RFC 3339."""
    namespace, name = service.id.namespace, service.id.name
    pools = [pool for kind in POOLS for pool in store.naming(kind.kind, namespace, name)]
    children = [child for pool in pools for child in store.controlled_by(pool.uid)]
    workloads = [child for child in children if child.id.kind in _WORKLOADS]
    kv_store = store.get(ObjectId(KV_STORE.kind, namespace, service.target)) if service.target else None
    return Observed(
        service=service.manifest(),
        pools=[pool.manifest() for pool in pools],
        deployments=[workload.manifest() for workload in workloads],
        pods=[pod.manifest() for workload in workloads for pod in _pods_below(store, workload)],
        others=[child.manifest() for child in children if child.id.kind in _OTHERS],
        adapters=[adapter.manifest() for adapter in store.naming(ADAPTER.kind, namespace, name)],
        kv_store=kv_store.manifest() if kv_store else None,
        lost_names=tuple(lost_names(store, service)),
        scaled_by={pool.id.name: pool.owners.scaled_by for pool in pools if pool.owners.scaled_by},
        now=now,
        takes_rules=PROMETHEUS_RULE.kind in store.watched,
        histories=[child.manifest() for child in store.controlled_by(service.uid) if child.id.kind == _HISTORY],
    )


def observe_kv_store(store: Store, kv_store: Stored, *, now: str) -> ObservedKVStore:
    services = store.of_kind(SERVICE.kind, kv_store.id.namespace)
    return ObservedKVStore(store=kv_store.manifest(), services=[service.manifest() for service in services], now=now)


def pods_with_store(store: Store, kv_store: Stored) -> list[Manifest]:
    """Return the Pods of all services that name a KVStore."""
    services = store.of_kind(SERVICE.kind, kv_store.id.namespace)
    users = [service for service in services if service.target == kv_store.id.name]
    return [pod for service in users for pod in observe(store, service, now="").pods]


def observe_route(store: Store, route: Stored, *, now: str) -> ObservedRoute:
    claims = [claim for name in store.claimed_names() for claim in _claims(store, name)]
    others = [other.manifest() for other in store.of_kind(ROUTE.kind) if other.id != route.id]
    return ObservedRoute(route=route.manifest(), holders=holders(claims), others=others, now=now)


def lost_names(store: Store, service: Stored) -> Iterator[ServedNameClaim]:
    """Name what this service claims and somebody else claimed earlier."""
    mine = Key(service.id.namespace, service.id.name)
    names = {*service.served_names}
    for adapter in store.naming(ADAPTER.kind, service.id.namespace, service.id.name):
        names.update(adapter.served_names)
    for name in sorted(names):
        holder = holders(_claims(store, name)).get(name, mine)
        if holder != mine:
            yield ServedNameClaim(name, holder)


def _claims(store: Store, name: str) -> Iterator[Claim]:
    for claimant in store.claiming(name):
        if claimant.id.kind == SERVICE.kind:
            yield Claim(name, Key(claimant.id.namespace, claimant.id.name), claimant.created)
            continue
        service = store.get(ObjectId(SERVICE.kind, claimant.id.namespace, claimant.target))
        if service is not None:
            since = max(service.created, claimant.created) if service.created and claimant.created else ""
            yield Claim(name, Key(service.id.namespace, service.id.name), since)


def _pods_below(store: Store, workload: Stored) -> Iterator[Stored]:
    """Descend through ReplicaSets, StatefulSets and leader Pods."""
    for child in store.controlled_by(workload.uid):
        if child.id.kind == POD.kind:
            yield child
        yield from _pods_below(store, child)
