"""The writes for the pools of a service: pool objects, Deployments as planned, Service, budget, deletions."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from inferplane_operator.reconcile.reading import annotations
from inferplane_operator.reconcile.scene import Scene
from inferplane_operator.reconcile.statuses import reference_to
from inferplane_operator.reconcile.targets import role_of
from inferplane_operator.reconcile.values import Apply, Create, Delete, Manifest, Merge, Reference, Write
from inferplane_operator.reconcile.workers import Workload, victims
from inferplane_operator.render.avoidance import aside_workload
from inferplane_operator.render.objects import (
    claim_template,
    disruption_budget,
    headless_service,
    pool_object,
    pool_seed,
    pool_settings,
    workload,
)
from inferplane_operator.render.values import RenderedPool

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_FIRST_TO_GO: Final = "-1000"


def pool_writes(scene: Scene) -> list[Write]:
    """Make the wanted pools, and tell each of them what to run."""
    writes: list[Write] = []
    for role, template in scene.target.templates.items():
        rendered, existing = scene.rendered_pool(role), scene.pool(role)
        if rendered is None:
            continue  # of an earlier revision that is held on to; it stays as it is
        if existing is None:
            writes.append(Create(pool_seed(rendered, scene.raw)))
        else:
            writes += _scaled(existing, scene)
        writes.append(Apply(_applied(scene, rendered, template)))
        if rendered.revision == scene.target.revision:
            # Owned by the service: a claim template is needed before the first Pod, and while any Pod may start.
            writes += [Apply(claim_template(made, scene.raw)) for made in rendered.claim_templates]
    return writes


def _scaled(pool: Manifest, scene: Scene) -> list[Write]:
    """Carry out a change of the service's own number, once; the pool then remembers it."""
    moved = scene.moved_replicas(pool)
    return [] if moved is None else [Merge(reference_to(pool), {"spec": {"replicas": moved}}, "scale")]


def _applied(scene: Scene, rendered: RenderedPool, template: Mapping[str, Any]) -> Manifest:
    settings = pool_settings(scene.service, rendered.role)
    return pool_object(rendered, scene.raw, template=template, revision=scene.target.revision, settings=settings)


def worker_writes(scene: Scene) -> list[Write]:
    """Give each pool its Deployments, its Service and its budget, once every pool is there."""
    if scene.lacks_pools:
        return []
    writes: list[Write] = []
    for pool in scene.pools:
        writes += _workload_writes(scene, pool)
        if role_of(pool) in scene.target.templates:
            writes += [Apply(headless_service(pool)), Apply(disruption_budget(pool))]
        elif _is_empty(scene, pool):
            writes.append(Delete(reference_to(pool)))
    return writes


def _workload_writes(scene: Scene, pool: Manifest) -> list[Write]:
    name, writes = str(pool["metadata"]["name"]), list[Write]()
    for (of_pool, revision), replicas in scene.plan.replicas.items():
        if of_pool != name:
            continue
        if _is_over(scene, pool, revision, replicas):
            writes += [Delete(reference_to(each.found)) for each in _workloads(scene, pool, revision)]
        elif template := scene.template(pool, revision):
            aside = _aside(scene, pool, revision, replicas)
            writes += _costs(scene, pool, revision, replicas - aside)
            writes.append(Apply(workload(pool, revision=revision, template=template, replicas=replicas - aside)))
            writes += _aside_writes(scene, pool, revision, aside)
    return writes


def _workloads(scene: Scene, pool: Manifest, revision: str) -> list[Workload]:
    both = (scene.workload(pool, revision, aside=aside) for aside in (False, True))
    return [each for each in both if each is not None]


def _aside(scene: Scene, pool: Manifest, revision: str, replicas: int) -> int:
    """Return how many workers stay away from nodes that fail: those that did before, and those that fail there now."""
    known = scene.workload(pool, revision, aside=True)
    before = known.replicas if known is not None else 0
    if revision != scene.target.revision:
        return min(replicas, before)
    stuck = [
        worker
        for worker in scene.of_pool(pool)
        if worker.failing and not worker.aside and worker.revision == revision and worker.node in scene.failing_nodes
    ]
    return min(replicas, before + len(stuck))


def _aside_writes(scene: Scene, pool: Manifest, revision: str, replicas: int) -> list[Write]:
    """Keep the second workload's template as it was made: another one would restart its good workers."""
    known = scene.workload(pool, revision, aside=True)
    if known is None and not replicas:
        return []
    template, nodes = scene.template(pool, revision), scene.failing_nodes
    if known is not None:
        template, nodes = known.template, ()
    return [Apply(aside_workload(pool, revision=revision, template=template, replicas=replicas, nodes=nodes))]


def _is_over(scene: Scene, pool: Manifest, revision: str, replicas: int) -> bool:
    """Whether an old revision's workloads can go: nothing is left of it, and nobody may want to go back to it."""
    found = _workloads(scene, pool, revision)
    if revision == scene.target.revision or replicas or not found or any(each.replicas for each in found):
        return False
    left = any(worker.revision == revision and not worker.ended for worker in scene.of_pool(pool))
    return not left and (revision != scene.stable or scene.plan.complete)


def _is_empty(scene: Scene, pool: Manifest) -> bool:
    name = pool["metadata"]["name"]
    told = any(each.replicas for each in scene.workloads if each.pool == name)
    return not told and all(worker.ended for worker in scene.of_pool(pool))


def _costs(scene: Scene, pool: Manifest, revision: str, replicas: int) -> Iterator[Write]:
    """Mark the Pods that shall go; a ReplicaSet looks at it among Pods that are equally ready."""
    found = scene.workload(pool, revision)
    if found is None or not 0 < replicas < found.replicas:
        return
    mine = [worker for worker in scene.of_pool(pool) if worker.revision == revision and not worker.aside]
    living = sum(worker.living for worker in mine)
    for worker in victims(mine, living - replicas, scene.failing_nodes):
        if annotations(worker.pod).get(DELETION_COST) != _FIRST_TO_GO:
            patch = {"metadata": {"annotations": {DELETION_COST: _FIRST_TO_GO}}}
            yield Merge(_pod(worker.pod), patch, bookkeeping=True)


def _pod(pod: Manifest) -> Reference:
    metadata = pod["metadata"]
    return Reference(
        "v1", "Pod", str(metadata.get("namespace", "default")), str(metadata["name"]), str(metadata.get("uid", ""))
    )
