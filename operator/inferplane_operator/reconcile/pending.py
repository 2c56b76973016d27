"""Explains why a worker is not there yet: one sentence with the next step, and a reason for machines.

Problem.  What is wrong stands in five places: the scheduler's condition, a container's waiting reason, its last
termination, the ReplicaSet's failure to create Pods, the agent's readiness; and each speaks of its own.
Idea.  They are looked at in the order in which a Pod comes to life; the first thing that is in the way is the answer.
Trade-off.  What a kubelet tells in Events alone (a volume that cannot be mounted) is only named as a phase that lasts.
Invariant.  A message holds no number and no name that changes by itself, so that a Pod that goes on waiting causes no
write.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from inferplane_api.v1alpha1.conditions import Reason
from inferplane_operator.reconcile.clock import seconds_between
from inferplane_operator.reconcile.reading import listed, section, text
from inferplane_operator.reconcile.values import Manifest
from inferplane_operator.render.names import ENGINE_CONTAINER

_TEXT: Final = 300
_WHOSE_PLACE: Final = " preemption: "
"""Before the scheduler's second sentence: that it would not help to end other Pods either."""
_INSUFFICIENT: Final = re.compile(r"Insufficient ([\w./-]+[\w])")
_IMAGE: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "RegistryUnavailable",
        "ImageInspectError",
    }
)
_CONFIGURATION: Final = frozenset({"CreateContainerConfigError", "CreateContainerError"})
_NOTHING: Final[Mapping[str, Any]] = {}
_STILL: Final = frozenset({"ContainerCreating", "PodInitializing", ""})


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a Pod does not serve."""

    reason: Reason
    message: str
    lacks_room: bool = False
    """No node has enough left of something: if another worker went, this one could come."""
    failing: bool = False
    """It ran, or tried to, and failed; waiting longer does not help by itself."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One part of a start: how long it took, or None while it lasts or has not begun."""

    name: str
    duration_s: float | None = None


def explain(pod: Manifest, *, readiness: str = "") -> Explanation | None:
    """Explain a Pod that is not ready; None when it is ready or going.  `readiness` is its agent's own word."""
    if is_ready(pod) or pod["metadata"].get("deletionTimestamp"):
        return None
    return _ended(pod) or _unscheduled(pod) or next(_containers(pod), None) or _loading(pod, readiness)


def explain_workload(found: Manifest) -> Explanation | None:
    """Explain why a Deployment gets no Pods at all; None when nothing is wrong."""
    for condition in _conditions(found):
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            message = _short(_without_pod(str(condition.get("message", "")), text(found, "metadata", "name")))
            if "exceeded quota" in message:
                return Explanation(Reason.QUOTA_EXCEEDED, f"the namespace's quota allows no more workers: {message}")
            return Explanation(Reason.WORKER_REFUSED, f"no Pod can be created: {message}")
    return None


def _without_pod(message: str, workload: str) -> str:
    """Leave out the name of the Pod that was refused: each attempt has another one."""
    return (
        re.sub(rf"\b{re.escape(workload)}-[a-z0-9]+-[a-z0-9]+\b", f"{workload}-...", message) if workload else message
    )


def phases(pod: Manifest) -> tuple[Phase, ...]:
    """Return the parts of a Pod's start in order: Scheduled, Initialized, Started, Ready."""
    conditions = {condition.get("type"): condition for condition in _conditions(pod)}

    def turned(name: str) -> str:
        found = conditions.get(name, {})
        return str(found.get("lastTransitionTime", "")) if found.get("status") == "True" else ""

    started = text(_engine(pod), "state", "running", "startedAt")
    ends = (
        ("Scheduled", turned("PodScheduled")),
        ("Initialized", turned("Initialized")),
        ("Started", started),
        ("Ready", turned("Ready")),
    )
    found: list[Phase] = []
    begin = str(pod["metadata"].get("creationTimestamp", ""))
    for name, end in ends:
        found.append(Phase(name, seconds_between(begin, end) if begin and end else None))
        begin = end
    return tuple(found)


def is_ready(pod: Manifest) -> bool:
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in _conditions(pod))


def ready_since(pod: Manifest) -> str:
    """Return when the Pod became ready, "" where it is not."""
    for each in _conditions(pod):
        if each.get("type") == "Ready" and each.get("status") == "True":
            return str(each.get("lastTransitionTime", ""))
    return ""


def waiting_since(pod: Manifest) -> str:
    """Return since when the scheduler has found no node, "" where it has."""
    for each in _conditions(pod):
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return str(each.get("lastTransitionTime", "") or pod["metadata"].get("creationTimestamp", ""))
    return ""


