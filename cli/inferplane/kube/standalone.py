"""A rendered service as objects that any cluster takes, without the operator: what `render` prints.  Pure.

They are made by the operator's own functions, so that what somebody reads here is what would run.  What only an
operator can fill in is left out: owners, and the model's commit, which stays as the file has it.
"""

from collections.abc import Mapping
from typing import Any, Final

from inferplane.manifest import Manifest
from inferplane.rendering import rendered
from inferplane_api.catalogue import WorkerRole
from inferplane_api.v1alpha1.manifests import dump_resource
from inferplane_operator.reconcile.pool import pool_writes
from inferplane_operator.reconcile.scene import Settings, set_scene
from inferplane_operator.reconcile.values import Apply, Observed
from inferplane_operator.render import RenderedService, RenderOptions
from inferplane_operator.render.objects import POOL_KINDS, disruption_budget, headless_service, pool_labels, workload
from inferplane_operator.render.values import RenderedPool

_MANAGED_BY: Final = "app.kubernetes.io/managed-by"

Object = dict[str, Any]


def plain_objects(manifest: Manifest, options: RenderOptions, *, model_revision: str) -> list[Object]:
    """Return claim templates, Deployments, Services and budgets, in the order in which they are needed.

    Raises InvalidError.
    """
    found = rendered(manifest, options, model_revision=model_revision)
    return [_plain(made, manifest) for pool in found.pools for made in _of_pool(found, pool)]


def _of_pool(found: RenderedService, pool: RenderedPool) -> list[Object]:
    owner = _pool_in_mind(found, pool)
    made = workload(owner, revision=pool.revision, template=pool.pod_template, replicas=pool.replicas)
    return [*pool.claim_templates, headless_service(owner), disruption_budget(owner), made]


def _pool_in_mind(found: RenderedService, pool: RenderedPool) -> Mapping[str, Any]:
    labels = pool_labels(pool, found.name)
    metadata = {"name": pool.name, "namespace": found.namespace, "labels": labels}
    return {"apiVersion": "inferplane.dev/v1alpha1", "kind": POOL_KINDS[pool.role], "metadata": metadata}


def _plain(made: Object, manifest: Manifest) -> Object:
    """Leave out owners, who makes it, and a namespace that nobody named: `kubectl apply -n` then says where."""
    left = {"ownerReferences"} if manifest.names_namespace else {"ownerReferences", "namespace"}
    metadata = {key: value for key, value in made["metadata"].items() if key not in left}
    labels = {key: value for key, value in metadata.get("labels", {}).items() if key != _MANAGED_BY}
    return {**made, "metadata": {**metadata, "labels": labels} if labels else metadata}


def pool_objects(manifest: Manifest, options: RenderOptions, *, model_revision: str) -> list[Object]:
    """Return the pools as the operator creates them, with their first number of replicas.  Raises InvalidError."""
    found = rendered(manifest, options, model_revision=model_revision)
    observed = Observed(
        service=next(it for it in manifest.documents if it["kind"] == manifest.service.kind),
        adapters=[it for it in manifest.documents if it["kind"] == "LoRAAdapter"],
        kv_store=None if manifest.store is None else dump_resource(manifest.store),
        model_revision=model_revision,
    )
    scene = set_scene(observed, Settings(options=options))
    replicas = {pool.name: pool.replicas for pool in found.pools}
    kinds = {POOL_KINDS[role] for role in WorkerRole}
    made = [write.manifest for write in pool_writes(scene) if isinstance(write, Apply)]
    return [
        _plain({**it, "spec": {**it["spec"], "replicas": replicas[it["metadata"]["name"]]}}, manifest)
        for it in made
        if it["kind"] in kinds
    ]
