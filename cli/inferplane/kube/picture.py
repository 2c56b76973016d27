"""Everything that a cluster holds of one service, gathered at one moment.

What somebody may not see is named in `hidden` and left out: a status without events is better than none.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from inferplane.cluster import AbsentKindError, Cluster, Connection, ForbiddenError, Object
from inferplane.errors import InvalidError
from inferplane.kube import kinds
from inferplane.kube.fields import name_of, namespace_of, number, text
from inferplane.kube.kinds import Kind
from inferplane.kube.objects import get, items, owned_by
from inferplane_operator.render.multi_node import NODES_ANNOTATION
from inferplane_operator.render.names import LABEL_SERVICE

_SERVICE_KINDS: Final = (kinds.NETWORK_SERVICES, kinds.DISRUPTION_BUDGETS)


@dataclass(frozen=True, slots=True)
class Picture:
    service: Object
    pools: Sequence[Object] = ()
    workloads: Sequence[Object] = ()
    """Deployments, and LeaderWorkerSets where a worker spans nodes."""
    sets: Sequence[Object] = ()
    """What stands between workloads and Pods."""
    pods: Sequence[Object] = ()
    others: Sequence[Object] = ()
    """Headless Services and PodDisruptionBudgets of the pools."""
    revisions: Sequence[Object] = ()
    """ControllerRevisions of the service, oldest first."""
    adapters: Sequence[Object] = ()
    events: Sequence[Object] = ()
    """Of all these objects, oldest first."""
    hidden: Sequence[str] = ()
    """Kinds that may not be read."""

    @property
    def name(self) -> str:
        return name_of(self.service)

    @property
    def namespace(self) -> str:
        return namespace_of(self.service)

    @property
    def objects(self) -> list[Object]:
        return [
            self.service,
            *self.pools,
            *self.revisions,
            *self.workloads,
            *self.sets,
            *self.pods,
            *self.others,
            *self.adapters,
        ]


def picture(connection: Connection, name: str, *, events: bool = True) -> Picture:
    """Gather a service.  Raises NotFoundError where there is none, and other ClusterErrors."""
    cluster, namespace = connection.cluster, connection.namespace
    service = get(cluster, kinds.SERVICES, namespace, name)
    shy = _Reader(cluster, namespace, [])
    pools = [
        it
        for kind in (kinds.PREFILL_POOLS, kinds.DECODE_POOLS)
        for it in shy.read(kind)
        if text(it, "spec", "service") == name
    ]
    ours = f"{LABEL_SERVICE}={name}"
    revisions = owned_by(shy.read(kinds.CONTROLLER_REVISIONS), [service])
    below = _below(shy, pools, ours, spread=any(NODES_ANNOTATION in str(it) for it in (*pools, *revisions)))
    found = Picture(
        service=service,
        pools=_by_name(pools),
        workloads=_by_name(below.workloads),
        sets=_by_name(below.sets),
        pods=_by_name(below.pods),
        others=_by_name(owned_by([it for kind in _SERVICE_KINDS for it in shy.read(kind, ours)], pools)),
        revisions=sorted(revisions, key=lambda it: number(it, "revision")),
        adapters=[it for it in shy.read(kinds.ADAPTERS) if text(it, "spec", "service") == name],
    )
    return _with_events(found, shy) if events else _hiding(found, shy)


@dataclass(frozen=True, slots=True)
class _Below:
    """What pools own."""

    workloads: Sequence[Object]
    sets: Sequence[Object]
    pods: Sequence[Object]


def _below(shy: "_Reader", pools: Sequence[Object], ours: str, *, spread: bool) -> _Below:
    """Go down from the pools; only where a revision spans nodes are those read that carry such workers out.

    A group's leader is a Pod of the LeaderWorkerSet's StatefulSet, and controls a StatefulSet of the other nodes.
    """
    deployments, pods = owned_by(shy.read(kinds.DEPLOYMENTS, ours), pools), shy.read(kinds.PODS, ours)
    replica_sets = owned_by(shy.read(kinds.REPLICA_SETS, ours), deployments)
    found = _Below(deployments, replica_sets, owned_by(pods, [*replica_sets, *deployments]))
    if not spread:
        return found
    groups, every = owned_by(shy.read(kinds.LEADER_WORKER_SETS), pools), shy.read(kinds.STATEFUL_SETS)
    leading = owned_by(every, groups)
    leaders = owned_by(pods, leading)
    following = owned_by(every, leaders)
    return _Below(
        [*found.workloads, *groups],
        [*found.sets, *leading, *following],
        [*found.pods, *leaders, *owned_by(pods, following)],
    )


def only_service(connection: Connection) -> str:
    """Return the one service of a namespace.  Raises InvalidError where there are none or several."""
    names = [name_of(it) for it in items(connection.cluster, kinds.SERVICES, connection.namespace)]
    if len(names) == 1:
        return names[0]
    listed = ", ".join(names) or "none"
    raise InvalidError(
        f"which service?  Name one of namespace {connection.namespace}: {listed} (SERVICE/POOL for a pool)"
    )


def _with_events(found: Picture, shy: "_Reader") -> Picture:
    uids = {text(it, "metadata", "uid") for it in found.objects} - {""}
    about = [it for it in shy.read(kinds.EVENTS) if text(it, "involvedObject", "uid") in uids]
    return _hiding(found, shy, events=sorted(about, key=last_seen))


def _hiding(found: Picture, shy: "_Reader", events: Sequence[Object] = ()) -> Picture:
    return replace(found, events=events, hidden=tuple(shy.hidden))


def last_seen(event: Object) -> str:
    """Return when an event happened last; events of either API carry one of these."""
    places = (("series", "lastObservedTime"), ("lastTimestamp",), ("eventTime",), ("metadata", "creationTimestamp"))
    return next((stamp for place in places if (stamp := text(event, *place))), "")


def _by_name(found: Iterable[Object]) -> list[Object]:
    return sorted(found, key=name_of)


@dataclass
class _Reader:
    cluster: Cluster
    namespace: str
    hidden: list[str]

    def read(self, kind: Kind, labels: str = "") -> list[Object]:
        try:
            return items(self.cluster, kind, self.namespace, labels=labels)
        except ForbiddenError:
            self.hidden.append(kind.plural)
        except AbsentKindError:
            pass  # so there are none
        return []
