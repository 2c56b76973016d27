"""The status of one pool: its workers by revision, what holds them up, and how long the last start took."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferplane_api.v1alpha1.conditions import ConditionStatus, ConditionType, Reason
from inferplane_api.v1alpha1.units import format_duration
from inferplane_operator.reconcile.pending import Explanation, phases, ready_since
from inferplane_operator.reconcile.reading import section
from inferplane_operator.reconcile.scene import Scene
from inferplane_operator.reconcile.statuses import Said, conditions_of, dated, status_patch, truth
from inferplane_operator.reconcile.values import Manifest, Merge
from inferplane_operator.reconcile.workers import Worker
from inferplane_operator.render.objects import pool_selector

_SEVERITY = (
    Reason.CRASH_LOOP,
    Reason.IMAGE_UNAVAILABLE,
    Reason.CONFIGURATION_MISSING,
    Reason.VOLUME_UNBOUND,
    Reason.QUOTA_EXCEEDED,
    Reason.WORKER_REFUSED,
    Reason.NO_ROOM,
    Reason.UNSCHEDULABLE,
    Reason.WORKER_EVICTED,
    Reason.ENGINE_LOADING,
    Reason.WORKERS_STARTING,
)
_NORMAL = (Reason.ENGINE_LOADING, Reason.WORKERS_STARTING)
_PHASES = 4


@dataclass(frozen=True, slots=True)
class Trouble:
    """What holds workers of a pool up, the worst first."""

    pool: str
    reason: Reason
    message: str
    workers: int

    @property
    def normal(self) -> bool:
        """A start takes its time; nothing is wrong."""
        return self.reason in _NORMAL

    def __str__(self) -> str:
        who = f"{self.workers} of {self.pool}" if self.workers else self.pool
        return f"{who}: {self.message}"


@dataclass(frozen=True, slots=True)
class PoolPicture:
    """One pool, counted."""

    name: str
    wanted: int
    replicas: int
    ready: int
    updated: int
    updated_ready: int
    draining: int
    failed: int
    old: int
    """Workers of other revisions, draining ones too."""
    troubles: tuple[Trouble, ...]

    @property
    def short(self) -> int:
        return max(0, self.wanted - self.updated_ready)


def picture_of(scene: Scene, pool: Manifest) -> PoolPicture:
    workers, target = scene.of_pool(pool), scene.target.revision
    living = [worker for worker in workers if worker.living]
    updated = [worker for worker in living if worker.revision == target]
    return PoolPicture(
        name=str(pool["metadata"]["name"]),
        wanted=scene.wanted(pool),
        replicas=len(living),
        ready=sum(worker.ready for worker in living),
        updated=len(updated),
        updated_ready=sum(worker.ready for worker in updated),
        draining=sum(worker.going and not worker.ended for worker in workers),
        failed=sum(worker.failing for worker in living),
        old=sum(not worker.ended and worker.revision != target for worker in workers),
        troubles=_troubles(scene, pool, living),
    )


def pool_status(scene: Scene, pool: Manifest, picture: PoolPicture) -> tuple[Merge, ...]:
    """Patch the pool's status, if it says something else now."""
    workers, name = scene.of_pool(pool), picture.name
    generation = int(pool["metadata"].get("generation", 0))
    conditions = dated(_said(picture), conditions_of(pool), generation=generation, now=scene.observed.now)
    wanted: dict[str, Any] = {
        "observedGeneration": generation,
        "conditions": conditions,
        "replicas": picture.replicas,
        "readyReplicas": picture.ready,
        "updatedReplicas": picture.updated,
        "drainingReplicas": picture.draining,
        "failedReplicas": picture.failed,
        "selector": ",".join(f"{key}={value}" for key, value in sorted(pool_selector(pool).items())),
        "revisions": _revisions(workers),
        "startup": _startup(workers) or section(pool, "status").get("startup"),
        "scaledBy": scene.observed.scaled_by.get(name, ""),
    }
    return status_patch(pool, wanted)


def _said(picture: PoolPicture) -> Sequence[Said]:
    serves = picture.updated_ready >= picture.wanted and not picture.old
    worst = picture.troubles[0] if picture.troubles else None
    if not picture.wanted:
        ready = Said(ConditionType.READY, ConditionStatus.FALSE, Reason.NO_READY_WORKERS, "scaled to 0")
    elif serves:
        ready = Said(ConditionType.READY, ConditionStatus.TRUE, Reason.ALL_WORKERS_READY)
    elif picture.old and not picture.short:
        ready = Said(ConditionType.READY, ConditionStatus.FALSE, Reason.OLD_REVISION_SERVES)
    else:
        reason = worst.reason if worst else Reason.WORKERS_STARTING
        ready = Said(ConditionType.READY, ConditionStatus.FALSE, reason, worst.message if worst else "")
    moving = picture.old or picture.replicas != picture.wanted or (picture.short and (worst is None or worst.normal))
    why = Reason.ROLLING_OUT if picture.old else Reason.SCALING
    bad = worst is not None and not worst.normal
    return (
        ready,
        Said(ConditionType.PROGRESSING, truth(bool(moving)), why if moving else Reason.ROLLED_OUT),
        Said(
            ConditionType.DEGRADED,
            truth(bad),
            worst.reason if worst and bad else Reason.AS_SPECIFIED,
            "; ".join(str(trouble) for trouble in picture.troubles if not trouble.normal),
        ),
    )


def _troubles(scene: Scene, pool: Manifest, living: Sequence[Worker]) -> tuple[Trouble, ...]:
    name = str(pool["metadata"]["name"])
    explained = [worker.explanation for worker in living if worker.explanation is not None]
    counted = Counter(explanation.reason for explanation in explained)
    first: dict[Reason, Explanation] = {}
    for explanation in sorted(explained, key=lambda each: each.message):
        first.setdefault(explanation.reason, explanation)
    found = [Trouble(name, reason, first[reason].message, count) for reason, count in counted.items()]
    problems = [each.problem for each in scene.workloads if each.pool == name and each.problem is not None]
    found += [Trouble(name, problem.reason, problem.message, 0) for problem in problems[:1]]
    return tuple(sorted(found, key=lambda trouble: _SEVERITY.index(trouble.reason)))


def _revisions(workers: Sequence[Worker]) -> list[dict[str, Any]]:
    living = [worker for worker in workers if worker.living]
    return [
        {
            "revision": revision,
            "replicas": sum(worker.revision == revision for worker in living),
            "readyReplicas": sum(worker.ready for worker in living if worker.revision == revision),
        }
        for revision in sorted({worker.revision for worker in living})
    ]


def _startup(workers: Sequence[Worker]) -> Mapping[str, Any] | None:
    ready = [worker for worker in workers if worker.ready]
    if not ready:
        return None
    last = max(ready, key=lambda worker: (ready_since(worker.pod), worker.name))
    took = [phase.duration_s for phase in phases(last.pod)]
    if len(took) != _PHASES or any(seconds is None for seconds in took):
        return None
    names = ("scheduled", "initialized", "started", "ready")
    return {
        "worker": last.name,
        **{name: format_duration(seconds or 0.0) for name, seconds in zip(names, took, strict=True)},
    }