def _ended(pod: Manifest) -> Explanation | None:
    status = _status(pod)
    if status.get("phase") != "Failed":
        return None
    why = status.get("message") or status.get("reason") or "it ended"
    return Explanation(Reason.WORKER_EVICTED, f"the Pod ended: {_short(str(why))}", failing=True)


def _unscheduled(pod: Manifest) -> Explanation | None:
    condition = next((each for each in _conditions(pod) if each.get("type") == "PodScheduled"), _NOTHING)
    if condition.get("status") != "False":
        return None
    message = _short(str(condition.get("message", "")).partition(_WHOSE_PLACE)[0] or "the scheduler has not looked yet")
    if "PersistentVolumeClaim" in message or "persistentvolumeclaim" in message:
        fix = "create the claim, give it a StorageClass, or mark one as default"
        return Explanation(Reason.VOLUME_UNBOUND, f"a volume claim is not bound ({fix}): {message}")
    if lacking := sorted(set(_INSUFFICIENT.findall(message))):
        return Explanation(
            Reason.NO_ROOM, f"no node has enough {' and '.join(lacking)} left: {message}", lacks_room=True
        )
    if condition.get("reason") == "SchedulingGated":
        return Explanation(Reason.UNSCHEDULABLE, f"a scheduling gate holds it, as a queue sets one: {message}")
    return Explanation(Reason.UNSCHEDULABLE, f"no node takes it: {message}")


def _containers(pod: Manifest) -> Iterator[Explanation]:
    every = [*listed(pod, "status", "initContainerStatuses"), *listed(pod, "status", "containerStatuses")]
    for container in every:
        name, waiting = text(container, "name"), section(container, "state", "waiting")
        if waiting and (found := _waiting(name, waiting, container)):
            yield found
        terminated = section(container, "state", "terminated")
        if terminated and terminated.get("exitCode") != 0:
            yield Explanation(Reason.CRASH_LOOP, f"container {name} {_end(terminated)}", failing=True)


def _waiting(name: str, waiting: Mapping[str, Any], container: Manifest) -> Explanation | None:
    reason, message = str(waiting.get("reason", "")), _short(str(waiting.get("message", "")))
    if reason in _IMAGE:
        image = container.get("image", "")
        text = f"the image {image} of container {name} cannot be had ({reason}): {message}"
        return Explanation(Reason.IMAGE_UNAVAILABLE, text.rstrip(": "))
    if reason in _CONFIGURATION:
        return Explanation(Reason.CONFIGURATION_MISSING, f"container {name} cannot be made ({reason}): {message}")
    if reason in _STILL:
        return None
    last = section(container, "lastState", "terminated")
    text = (
        f"container {name} fails again and again: it {_end(last)}" if last else f"container {name}: {reason} {message}"
    )
    return Explanation(Reason.CRASH_LOOP, text.strip(), failing=True)


def _end(terminated: Mapping[str, Any]) -> str:
    if terminated.get("reason") == "OOMKilled":
        return "was killed because it used more memory than its limit"
    words = _short(str(terminated.get("message", "")).strip())
    return f"ended with status {terminated.get('exitCode', '?')}" + (f": {words}" if words else "")


def _loading(pod: Manifest, readiness: str) -> Explanation:
    done = {condition.get("type") for condition in _conditions(pod) if condition.get("status") == "True"}
    if readiness:
        return Explanation(Reason.ENGINE_LOADING, f"the worker says: {_short(readiness)}")
    if section(_engine(pod), "state", "running"):
        return Explanation(Reason.ENGINE_LOADING, "the engine runs and is not ready yet")
    if "Initialized" in done:
        return Explanation(Reason.WORKERS_STARTING, "the engine's image is pulled and its container made")
    if "PodScheduled" in done:
        return Explanation(Reason.WORKERS_STARTING, "volumes are mounted, and what runs before the engine runs")
    return Explanation(Reason.WORKERS_STARTING, "the scheduler has not looked yet")


def _engine(pod: Manifest) -> Manifest:
    found = listed(pod, "status", "containerStatuses")
    return next((container for container in found if container.get("name") == ENGINE_CONTAINER), _NOTHING)


def _status(found: Manifest) -> Mapping[str, Any]:
    return section(found, "status")


def _conditions(found: Manifest) -> Sequence[Mapping[str, Any]]:
    return listed(found, "status", "conditions")


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _TEXT else f"{flat[: _TEXT - 3]}..."
