"""What one file needs of a cluster, and whether it is there.

A Pod that lacks a device, a Secret or a claim is Pending or stuck minutes after the apply; here it is said before.
Names of Secrets are looked up, their contents are never read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from inferplane.cluster import APPLY_PATCH, AbsentKindError, Cluster, ClusterError, ForbiddenError, Object, RefusedError
from inferplane.kube import kinds
from inferplane.kube.checks import Check, Level
from inferplane.kube.fields import containers, part, parts, text
from inferplane.kube.kinds import Kind
from inferplane.kube.objects import change, exists
from inferplane.manifest import Manifest
from inferplane_api.schema.definitions import NAMES
from inferplane_api.v1alpha1.metadata import API_VERSION
from inferplane_api.v1alpha1.units import parse_quantity
from inferplane_operator.render import RenderedPool, RenderedService

_DEVICE_SIGN: Final = "/"
"""A resource with a domain is a device; cpu, memory and storage have none."""
_CLAIM_TEMPLATES: Final = Kind("resource.k8s.io/v1", "resourceclaimtemplates")
_RESOURCE_CLAIMS: Final = Kind("resource.k8s.io/v1", "resourceclaims")


@dataclass(frozen=True, slots=True, order=True)
class Need:
    """An object that must exist before a Pod can start."""

    field: str
    what: str
    kind: Kind
    name: str


def check_file(
    cluster: Cluster, manifest: Manifest, rendered: RenderedService, nodes: Sequence[Object] | None, namespace: str
) -> list[Check]:
    found = [_accepted(cluster, document, namespace) for document in manifest.written]
    found += _devices(rendered, nodes)
    for need in sorted(set(_needs(rendered, manifest)), key=lambda it: (it.field, it.name)):
        found.append(_present(cluster, need, namespace))
    return found


def _accepted(cluster: Cluster, document: Mapping[str, Any], namespace: str) -> Check:
    """Let the API server look at it without storing anything."""
    name = f"{document['kind']} {document['metadata']['name']}"
    kind = Kind(API_VERSION, NAMES[document["kind"]].plural)
    path = kind.path(document["metadata"].get("namespace") or namespace, document["metadata"]["name"])
    try:
        change(cluster, path, document, APPLY_PATCH, dry_run=True)
    except RefusedError as error:
        return Check(name, Level.LACKING, error.message, "correct the file")
    except AbsentKindError:
        return Check(name, Level.LACKING, "this cluster does not know the kind", "install or upgrade the chart")
    except ClusterError as error:
        if "conflict" in error.message:  # another tool owns fields: an apply would say so, the file itself is right
            return Check(name, Level.OK, "the API server accepts it; another tool owns some of its fields")
        return Check(name, Level.OPTIONAL, error.message, "ask somebody who may create it")
    return Check(name, Level.OK, "the API server accepts it")


def _devices(rendered: RenderedService, nodes: Sequence[Object] | None) -> Iterator[Check]:
    for pool in rendered.pools:
        for resource, count in sorted(_limits(pool).items()):
            yield _device(pool, resource, count, nodes)


def _device(pool: RenderedPool, resource: str, count: int, nodes: Sequence[Object] | None) -> Check:
    name = f"{pool.name}: {count} {resource}"
    if nodes is None:
        return Check(name, Level.OPTIONAL, "nodes may not be read here", "ask somebody who may, with the same command")
    most = max((_allocatable(node, resource) for node in nodes), default=0)
    if most >= count:
        return Check(name, Level.OK, f"a node has {most}")
    field = f"spec.{pool.role}.parallelism" if most else f"spec.{pool.role}.accelerator"
    detail = f"no node has more than {most}" if most else "no node has that resource"
    fix = f"lower {field}, or add nodes" if most else f"correct {field}, install the device plugin, or add nodes"
    return Check(name, Level.LACKING, detail, fix)


def _allocatable(node: Object, resource: str) -> int:
    amount = text(node, "status", "allocatable", resource)
    return int(amount) if amount.isdecimal() else 0


def _limits(pool: RenderedPool) -> dict[str, int]:
    """Sum up the devices of one Pod's containers."""
    wanted: dict[str, int] = {}
    for container in parts(pool.pod_template, "spec", "containers"):
        for resource, amount in part(container, "resources", "limits").items():
            if _DEVICE_SIGN in resource and not resource.startswith("hugepages"):
                wanted[resource] = wanted.get(resource, 0) + int(parse_quantity(str(amount)))
    return {resource: count for resource, count in wanted.items() if count}


def _needs(rendered: RenderedService, manifest: Manifest) -> Iterator[Need]:
    store = manifest.service.spec.kv_store
    here = {(it.kind, it.metadata.name) for it in manifest.resources}
    if store is not None and ("KVStore", store.name) not in here:
        yield Need("spec.kvStore.name", "KVStore", kinds.KV_STORES, store.name)
    for pool in rendered.pools:
        yield from _pod_needs(pool.pod_template["spec"])


def _pod_needs(spec: Mapping[str, Any]) -> Iterator[Need]:
    for pull in parts(spec, "imagePullSecrets"):
        yield Need("imagePullSecrets", "Secret", kinds.SECRETS, str(pull["name"]))
    for volume in parts(spec, "volumes"):
        yield from _volume_needs(volume)
    for container in containers(spec):
        for variable in parts(container, "env"):
            secret = part(variable, "valueFrom", "secretKeyRef")
            if secret and not secret.get("optional"):
                yield Need(f"{container['name']}: env {variable['name']}", "Secret", kinds.SECRETS, str(secret["name"]))
    for claim in parts(spec, "resourceClaims"):
        if template := claim.get("resourceClaimTemplateName"):
            yield Need("resources.claims", "ResourceClaimTemplate", _CLAIM_TEMPLATES, str(template))
        if own := claim.get("resourceClaimName"):
            yield Need("resources.claims", "ResourceClaim", _RESOURCE_CLAIMS, str(own))
    if runtime := spec.get("runtimeClassName"):
        yield Need("runtimeClassName", "RuntimeClass", kinds.RUNTIME_CLASSES, str(runtime))


def _volume_needs(volume: Mapping[str, Any]) -> Iterator[Need]:
    if claim := volume.get("persistentVolumeClaim"):
        yield Need(f"volume {volume['name']}", "PersistentVolumeClaim", kinds.CLAIMS, str(claim["claimName"]))
    secret = volume.get("secret")
    if secret and not secret.get("optional"):
        yield Need(f"volume {volume['name']}", "Secret", kinds.SECRETS, str(secret["secretName"]))


def _present(cluster: Cluster, need: Need, namespace: str) -> Check:
    name = f"{need.what} {need.name}"
    try:
        there = exists(cluster, need.kind, namespace, need.name)
    except ForbiddenError:
        return Check(name, Level.OPTIONAL, "may not be looked up here", "ask somebody who may, with the same command")
    if there:
        return Check(name, Level.OK, f"is there ({need.field})")
    where = f"in namespace {namespace}" if need.kind.namespaced else "in this cluster"
    return Check(name, Level.LACKING, f"is not there {where} ({need.field})", "create it, or correct the file")
