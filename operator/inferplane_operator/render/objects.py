"""The Kubernetes objects of a service: pools, and what each pool becomes.

Problem.  A pool's workers are of several revisions during a rollout, while Services, budgets and scalers must see one
pool.
Idea.  A Deployment (LeaderWorkerSet where a worker spans nodes) per revision, selected by pool and revision; one
headless Service and one PodDisruptionBudget over all of them, selected by pool.  A Deployment's template never changes,
so its own rolling update is never used; were it edited by hand, that would lose no worker.
Invariant.  Every object has exactly one controller reference, which is how routers and garbage collection follow them,
and none has a finalizer.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from inferplane_api.catalogue import WorkerRole
from inferplane_api.v1alpha1 import InferenceService
from inferplane_api.v1alpha1.metadata import API_VERSION
from inferplane_api.v1alpha1.units import format_duration
from inferplane_operator.render import multi_node, names
from inferplane_operator.render.values import Manifest, RenderedPool

SERVICE_REPLICAS: Final = "inferplane.dev/service-replicas"
"""On a pool: the service's own number that was carried out last."""
POOL_KINDS: Final = {WorkerRole.PREFILL: "PrefillPool", WorkerRole.DECODE: "DecodePool"}
UNRENDERED: Final = "0"
"""Revision of a pool that was created but not yet told what to run."""
APPS: Final = "apps/v1"
POLICY: Final = "policy/v1"
RESOURCES: Final = "resource.k8s.io/v1"


def controller_reference(owner: Mapping[str, Any]) -> Manifest:
    """Point to the one object that an object belongs to; it blocks nobody's deletion."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"].get("uid", ""),
        "controller": True,
    }


def common_labels(service: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "inferplane-worker",
        "app.kubernetes.io/instance": service,
        "app.kubernetes.io/part-of": "inferplane",
        "app.kubernetes.io/managed-by": "inferplane-operator",
        names.LABEL_SERVICE: service,
    }


def pool_labels(pool: RenderedPool, service: str) -> dict[str, str]:
    return {**common_labels(service), names.LABEL_POOL: pool.name, names.LABEL_ROLE: pool.role.value}


def pool_seed(pool: RenderedPool, service: Mapping[str, Any]) -> Manifest:
    """Make the pool as it is created: the first number of replicas, and nothing that would stay ours for ever."""
    empty: Manifest = {"metadata": {}, "spec": {}}
    return {
        **_pool_head(pool, service),
        "spec": {
            "service": service["metadata"]["name"],
            "replicas": pool.replicas,
            "revision": UNRENDERED,
            "podTemplate": empty,
        },
    }


def pool_object(
    pool: RenderedPool, service: Mapping[str, Any], *, template: Mapping[str, Any], revision: str, settings: Manifest
) -> Manifest:
    """Make the pool as it is applied; `settings` are fields that come from the service as they are."""
    head = _pool_head(pool, service)
    head["metadata"]["annotations"] = {SERVICE_REPLICAS: str(pool.replicas)}
    spec: Manifest = {
        "service": service["metadata"]["name"],
        "minReplicas": pool.min_replicas,
        "maxReplicas": pool.max_replicas,
        "accelerator": pool.accelerator,
        **settings,
        "revision": revision,
        "podTemplate": dict(template),
    }
    return {**head, "spec": spec}


def pool_settings(service: InferenceService, role: WorkerRole) -> Manifest:
    """Return the fields of a pool that are the service's own."""
    spec = service.spec
    shape = spec.prefill if spec.prefill is not None and role is WorkerRole.PREFILL else spec.decode
    return {
        "parallelism": shape.parallelism.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        "drainTimeout": format_duration(spec.drain_timeout_s),
        "maxSurge": spec.rollout.max_surge,
        "maxUnavailable": spec.rollout.max_unavailable,
    }


