"""A service's objects for a cluster without our operator: what `render` prints and `kubectl apply` takes.

There is no pool to own them, so nothing has an owner; what an operator would do (rollouts, drains by choice, history)
is then up to whoever applies them.
"""

from collections.abc import Mapping
from typing import Any

from inferplane_api.v1alpha1 import InferenceService
from inferplane_api.v1alpha1.manifests import dump_resource
from inferplane_operator.render.objects import (
    disruption_budget,
    headless_service,
    pool_object,
    pool_settings,
    workload,
)
from inferplane_operator.render.values import Manifest, RenderedService


def pool_objects(service: InferenceService, rendered: RenderedService) -> tuple[Manifest, ...]:
    """Return the pools with their first replicas, as an operator makes them."""
    owner = dump_resource(service)
    owner["metadata"] = {**owner["metadata"], "namespace": rendered.namespace}
    found: list[Manifest] = []
    for pool in rendered.pools:
        settings = {"replicas": pool.replicas, **pool_settings(service, pool.role)}
        made = pool_object(pool, owner, template=pool.pod_template, revision=rendered.revision, settings=settings)
        found.append(_free(made))
    return tuple(found)


def worker_objects(service: InferenceService, rendered: RenderedService) -> tuple[Manifest, ...]:
    """Return what runs and what leads to it: claim templates, Deployments, Services, disruption budgets."""
    found: list[Manifest] = []
    for pool, made in zip(rendered.pools, pool_objects(service, rendered), strict=True):
        found += [_free(template) for template in pool.claim_templates]
        running = workload(made, revision=rendered.revision, template=pool.pod_template, replicas=pool.replicas)
        found += [_free(each) for each in (running, headless_service(made), disruption_budget(made))]
    return tuple(found)


def _free(made: Mapping[str, Any]) -> Manifest:
    metadata = {key: value for key, value in made["metadata"].items() if key != "ownerReferences"}
    return {**made, "metadata": metadata}
