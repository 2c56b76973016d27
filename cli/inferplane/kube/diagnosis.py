"""What is wrong with a service of a cluster, from objects already gathered: pure, a finding for each thing."""

from collections.abc import Iterator, Sequence
from typing import Final

from inferplane.cluster import Object
from inferplane.diagnosis import Finding
from inferplane.kube.checks import Level, component_checks
from inferplane.kube.fields import annotation, parts, text
from inferplane.kube.picture import Picture
from inferplane.kube.pod_view import PodView
from inferplane.kube.service_view import is_current, pods, problems
from inferplane_api.v1alpha1.conditions import ConditionType, Reason

_BAD: Final = {
    ConditionType.READY: "False",
    ConditionType.DEGRADED: "True",
    ConditionType.KV_ROUTING_HEALTHY: "False",
    ConditionType.SLO_MET: "False",
}
"""The status with which a condition is a problem; the others only inform."""
_FIXES: Final = {
    ConditionType.READY: "see the workers below",
    ConditionType.DEGRADED: "see the workers below",
    ConditionType.KV_ROUTING_HEALTHY: "ask `inferplane explain REQUEST_ID` of a mispredicted request",
    ConditionType.SLO_MET: "scale up, raise the budget, or loosen spec.slo",
}
_FIXES_OF_REASONS: Final = {
    Reason.FROZEN: "`inferplane unfreeze` it when the freeze has done its part",
    Reason.INVALID_SPEC: "correct the field that is named",
    Reason.MODEL_NOT_FOUND: "correct spec.model.source.hf or spec.model.revision, or see that the hub can be reached",
    Reason.SERVED_NAME_CONFLICT: "give one of the two another name in spec.model.servedNames",
    Reason.ROLLED_BACK: "mend the spec, or set the annotation inferplane.dev/retry if the fault lay outside",
    Reason.DEADLINE_EXCEEDED: "see why the new workers do not serve, below; `inferplane rollback` goes back",
    Reason.NO_ROOM: "fewer replicas, more nodes, or spec.rollout.maxSurge: 0",
    Reason.WORKER_REFUSED: "correct what the message names: resources, podTemplate, or a policy of the cluster",
    Reason.BUDGET_EXHAUSTED: "raise spec.budget.maxDevices, or scale down",
    Reason.KV_STORE_UNAVAILABLE: "create the KVStore, or remove spec.kvStore",
}
"""What is better advice than the condition's own."""
_HELD: Final = {
    "paused": "nothing but status is written",
    "freeze": "nothing is rolled out; `inferplane unfreeze` lets it go on",
}


def diagnose(found: Picture, components: Sequence[Object] | None, now: float) -> list[Finding]:
    return [
        *_components(components),
        *_freshness(found),
        *_conditions(found),
        *_held(found),
        *(
            Finding("deployment", ok=False, detail=line, fix="raise the quota, or lower replicas")
            for line in problems(found)
        ),
        *(_pod(it) for it in pods(found, now)),
    ]


def _components(components: Sequence[Object] | None) -> Iterator[Finding]:
    for it in component_checks(components):
        yield Finding(it.name, ok=it.level is not Level.LACKING, detail=it.detail, fix=it.fix)


def _freshness(found: Picture) -> Iterator[Finding]:
    if not is_current(found.service):
        detail = "the operator has not seen the latest change: the status speaks of the spec before it"
        yield Finding(
            "status", ok=False, detail=detail, fix="see the operator's log: does it run, may it read this namespace?"
        )


def _conditions(found: Picture) -> Iterator[Finding]:
    for it in parts(found.service, "status", "conditions"):
        kind, message = text(it, "type"), text(it, "message")
        known = next((one for one in ConditionType if one.value == kind), None)
        bad = known is not None and _BAD.get(known) == text(it, "status")
        detail = f"{text(it, 'status')}, {text(it, 'reason')}{f': {message}' if message else ''}"
        yield Finding(kind, ok=not bad, detail=detail, fix=_fix(known, text(it, "reason")) if bad and known else "")


def _fix(kind: ConditionType, reason: str) -> str:
    return next((fix for known, fix in _FIXES_OF_REASONS.items() if known.value == reason), _FIXES[kind])


def _held(found: Picture) -> Iterator[Finding]:
    for name, meaning in _HELD.items():
        value = annotation(found.service, f"inferplane.dev/{name}")
        if value is not None:
            yield Finding(f"inferplane.dev/{name}", ok=True, detail=f"{meaning} ({value})")


def _pod(view: PodView) -> Finding:
    ok = view.phase in ("Ready", "Draining")
    detail = f"{view.phase}{f': {view.why}' if view.why else ''}{_restarts(view) if view.restarts else ''}"
    return Finding(f"pod {view.name}", ok=ok, detail=detail, fix="" if ok else _look_at(view))


def _look_at(view: PodView) -> str:
    status = f"`inferplane status {view.service}`"
    return f"see {status}" if view.phase == "Pending" else f"see `inferplane logs {view.name}`, {status}"


def _restarts(view: PodView) -> str:
    return f", {view.restarts} restart{'s' * (view.restarts != 1)}"