def _pool_head(pool: RenderedPool, service: Mapping[str, Any]) -> Manifest:
    metadata = service["metadata"]
    return {
        "apiVersion": API_VERSION,
        "kind": POOL_KINDS[pool.role],
        "metadata": {
            "name": pool.name,
            "namespace": metadata.get("namespace", "default"),
            "labels": pool_labels(pool, metadata["name"]),
            "ownerReferences": [controller_reference(service)],
        },
    }


def workload(pool: Mapping[str, Any], *, revision: str, template: Mapping[str, Any], replicas: int) -> Manifest:
    """Make the Deployment (or LeaderWorkerSet) of one revision of a pool."""
    nodes = multi_node.nodes_of(template)
    name, labels = workload_name(pool, revision), {**_labels_of(pool), names.LABEL_REVISION: revision}
    namespace = pool["metadata"].get("namespace", "default")
    if nodes > 1:
        made = multi_node.leader_worker_set(
            name=name, namespace=namespace, replicas=replicas, labels=labels, template=template
        )
    else:
        made = _deployment(name, namespace, labels, template, replicas, selector=pool_selector(pool, revision))
    made["metadata"]["ownerReferences"] = [controller_reference(pool)]
    return made


def workload_name(pool: Mapping[str, Any], revision: str) -> str:
    return f"{pool['metadata']['name']}-{revision}"


def pool_selector(pool: Mapping[str, Any], revision: str = "") -> dict[str, str]:
    """Return the labels that a pool's Pods have, or those of one revision."""
    labels = {names.LABEL_POOL: str(pool["metadata"]["name"]), names.LABEL_COMPONENT: "worker"}
    return {**labels, names.LABEL_REVISION: revision} if revision else labels


def _deployment(
    name: str,
    namespace: str,
    labels: Mapping[str, str],
    template: Mapping[str, Any],
    replicas: int,
    *,
    selector: Mapping[str, str],
) -> Manifest:
    return {
        "apiVersion": APPS,
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 1,
            "selector": {"matchLabels": dict(selector)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": dict(template),
        },
    }


def headless_service(pool: Mapping[str, Any]) -> Manifest:
    """Name the pool's ready agents in DNS, for people and for fronts that are not our gateway."""
    ports = (
        ("http", names.DEFAULT_HTTP_PORT),
        ("stream", names.DEFAULT_STREAM_PORT),
        ("metrics", names.DEFAULT_METRICS_PORT),
    )
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _owned(pool),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": False,
            "selector": pool_selector(pool),
            "ports": [{"name": name, "port": port, "targetPort": name, "protocol": "TCP"} for name, port in ports],
        },
    }


def disruption_budget(pool: Mapping[str, Any]) -> Manifest:
    """Let one ready worker of a pool be evicted at a time; those that are not ready hold up no node's maintenance."""
    return {
        "apiVersion": POLICY,
        "kind": "PodDisruptionBudget",
        "metadata": _owned(pool),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": pool_selector(pool)},
        },
    }


def claim_template(template: Mapping[str, Any], owner: Mapping[str, Any]) -> Manifest:
    """Give a rendered ResourceClaimTemplate its owner."""
    metadata = {**template["metadata"], "ownerReferences": [controller_reference(owner)]}
    return {**template, "metadata": metadata}


def _labels_of(pool: Mapping[str, Any]) -> dict[str, str]:
    labels: Mapping[str, str] = pool["metadata"].get("labels") or {}
    return {key: value for key, value in labels.items() if key in _INHERITED}


_INHERITED: Final = frozenset({*common_labels(""), names.LABEL_POOL, names.LABEL_ROLE})


def _owned(pool: Mapping[str, Any]) -> Manifest:
    metadata = cast("Mapping[str, Any]", pool["metadata"])
    return {
        "name": metadata["name"],
        "namespace": metadata.get("namespace", "default"),
        "labels": _labels_of(pool),
        "ownerReferences": [controller_reference(pool)],
    }
