"""Which revision the workers of a service shall have, and the templates that it is made of.

Problem.  The revision that a spec asks for is not always the one to roll out: it failed before, a freeze holds it, the
model's commit is not known yet.
Idea.  All of that is read from objects (annotations, the status of before), so that a restart forgets nothing.  A
revision that was rendered once keeps its templates, from its ControllerRevision, its pool or its Deployment, in this
order, so that a newer operator restarts no engine.
Invariant.  A target has a template for each of its pools; a revision whose templates are lost is no target.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from inferplane_api.catalogue import WorkerRole
from inferplane_api.v1alpha1 import InferenceService
from inferplane_operator.reconcile.history import Entry, Hold, Target
from inferplane_operator.reconcile.reading import annotations, section
from inferplane_operator.reconcile.values import Manifest, Observed
from inferplane_operator.reconcile.workers import Workload
from inferplane_operator.render.objects import POOL_KINDS, UNRENDERED
from inferplane_operator.render.values import RenderedService

PAUSED: Final = "inferplane.dev/paused"
FREEZE: Final = "inferplane.dev/freeze"
RETRY: Final = "inferplane.dev/retry"
"""Another value than before rolls a failed revision out once more."""
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_ROLES: Final = {kind: role for role, kind in POOL_KINDS.items()}


def flag(service: Manifest, name: str) -> bool:
    """Whether an annotation is there and does not say no."""
    return annotations(service).get(name, "false").lower() not in ("false", "")


def role_of(pool: Manifest) -> WorkerRole:
    return _ROLES[str(pool["kind"])]


def current_revision(pools: Sequence[Manifest], status: Mapping[str, Any]) -> str:
    """Return what the pools were told last, "" before the first time."""
    told = {str(pool["spec"].get("revision", UNRENDERED)) for pool in pools} - {UNRENDERED}
    if len(told) == 1:
        return told.pop()
    return str(status.get("revision") or min(told, default=""))


def unresolved(service: InferenceService, observed: Observed) -> bool:
    """Whether the model's revision is a branch or a tag whose commit is not known."""
    model = service.spec.model
    if model.source is None or model.source.hf is None or observed.model_revision:
        return False
    return not _COMMIT.fullmatch(model.revision)


def failed_before(service: Manifest, revision: str) -> bool:
    """Whether this revision was rolled out, failed, and nobody asked for another attempt since."""
    status: Mapping[str, Any] = section(service, "status")
    return (
        bool(revision)
        and status.get("failedRevision") == revision
        and status.get("failedAttempt", "") == attempt(service)
    )


def attempt(service: Manifest) -> str:
    return annotations(service).get(RETRY, "")


@dataclass(frozen=True, slots=True)
class Sources:
    """Where templates are looked for."""

    rendered: RenderedService
    known: Mapping[str, Entry]
    pools: Sequence[Manifest]
    workloads: Sequence[Workload]

    def templates(self, revision: str) -> Mapping[WorkerRole, Mapping[str, Any]]:
        """Return a template for each pool of a revision, {} where one is lost."""
        fresh = {pool.role: pool.pod_template for pool in self.rendered.pools}
        wanted = revision == self.rendered.revision
        kept = self._kept(revision)
        return {role: kept.get(role, template) for role, template in fresh.items()} if wanted else kept

    def _kept(self, revision: str) -> dict[WorkerRole, Mapping[str, Any]]:
        entry = self.known.get(revision)
        if entry is not None and entry.templates:
            return {WorkerRole(role): template for role, template in entry.templates.items()}
        roles = {str(pool["metadata"]["name"]): role_of(pool) for pool in self.pools}
        running = {
            roles[workload.pool]: workload.template
            for workload in self.workloads
            if workload.revision == revision and workload.pool in roles
        }
        told = {
            role_of(pool): pool["spec"]["podTemplate"]
            for pool in self.pools
            if pool["spec"].get("revision") == revision
        }
        return {**running, **told}


def target_of(service: InferenceService, observed: Observed, sources: Sources) -> Target:
    raw, wanted = observed.service, sources.rendered.revision
    status: Mapping[str, Any] = section(raw, "status")
    current = current_revision(observed.pools, status)
    if unresolved(service, observed):
        return _held(sources, current, Hold.UNRESOLVED) or Target("", {}, Hold.UNRESOLVED)
    if flag(raw, FREEZE) and current not in ("", wanted) and (held := _held(sources, current, Hold.FROZEN)):
        return held
    stable = str(status.get("stableRevision") or "")
    if failed_before(raw, wanted) and stable != wanted and (held := _held(sources, stable, Hold.FAILED)):
        return held
    return Target(wanted, sources.templates(wanted))


def _held(sources: Sources, revision: str, hold: Hold) -> Target | None:
    templates = sources.templates(revision) if revision else None
    return Target(revision, templates, hold) if templates else None
