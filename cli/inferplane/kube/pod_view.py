"""One Pod of a service, as a person wants to know it.  Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from inferplane.cluster import Object
from inferplane.kube.ages import duration, seconds
from inferplane.kube.fields import condition, container_states, label, name_of, number, text
from inferplane_api.v1alpha1.conditions import Reason
from inferplane_operator.reconcile.pending import explain, phases
from inferplane_operator.render.names import LABEL_REVISION, LABEL_ROLE, LABEL_SERVICE

_TOLD_BY_EVENTS: Final = frozenset(
    {"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "NetworkNotReady", "FailedMapVolume"}
)
"""What only a kubelet's events say, while the Pod's own status is silent."""


@dataclass(frozen=True, slots=True)
class PhaseView:
    """One part of a Pod's start; `lasting` while it is not over."""

    name: str
    seconds: float
    lasting: bool = False

    def __str__(self) -> str:
        return f"{duration(self.seconds)}..." if self.lasting else duration(self.seconds)


@dataclass(frozen=True, slots=True)
class PodView:
    name: str
    service: str
    role: str
    phase: str
    """Ready, Starting, Pending, Draining, CrashLoop or Failed."""
    ready: bool
    restarts: int
    revision: str
    node: str
    created: str
    why: str
    """Why it does not serve; empty where it does."""
    reason: str
    """The same in one word."""
    start: tuple[PhaseView, ...]
    """Scheduled, Initialized, Started, Ready: as far as it came."""


def pod_view(pod: Object, events: Sequence[Object], now: float) -> PodView:
    explanation = explain(pod)
    told = _told(pod, events) if explanation is not None and explanation.reason is Reason.WORKERS_STARTING else ""
    phase = _phase(pod)
    return PodView(
        name=name_of(pod),
        service=label(pod, LABEL_SERVICE),
        role=label(pod, LABEL_ROLE),
        phase=phase,
        ready=phase == "Ready",
        restarts=sum(number(it, "restartCount") for it in container_states(pod)),
        revision=label(pod, LABEL_REVISION),
        node=text(pod, "spec", "nodeName"),
        created=text(pod, "metadata", "creationTimestamp"),
        why=told or (explanation.message if explanation else ""),
        reason=explanation.reason.value if explanation else "",
        start=tuple(_start(pod, now)),
    )


def _told(pod: Object, events: Sequence[Object]) -> str:
    """Return the last thing a kubelet said that keeps the Pod from starting."""
    uid = text(pod, "metadata", "uid")
    mine = [it for it in events if text(it, "involvedObject", "uid") == uid and text(it, "reason") in _TOLD_BY_EVENTS]
    return " ".join(text(mine[-1], "message").split()) if mine else ""


def _start(pod: Object, now: float) -> Iterator[PhaseView]:
    reached = seconds(text(pod, "metadata", "creationTimestamp"))
    for phase in phases(pod):
        if phase.duration_s is None:
            if reached is not None and not text(pod, "metadata", "deletionTimestamp"):
                yield PhaseView(phase.name, max(0.0, now - reached), lasting=True)
            return
        yield PhaseView(phase.name, phase.duration_s)
        reached = None if reached is None else reached + phase.duration_s


def _phase(pod: Object) -> str:
    if text(pod, "metadata", "deletionTimestamp"):
        return "Draining"
    if text(pod, "status", "phase") in ("Failed", "Succeeded"):
        return "Failed"
    if condition(pod, "Ready")["status"] == "True":
        return "Ready"
    if any(text(it, "state", "waiting", "reason") == "CrashLoopBackOff" for it in container_states(pod)):
        return "CrashLoop"
    return "Starting" if condition(pod, "PodScheduled")["status"] == "True" else "Pending"
