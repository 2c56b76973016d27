"""What would happen to a service, by the operator's own foresight, with what it needs gathered from the cluster."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from inferplane.cluster import Cluster, ClusterError, Connection, Object, Question
from inferplane.kube import kinds
from inferplane.kube.facts import read_components
from inferplane.kube.fields import label, name_of, text
from inferplane.kube.objects import find, readable_items
from inferplane.kube.picture import Picture, picture
from inferplane.kube.preview import Preview
from inferplane.kube.release_classes import release_accelerators
from inferplane_api.claims import Claim, adapter_claim, claims_of, holders
from inferplane_api.claims import Key as Holder
from inferplane_api.v1alpha1 import InferenceService, LoRAAdapter
from inferplane_api.v1alpha1.stored import StoredObjectError, read_stored
from inferplane_operator.reconcile.change import Change, change
from inferplane_operator.reconcile.scene import Settings
from inferplane_operator.reconcile.values import Key, Observed, ServedNameClaim
from inferplane_operator.render import RenderOptions, multi_node
from inferplane_operator.render.accelerators import Accelerators
from inferplane_operator.render.names import LABEL_COMPONENT

_METRICS_PORT: Final = 9090
_BLOCKS: Final = 'inferplane_agent_kv_blocks{plane="device"}'


def foresee(connection: Connection, service: Preview, adapters: Sequence[Preview], now: float) -> Change:
    """Return what would happen if service and adapters became as previewed.  Raises ClusterError."""
    found = _picture(connection, service)
    observed = Observed(
        service=found.service,
        pools=found.pools,
        deployments=found.workloads,
        pods=found.pods,
        others=found.others,
        adapters=_adapters(found, adapters),
        kv_store=_kv_store(connection, service.after),
        model_revision=text(found.service, "status", "modelRevision"),
        now=datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
        histories=found.revisions,
    )
    observed = replace(observed, lost_names=_lost_names(connection.cluster, service.after, observed.adapters))
    settings = Settings(RenderOptions(accelerators=_accelerators(connection)))
    foreseen = change(observed, service.after, settings, cached_blocks=_cached_blocks(connection, found.pods))
    current = text(found.service, "status", "revision")
    new = tuple(text(it.after, "spec", "servedName") or name_of(it.after) for it in adapters if it.before is None)
    gained = tuple(dict.fromkeys([*foreseen.names_gained, *new]))
    return replace(foreseen, old_revision=current or foreseen.old_revision, names_gained=gained)


def _accelerators(connection: Connection) -> Accelerators:
    return release_accelerators(connection.cluster, read_components(connection.cluster, connection.namespace))


def _picture(connection: Connection, service: Preview) -> Picture:
    if service.before is not None:
        return picture(connection, name_of(service.before), events=False)
    bare = {key: value for key, value in service.after["metadata"].items() if key != "uid"}
    return Picture(service={**service.after, "metadata": bare})


def _adapters(found: Picture, previews: Sequence[Preview]) -> list[Object]:
    """Return the service's adapters as they would be."""
    previewed = {name_of(it.after): it.after for it in previews if text(it.after, "spec", "service") == found.name}
    return [*(it for it in found.adapters if name_of(it) not in previewed), *previewed.values()]


def _kv_store(connection: Connection, service: Object) -> Object | None:
    name = text(service, "spec", "kvStore", "name")
    return find(connection.cluster, kinds.KV_STORES, connection.namespace, name) if name else None


def _lost_names(cluster: Cluster, service: Object, adapters: Sequence[Object]) -> tuple[ServedNameClaim, ...]:
    """Return names that an older service holds, as far as other services may be seen."""
    others = readable_items(cluster, kinds.SERVICES)
    mine = Holder(text(service, "metadata", "namespace"), name_of(service))
    claims = [*_claims(service), *(claim for it in others if _holder(it) != mine for claim in _claims(it))]
    created = text(service, "metadata", "creationTimestamp")
    for it in adapters:
        with suppress(StoredObjectError):
            adapter = read_stored(LoRAAdapter, it)
            claims.append(adapter_claim(adapter.served_name, mine, created, text(it, "metadata", "creationTimestamp")))
    held = holders(claims)
    wanted = dict.fromkeys(claim.name for claim in claims if claim.service == mine)
    lost = {name: held[name] for name in wanted if held[name] != mine}
    return tuple(ServedNameClaim(name, Key(holder.namespace, holder.name)) for name, holder in lost.items())


def _holder(service: Object) -> Holder:
    return Holder(text(service, "metadata", "namespace"), name_of(service))


def _claims(service: Object) -> tuple[Claim, ...]:
    try:
        return claims_of(read_stored(InferenceService, service))
    except StoredObjectError:
        return ()


def _cached_blocks(connection: Connection, pods: Sequence[Object]) -> Mapping[str, int] | None:
    """Ask each agent, through the API server, how many blocks its engine holds; None where not all can be asked."""
    counts: dict[str, int] = {}
    for pod in pods:
        if label(pod, LABEL_COMPONENT) == multi_node.COMPONENT:
            continue  # its leader's agent speaks for it
        try:
            counts[name_of(pod)] = _blocks(connection, name_of(pod))
        except ClusterError:
            return None
    return counts


def _blocks(connection: Connection, pod: str) -> int:
    path = f"{kinds.PODS.path(connection.namespace, f'{pod}:{_METRICS_PORT}')}/proxy/metrics"
    for line in connection.cluster.lines(Question(path)):
        if line.startswith(_BLOCKS):
            return int(float(line.rpartition(" ")[2]))
    return 0
