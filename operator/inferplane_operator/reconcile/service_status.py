"""The status of an InferenceService: what serves, what is under way, what is wrong; the truth before the good news."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferplane_api.catalogue import RoutingMode, WorkerRole
from inferplane_api.v1alpha1.conditions import ConditionStatus, ConditionType, Reason
from inferplane_api.v1alpha1.units import format_duration
from inferplane_engine.verification import Degree, Unverified
from inferplane_operator.reconcile.history import Hold
from inferplane_operator.reconcile.objective import measured, routing_healthy, slo_met
from inferplane_operator.reconcile.pool_status import PoolPicture, Trouble
from inferplane_operator.reconcile.progress import Progress, failure_record
from inferplane_operator.reconcile.reading import section
from inferplane_operator.reconcile.scene import Scene
from inferplane_operator.reconcile.statuses import Said, conditions_of, dated, truth
from inferplane_operator.render.unrun import unrun


@dataclass(frozen=True, slots=True)
class ServicePicture:
    """A service with its pools counted, by role."""

    scene: Scene
    pools: Mapping[WorkerRole, PoolPicture]
    progress: Progress

    @property
    def wanted(self) -> int:
        return sum(pool.wanted for pool in self.pools.values())

    @property
    def ready(self) -> int:
        return sum(pool.updated_ready for pool in self.pools.values())

    @property
    def troubles(self) -> list[Trouble]:
        return [trouble for pool in self.pools.values() for trouble in pool.troubles]

    @property
    def idle_roles(self) -> list[str]:
        """Pools without which nothing is served, and that nothing is wanted of."""
        needed = [WorkerRole.DECODE]
        if self.scene.service.spec.mode is RoutingMode.DISAGGREGATED:
            needed.append(WorkerRole.PREFILL)
        return [role.value for role in needed if role in self.pools and not self.pools[role].wanted]


def service_status(found: ServicePicture) -> dict[str, Any]:
    """Return the whole status but for what the planner writes."""
    scene = found.scene
    done = scene.plan.complete and not scene.lacks_pools and found.wanted > 0
    unrun = _unverified(scene)
    said = (
        ready_condition(found),
        slo_met(scene),
        _progressing(found),
        _degraded(found),
        routing_healthy(scene),
        _unverified_condition(unrun),
    )
    return {
        "observedGeneration": scene.generation,
        "conditions": dated(said, conditions_of(scene.raw), generation=scene.generation, now=scene.observed.now),
        "columns": _columns(found),
        "url": scene.settings.gateway_url or None,
        "servedNames": served_names(scene),
        "modelRevision": _model_revision(scene) or None,
        "revision": scene.target.revision or None,
        "stableRevision": (scene.target.revision if done else scene.stable) or None,
        **failure_record(scene, found.progress.failure),
        "rollout": found.progress.summary,
        **{role.value: _summary(pool) for role, pool in found.pools.items()},
        "unverified": [each.what for each in unrun] or None,
    }


def invalid_status(raw: Mapping[str, Any], message: str, now: str) -> dict[str, Any]:
    """Return the status of a spec that cannot be carried out: what runs goes on and is not spoken of anew."""
    before, generation = dict(section(raw, "status")), int(raw["metadata"].get("generation", 0))
    kept = [condition for condition in before.get("conditions", ()) if condition.get("type") != ConditionType.READY]
    said = [Said(ConditionType.READY, ConditionStatus.FALSE, Reason.INVALID_SPEC, message)]
    ready = dated(said, before.get("conditions", ()), generation=generation, now=now)
    return {**before, "observedGeneration": generation, "conditions": [*ready, *kept]}


def served_names(scene: Scene) -> list[str]:
    lost = {claim.name for claim in scene.observed.lost_names}
    names = (*scene.service.spec.model.all_served_names, *(adapter.served_name for adapter in scene.adapters))
    return [name for name in dict.fromkeys(names) if name not in lost]


def ready_condition(found: ServicePicture) -> Said:
    reason, message = _not_ready(found)
    if reason is not None:
        return Said(ConditionType.READY, ConditionStatus.FALSE, reason, message)
    if found.ready < found.wanted:
        message = f"{found.ready} of {found.wanted} workers serve"
        return Said(ConditionType.READY, ConditionStatus.TRUE, Reason.SERVING, message)
    return Said(ConditionType.READY, ConditionStatus.TRUE, Reason.ALL_WORKERS_READY)


def _not_ready(found: ServicePicture) -> tuple[Reason | None, str]:
    scene = found.scene
    match scene.target.hold:
        case Hold.UNRESOLVED:
            return _unresolved(scene)
        case Hold.FAILED:
            message = f"revision {scene.rendered.revision} failed and {scene.target.revision} is back: "
            return Reason.ROLLED_BACK, f"{message}{scene.status.get('failure', '')}"
        case Hold.FROZEN:
            return Reason.FROZEN, f"revision {scene.rendered.revision} waits; unfreeze the service to roll it out"
        case Hold.NONE:
            return _not_serving(found)


def _not_serving(found: ServicePicture) -> tuple[Reason | None, str]:
    if not served_names(found.scene):
        return Reason.SERVED_NAME_CONFLICT, f"another service holds each of its names: {_lost(found.scene)}"
    if idle := found.idle_roles:
        return Reason.NO_READY_WORKERS, f"scaled to 0: {', '.join(idle)}"
    old = [pool.name for pool in found.pools.values() if pool.old]
    proven = found.scene.stable == found.scene.target.revision
    waiting = [
        pool for pool in found.pools.values() if (not pool.updated_ready if proven else pool.short) and pool.wanted
    ]
    if found.scene.lacks_pools or waiting:
        refused = _refused(found.scene)
        return (Reason.WORKER_REFUSED, refused) if refused else _starting(waiting, meanwhile=_meanwhile(found))
    if old:
        return Reason.OLD_REVISION_SERVES, f"workers of an older revision still serve in {', '.join(old)}"
    return None, ""


def _meanwhile(found: ServicePicture) -> str:
    """Return who answers until the new workers do: "not ready" alone would be read as an outage."""
    pools = [pool for pool in found.pools.values() if pool.wanted]
    serves = pools and all(pool.ready for pool in pools) and any(pool.ready > pool.updated_ready for pool in pools)
    return "; workers of another revision serve meanwhile" if serves else ""


def _starting(waiting: Sequence[PoolPicture], *, meanwhile: str) -> tuple[Reason, str]:
    troubles = [trouble for pool in waiting for trouble in pool.troubles]
    worst = next((trouble for trouble in troubles if not trouble.normal), next(iter(troubles), None))
    counts = ", ".join(f"{pool.updated_ready} of {pool.wanted} in {pool.name}" for pool in waiting)
    if worst is None:
        return Reason.WORKERS_STARTING, f"ready: {counts}{meanwhile}" if counts else "the pools are made"
    return worst.reason, f"ready: {counts}{meanwhile}; {'; '.join(map(str, troubles))}"


def _refused(scene: Scene) -> str:
    refused = scene.observed.refused
    return f"the API server refuses what this spec leads to: {refused}" if refused else ""


def _unresolved(scene: Scene) -> tuple[Reason, str]:
    problem = scene.observed.model_problem
    if problem:
        return Reason.MODEL_NOT_FOUND, f"the model's revision cannot be resolved: {problem}"
    return Reason.PENDING, "the model's revision is being resolved"


def _progressing(found: ServicePicture) -> Said:
    scene, summary = found.scene, found.progress.summary
    kind = ConditionType.PROGRESSING
    if scene.paused:
        return Said(kind, ConditionStatus.FALSE, Reason.PAUSED, "nothing is written until the annotation is gone")
    if scene.frozen and (scene.target.hold is Hold.FROZEN or summary is not None):
        return Said(kind, ConditionStatus.FALSE, Reason.FROZEN, "a change waits for the freeze to end")
    failed = scene.target.hold is Hold.FAILED
    if summary is not None:
        what = "back to" if failed or scene.target.revision == scene.stable else "to"
        message = f"{what} revision {scene.target.revision}; waits for {scene.plan.waiting}"
        return Said(kind, ConditionStatus.TRUE, Reason.ROLLING_OUT, message)
    if failed:
        return Said(kind, ConditionStatus.FALSE, Reason.ROLLED_BACK, str(scene.status.get("failure", "")))
    moving = [pool.name for pool in found.pools.values() if _scales(pool)]
    if moving:
        return Said(kind, ConditionStatus.TRUE, Reason.SCALING, f"workers come or go in {', '.join(moving)}")
    return Said(kind, ConditionStatus.FALSE, Reason.ROLLED_OUT)


def _scales(pool: PoolPicture) -> bool:
    starting = pool.short and all(trouble.normal for trouble in pool.troubles)
    return bool(pool.replicas != pool.wanted or starting) and (starting or pool.replicas > pool.wanted)


def _degraded(found: ServicePicture) -> Said:
    wrong = list(_wrong(found))
    if not wrong:
        return Said(ConditionType.DEGRADED, ConditionStatus.FALSE, Reason.AS_SPECIFIED)
    message = "; ".join(dict.fromkeys(text for _, text in wrong if text))
    return Said(ConditionType.DEGRADED, ConditionStatus.TRUE, wrong[0][0], message)


def _wrong(found: ServicePicture) -> Iterable[tuple[Reason, str]]:
    scene = found.scene
    if found.progress.failure is not None:
        yield found.progress.failure.reason, found.progress.failure.message
    if refused := _refused(scene):
        yield Reason.WORKER_REFUSED, refused
    if scene.target.hold is Hold.FAILED:
        yield Reason.ROLLED_BACK, f"revision {scene.rendered.revision} failed: {scene.status.get('failure', '')}"
    if scene.target.hold is Hold.UNRESOLVED and scene.observed.model_problem:
        yield _unresolved(scene)
    for trouble in found.troubles:
        if not trouble.normal:
            yield trouble.reason, str(trouble)
    if nodes := scene.failing_nodes:
        yield Reason.NODES_FAILING, f"workers fail on {', '.join(nodes)} and serve elsewhere; cordon and look at it"
    yield from _lacking(scene)
    if unrecorded := scene.observed.unrecorded:
        yield Reason.NOT_RECORDED, f"the API server refuses what is noted beside the workers: {unrecorded}"


def _lacking(scene: Scene) -> Iterable[tuple[Reason, str]]:
    """Say what others would have to grant or make."""
    if scene.plan.refused:
        refused = ", ".join(f"{count} of {name}" for name, count in scene.plan.refused.items())
        yield Reason.BUDGET_EXHAUSTED, f"the budget does not allow {refused}; raise budget.maxDevices or scale down"
    store = scene.service.spec.kv_store
    if store is not None and scene.observed.kv_store is None:
        yield Reason.KV_STORE_UNAVAILABLE, f"there is no KVStore {store.name} in this namespace; create it"
    if scene.observed.lost_names:
        yield Reason.SERVED_NAME_CONFLICT, f"another service holds {_lost(scene)}; rename one of the two"


def _lost(scene: Scene) -> str:
    lost = scene.observed.lost_names
    return ", ".join(f"{claim.name} ({claim.holder.namespace}/{claim.holder.name})" for claim in lost)


def _unverified(scene: Scene) -> tuple[Unverified, ...]:
    accelerators = scene.settings.options.accelerators
    return unrun(scene.service, accelerators, adapters=bool(scene.adapters), store=scene.store)


def _unverified_condition(found: Sequence[Unverified]) -> Said:
    if not found:
        return Said(ConditionType.UNVERIFIED, ConditionStatus.FALSE, Reason.VERIFIED)
    never = any(each.degree is Degree.NEVER_RUN for each in found)
    message = "nobody has run this end to end: " + ", ".join(each.what for each in found)
    return Said(ConditionType.UNVERIFIED, truth(True), Reason.NEVER_RUN if never else Reason.CONTRACT_ONLY, message)  # noqa: FBT003 - the value itself


def _model_revision(scene: Scene) -> str:
    if scene.target.revision == scene.rendered.revision and scene.observed.model_revision:
        return scene.observed.model_revision
    entry = scene.known.get(scene.target.revision)
    return entry.model_revision if entry is not None else ""


def _summary(pool: PoolPicture) -> dict[str, Any]:
    return {
        "name": pool.name,
        "replicas": pool.wanted,
        "readyReplicas": pool.ready,
        "updatedReplicas": pool.updated,
        "failedReplicas": pool.failed,
    }


def _columns(found: ServicePicture) -> dict[str, Any]:
    slo, figures = found.scene.service.spec.slo, measured(found.scene)
    ready = sum(pool.ready for pool in found.pools.values())
    prefill, decode = (found.pools.get(role) for role in (WorkerRole.PREFILL, WorkerRole.DECODE))
    return {
        "workers": f"{ready}/{found.wanted}",
        "ratio": f"{prefill.ready}:{decode.ready}" if prefill and decode else "",
        "ttft": f"{figures.get('ttft', '-')}/{format_duration(slo.ttft_s)}",
        "tpot": f"{figures.get('tpot', '-')}/{format_duration(slo.tpot_s)}",
    }
