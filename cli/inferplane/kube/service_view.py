"""A service of a cluster as tables and as a document, from a picture of it.  Pure."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final, cast

from inferplane.cluster import Object
from inferplane.kube.ages import age
from inferplane.kube.fields import annotation, condition, name_of, namespace_of, number, part, parts, text
from inferplane.kube.picture import Picture, last_seen
from inferplane.kube.pod_view import PodView, pod_view
from inferplane.table import Table
from inferplane_operator.reconcile.pending import explain_workload

_EVENTS: Final = 10
"""Events shown; all of them are in `-o json`."""


def is_current(found: Object) -> bool:
    """Say whether the status speaks of the spec as it is."""
    return number(found, "status", "observedGeneration") >= number(found, "metadata", "generation")


def list_table(services: Sequence[Object], now: float, *, namespaces: bool) -> Table:
    heads = ("name", "ready", "workers", "p:d", "ttft", "tpot", "slomet", "age", "reason")
    rows = [_list_row(it, now) for it in services]
    if not namespaces:
        return Table(heads, rows)
    where = [namespace_of(it) for it in services]
    return Table(("namespace", *heads), [[it, *row] for it, row in zip(where, rows, strict=True)])


def _list_row(service: Object, now: float) -> list[str]:
    ready = condition(service, "Ready")
    status, reason = str(ready["status"]), "" if ready["status"] == "True" else text(ready, "reason")
    if not is_current(service):
        status, reason = "Unknown", "the operator has not seen the latest change yet"
    shown = [text(service, "status", "columns", key) for key in ("workers", "ratio", "ttft", "tpot")]
    created = text(service, "metadata", "creationTimestamp")
    return [name_of(service), status, *shown, str(condition(service, "SLOMet")["status"]), age(created, now), reason]


def headline(found: Picture) -> list[str]:
    status = part(found.service, "status")
    ready = condition(found.service, "Ready")
    word = {"True": "Ready", "False": "not ready"}.get(str(ready["status"]), "unknown")
    message = f" ({text(ready, 'message')})" if text(ready, "message") and word != "Ready" else ""
    lines = [f"{found.namespace}/{found.name}: {word}{message}"]
    if not is_current(found.service):
        lines.append("the operator has not seen the latest change yet: what follows speaks of the spec before it")
    facts = {
        "gateway": text(status, "url"),
        "models": ", ".join(cast("Sequence[str]", status.get("servedNames") or ())),
        "revision": _revision(status),
        "P:D": text(status, "columns", "ratio"),
        "TTFT": text(status, "columns", "ttft"),
        "TPOT": text(status, "columns", "tpot"),
    }
    lines.append("   ".join(f"{name} {value}" for name, value in facts.items() if value))
    held = [name for name in ("paused", "freeze") if annotation(found.service, f"inferplane.dev/{name}") is not None]
    lines += [f"annotated inferplane.dev/{name}" for name in held]
    return [line for line in lines if line]


def _revision(status: Object) -> str:
    current, stable = text(status, "revision"), text(status, "stableRevision")
    return f"{current} (last wholly ready: {stable})" if stable and stable != current else current


def conditions_table(found: Picture, now: float) -> Table:
    rows = [
        [
            text(it, "type"),
            text(it, "status"),
            text(it, "reason"),
            age(text(it, "lastTransitionTime"), now),
            text(it, "message"),
        ]
        for it in parts(found.service, "status", "conditions")
    ]
    return Table(("condition", "status", "reason", "since", "message"), rows)


def pools_table(found: Picture) -> Table:
    heads = ("pool", "ready", "up-to-date", "draining", "failed", "bounds", "scaled-by", "revisions")
    return Table(heads, [_pool_row(it) for it in found.pools], frozenset({1, 2, 3, 4}))


def _pool_row(pool: Object) -> list[str]:
    spec, status = part(pool, "spec"), part(pool, "status")
    shares = [
        f"{text(it, 'revision')}: {number(it, 'readyReplicas')}/{number(it, 'replicas')}"
        for it in parts(status, "revisions")
    ]
    return [
        name_of(pool),
        f"{number(status, 'readyReplicas')}/{number(spec, 'replicas', default=1)}",
        str(number(status, "updatedReplicas")),
        str(number(status, "drainingReplicas")),
        str(number(status, "failedReplicas")),
        f"{number(spec, 'minReplicas', default=1)}..{number(spec, 'maxReplicas', default=1)}",
        text(status, "scaledBy"),
        ", ".join(shares),
    ]


def pods(found: Picture, now: float) -> list[PodView]:
    return [pod_view(it, found.events, now) for it in found.pods]


def pods_table(views: Sequence[PodView], now: float) -> Table:
    rows = [[it.name, it.phase, str(it.restarts), it.revision, it.node, age(it.created, now), it.why] for it in views]
    return Table(("pod", "phase", "restarts", "revision", "node", "age", "why"), rows, frozenset({2}))


def starts_table(views: Sequence[PodView]) -> Table:
    """Say how long each part of each start took, or lasts."""
    heads = tuple(dict.fromkeys(phase.name for view in views for phase in view.start))
    rows = [[view.name, *(str(phase) for phase in view.start)] for view in views if view.start]
    filled = [[*row, *[""] * (len(heads) + 1 - len(row))] for row in rows]
    return Table(("start of", *heads), filled, frozenset(range(1, len(heads) + 1)))


def problems(found: Picture) -> list[str]:
    """Return why workloads get no Pods at all: a quota, a policy."""
    explained = ((name_of(it), explain_workload(it)) for it in found.workloads)
    return [f"{name}: {explanation.message}" for name, explanation in explained if explanation is not None]


def events_table(found: Picture, now: float) -> Table:
    rows = [
        [
            age(last_seen(it), now),
            text(it, "type"),
            text(it, "reason"),
            f"{text(it, 'involvedObject', 'kind').lower()}/{text(it, 'involvedObject', 'name')}",
            " ".join(text(it, "message").split()),
        ]
        for it in found.events[-_EVENTS:]
    ]
    return Table(("last", "type", "reason", "object", "message"), rows)


def document(found: Picture, now: float) -> dict[str, Any]:
    """Return everything for programs: objects as they are, and what was made of the Pods."""
    return {
        "service": _bare(found.service),
        "pools": [_bare(it) for it in found.pools],
        "pods": [asdict(it) for it in pods(found, now)],
        "events": [_event(it) for it in found.events],
        "hidden": list(found.hidden),
    }


def _bare(found: Object) -> dict[str, Any]:
    metadata = {key: value for key, value in part(found, "metadata").items() if key != "managedFields"}
    return {**found, "metadata": metadata}


def _event(event: Object) -> dict[str, Any]:
    return {
        "lastSeen": last_seen(event),
        "type": text(event, "type"),
        "reason": text(event, "reason"),
        "object": f"{text(event, 'involvedObject', 'kind')}/{text(event, 'involvedObject', 'name')}",
        "message": text(event, "message"),
        "count": number(event, "count") or number(event, "series", "count", default=1),
    }
