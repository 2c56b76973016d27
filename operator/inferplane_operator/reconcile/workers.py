"""The Pods and Deployments of a service, as rollouts and statuses see them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from inferplane_operator.reconcile.clock import seconds_between
from inferplane_operator.reconcile.pending import Explanation, explain, explain_workload, is_ready, waiting_since
from inferplane_operator.reconcile.reading import labels, section, text
from inferplane_operator.reconcile.values import Manifest, Observed
from inferplane_operator.render import multi_node, names
from inferplane_operator.render.avoidance import ASIDE

_FOLLOWER: Final = multi_node.COMPONENT
_PATIENCE_S: Final = 30.0
"""How long a Pod waits for room before an old worker makes way: a scheduler may find some, a cluster may grow."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One Pod that serves, or shall; the other nodes of its group do not count."""

    name: str
    pool: str
    revision: str
    node: str
    created: str
    ready: bool
    going: bool
    aside: bool
    """Of the revision's second workload, which stays away from some nodes."""
    ended: bool
    """Failed or evicted: only its object is left."""
    pod: Manifest
    explanation: Explanation | None = None
    waits_for_room: bool = False
    """For so long that nobody else will make any, and no Pod of the service that ends is about to."""

    @property
    def living(self) -> bool:
        return not self.going and not self.ended

    @property
    def failing(self) -> bool:
        return self.living and self.explanation is not None and self.explanation.failing


@dataclass(frozen=True, slots=True)
class Workload:
    """The Deployment (or LeaderWorkerSet) of one revision of a pool."""

    name: str
    pool: str
    revision: str
    replicas: int
    aside: bool
    template: Mapping[str, Any]
    found: Manifest
    problem: Explanation | None = None


def workers_of(observed: Observed) -> tuple[Worker, ...]:
    room_comes = any(_frees_room(pod, observed.now) for pod in observed.pods)
    return tuple(
        _worker(pod, observed, room_comes=room_comes)
        for pod in observed.pods
        if labels(pod).get(names.LABEL_COMPONENT) != _FOLLOWER
    )


def _frees_room(pod: Manifest, now: str) -> bool:
    """Tell whether a Pod ends within its grace period; one that is overdue sits on a node that may be lost."""
    return bool(text(pod, "spec", "nodeName")) and seconds_between(now, text(pod, "metadata", "deletionTimestamp")) > 0


def workloads_of(observed: Observed) -> tuple[Workload, ...]:
    """Return the workloads that are not being deleted."""
    return tuple(_workload(found) for found in observed.deployments if not found["metadata"].get("deletionTimestamp"))


def longest_wait_for_room_s(workers: Iterable[Worker], now: str) -> float | None:
    """Return when to look again at those that wait for room; None if none waits, or the time of all is up."""
    waiting = [
        _PATIENCE_S - seconds_between(waiting_since(worker.pod), now)
        for worker in workers
        if worker.explanation is not None and worker.explanation.lacks_room and not worker.waits_for_room
    ]
    return max(1.0, min(left_s if left_s > 0 else _PATIENCE_S for left_s in waiting)) if waiting else None


def _worker(pod: Manifest, observed: Observed, *, room_comes: bool) -> Worker:
    metadata, marks = pod["metadata"], labels(pod)
    name, going = str(metadata["name"]), bool(metadata.get("deletionTimestamp"))
    explanation = explain(pod, readiness=observed.readiness.get(name, ""))
    patient = seconds_between(waiting_since(pod), observed.now) >= _PATIENCE_S and not room_comes
    return Worker(
        name=name,
        pool=marks.get(names.LABEL_POOL, ""),
        revision=marks.get(names.LABEL_REVISION, ""),
        node=text(pod, "spec", "nodeName"),
        created=str(metadata.get("creationTimestamp", "")),
        ready=is_ready(pod) and not going,
        going=going,
        aside=ASIDE in marks,
        ended=text(pod, "status", "phase") in ("Failed", "Succeeded"),
        pod=pod,
        explanation=explanation,
        waits_for_room=explanation is not None and explanation.lacks_room and patient,
    )


def _workload(found: Manifest) -> Workload:
    marks, spec = labels(found), section(found, "spec")
    return Workload(
        name=str(found["metadata"]["name"]),
        pool=marks.get(names.LABEL_POOL, ""),
        revision=marks.get(names.LABEL_REVISION, ""),
        aside=ASIDE in marks,
        replicas=int(spec.get("replicas", 1)),
        template=_template(spec),
        found=found,
        problem=explain_workload(found),
    )


def victims(workers: Sequence[Worker], count: int, failing_nodes: Iterable[str]) -> tuple[Worker, ...]:
    """Choose who shall go: those that do not serve, those on nodes that fail, those that started last."""
    bad = set(failing_nodes)
    by_age = sorted((worker for worker in workers if worker.living), key=lambda worker: (worker.created, worker.name))
    newest_first = reversed(by_age)
    order = sorted(newest_first, key=lambda worker: (worker.ready, worker.node not in bad))
    return tuple(order[:count])


def _template(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the Pod template as it can be applied again: a server puts an empty creation time into it."""
    found = section(spec, "leaderWorkerTemplate", "leaderTemplate") or section(spec, "template")
    metadata = {key: value for key, value in section(found, "metadata").items() if key != "creationTimestamp"}
    return {**found, "metadata": metadata} if found else found
