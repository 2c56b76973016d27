"""How far a change has come, and when it has failed.

Problem.  A new revision that never becomes ready must be taken back, also when the operator was restarted meanwhile or
its Pods are made anew again and again.
Idea.  The status keeps the best that was reached (most new workers ready, fewest old ones left) and when; getting back
to it is no progress.  A failure is first recorded in the status and acted on from there.
Trade-off.  The failure takes effect one look later than it is found.
Invariant.  A rollout that waits for the canary's verdict, or is held by a person, does not run against its deadline.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inferplane_api.v1alpha1.conditions import Reason
from inferplane_operator.reconcile.clock import seconds_between
from inferplane_operator.reconcile.reading import section
from inferplane_operator.reconcile.scene import Scene
from inferplane_operator.reconcile.targets import attempt, failed_before
from inferplane_operator.reconcile.values import Judgement


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the target's revision cannot stay."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Progress:
    """`summary` for the status, None when nothing is under way; `left_s` until the deadline."""

    summary: Mapping[str, Any] | None = None
    failure: Failure | None = None
    left_s: float | None = None


def progress_of(scene: Scene) -> Progress:
    if not _under_way(scene):
        return Progress()
    target, pools = scene.target.revision, scene.rollout.pools
    ready, old = sum(pool.of(target).ready for pool in pools), _old(scene)
    summary = _summary(scene, ready=ready, old=old)
    if scene.frozen or scene.paused or target == scene.stable:
        return Progress(summary)
    if wrong := _canary_failed(scene):
        return Progress(summary, wrong)
    return Progress(summary) if scene.plan.awaits_verdict else _against_deadline(scene, summary)


def _under_way(scene: Scene) -> bool:
    """Whether a change is being carried out; scaling and a worker that comes back are none."""
    if scene.plan.complete or scene.lacks_pools or not any(pool.wanted for pool in scene.rollout.pools):
        return False
    return scene.target.revision != scene.stable or _old(scene) > 0


def _old(scene: Scene) -> int:
    return sum(state.replicas for pool in scene.rollout.pools for state in pool.old(scene.target.revision))


def _against_deadline(scene: Scene, summary: Mapping[str, Any]) -> Progress:
    limit = scene.service.spec.rollout.progress_deadline_s
    left_s = limit - seconds_between(str(summary["progressedAt"]), scene.observed.now)
    if left_s > 0:
        return Progress(summary, left_s=left_s)
    message = f"no progress for {limit:g} s: waited for {scene.plan.waiting or 'its workers'}"
    return Progress(summary, Failure(Reason.DEADLINE_EXCEEDED, message))


def failure_record(scene: Scene, failure: Failure | None) -> Mapping[str, Any]:
    """Return the status fields about a failed revision; empty ones where there is none."""
    takes_back = scene.service.spec.rollout.auto_rollback and scene.stable not in ("", scene.target.revision)
    if failure is not None and takes_back:
        return {
            "failedRevision": scene.target.revision,
            "failedAttempt": attempt(scene.raw) or None,
            "failure": failure.message,
        }
    if failed_before(scene.raw, scene.rendered.revision):
        return {key: scene.status.get(key) for key in ("failedRevision", "failedAttempt", "failure")}
    return {}


def _summary(scene: Scene, *, ready: int, old: int) -> dict[str, Any]:
    before = section(scene.status, "rollout")
    now = scene.observed.now
    if before.get("revision") != scene.target.revision:
        return {"revision": scene.target.revision, "ready": ready, "old": old, "progressedAt": now}
    most, fewest = int(before.get("ready", 0)), int(before.get("old", 0))
    if ready > most or old < fewest:
        return {**before, "ready": max(ready, most), "old": min(old, fewest), "progressedAt": now}
    return dict(before)


def _canary_failed(scene: Scene) -> Failure | None:
    verdict = scene.observed.canary
    if verdict is None or verdict.revision != scene.target.revision or verdict.judgement is not Judgement.FAIL:
        return None
    return Failure(Reason.CANARY_WRONG, f"the canary failed: {verdict.message}")
