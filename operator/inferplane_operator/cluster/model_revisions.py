"""The commit that a model's revision stands for: `Observed.model_revision`, asked of a hub once and then kept.

Problem.  A branch moves; a service must not change its weights because the operator was restarted or somebody edited an
objective; and a hub that is slow or away must not hold up anything else.
Idea.  What the status says holds while the model is described as it was.  Otherwise the hub is asked in a task of its
own; the service is looked at again when the answer is there.
What a pinned commit weighs is asked for when another edit is to be carried out on devices, which it may not fit.
Trade-off.  A new service waits for its hub; a known one waits a second, and goes on without an answer.
Invariant.  Equal descriptions that are asked for together are asked once.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from inferplane_api.v1alpha1.conditions import Reason
from inferplane_engine.memory import ModelFacts
from inferplane_operator.cluster.applied import digest
from inferplane_operator.cluster.facts import Gathered
from inferplane_operator.cluster.kinds import SERVICE
from inferplane_operator.cluster.raw import items, part, text
from inferplane_operator.cluster.work_keys import WorkKey
from inferplane_operator.reconcile.values import Manifest, Observed

_PATIENCE_S = 3.0
_PINNED_PATIENCE_S = 1.0
_RETRY_S = 30.0
_KEEP_S = 600.0
_REFUSED = Reason.INVALID_SPEC.value


@dataclass(frozen=True, slots=True)
class Resolution:
    """A commit, or why there is none."""

    revision: str = ""
    problem: str = ""
    facts: ModelFacts | None = None
    """What the model says of itself, where it does."""


class ModelHub(Protocol):
    async def resolve(self, model: Manifest, /) -> Resolution:
        """Resolve `spec.model`; errors are part of the answer."""
        ...


@dataclass(slots=True)
class _Known:
    resolution: Resolution
    at: float


class ModelRevisions:
    """A fact source."""

    def __init__(self, hub: ModelHub, *, now: Callable[[], float], queue: Callable[[WorkKey], None]) -> None:
        self._hub = hub
        self._now = now
        self._queue = queue
        self._known: dict[str, _Known] = {}
        self._asking: dict[str, asyncio.Task[Resolution]] = {}

    async def add_to(self, observed: Observed) -> Gathered:
        model = part(observed.service, "spec", "model")
        if not part(model, "source").get("hf"):
            return Gathered(observed)
        metadata = observed.service["metadata"]
        key = WorkKey(SERVICE.kind, str(metadata.get("namespace", "")), str(metadata["name"]))
        if pinned := pinned_revision(observed):
            found = replace(observed, model_revision=pinned)
            if may_not_fit(observed):
                told = await self._resolve({**model, "revision": pinned}, key, patience_s=_PINNED_PATIENCE_S)
                found = replace(found, model_facts=told.facts)
            return Gathered(found)
        resolution = await self._resolve(model, key)
        again = _RETRY_S if resolution.problem else None
        found = replace(observed, model_revision=resolution.revision, model_problem=resolution.problem)
        found = replace(found, model_facts=resolution.facts)
        return Gathered(found, again)

    def forget(self, namespace: str, name: str) -> None:
        """Answers are about models, not services; they age."""

    async def of_adapters(self, adapters: Sequence[Manifest], key: WorkKey) -> Mapping[str, str]:
        """Return the commits that adapters from a hub resolved to, by object name; `key` is queued for the rest."""
        commits: dict[str, str] = {}
        for adapter in adapters:
            spec = part(adapter, "spec")
            if not part(spec, "source").get("hf"):
                continue
            commit = _pinned_adapter(adapter) or (await self._resolve(_described(spec), key)).revision
            if commit:
                commits[str(adapter["metadata"]["name"])] = commit
        return commits

    async def close(self) -> None:
        for task in self._asking.values():
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)

    async def _resolve(self, model: Manifest, asked_for: WorkKey, *, patience_s: float | None = None) -> Resolution:
        key, now = digest(model), self._now()
        known = self._known.get(key)
        if known is not None and now - known.at < (_RETRY_S if known.resolution.problem else _KEEP_S):
            return known.resolution
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._hub.resolve(model), name="resolve-model")
            task.add_done_callback(lambda done: self._answered(key, done))
        await asyncio.wait({task}, timeout=_PATIENCE_S if patience_s is None else patience_s)
        if task.done():
            return task.result()
        task.add_done_callback(lambda _: self._queue(asked_for))
        return Resolution(problem="the hub has not answered yet")

    def _answered(self, key: str, task: "asyncio.Task[Resolution]") -> None:
        del self._asking[key]
        if not task.cancelled() and task.exception() is None:
            self._known[key] = _Known(task.result(), self._now())


def _described(spec: Manifest) -> Manifest:
    """Return what an adapter's commit depends on."""
    return {key: spec[key] for key in ("source", "revision", "endpoint") if key in spec}


def _pinned_adapter(adapter: Manifest) -> str:
    status, metadata = part(adapter, "status"), part(adapter, "metadata")
    known = status.get("observedGeneration") == metadata.get("generation")
    return text(status, "revision") if known else ""


def may_not_fit(observed: Observed) -> bool:
    """Say whether a spec is to be carried out on devices that has not been: what runs has shown that it fits."""
    service = observed.service
    spec, status = part(service, "spec"), part(service, "status")
    if not any(part(spec, role).get("accelerator") for role in ("prefill", "decode")):
        return False
    if status.get("observedGeneration") != service["metadata"].get("generation"):
        return True
    return _was_refused(status)


def _was_refused(status: Manifest) -> bool:
    return any(it.get("type") == "Ready" and it.get("reason") == _REFUSED for it in items(status, "conditions"))


def pinned_revision(observed: Observed) -> str:
    """Return the commit that the status holds, if it was resolved from this very description of the model."""
    status, metadata = part(observed.service, "status"), part(observed.service, "metadata")
    pinned = text(status, "modelRevision")
    if not pinned:
        return ""
    if status.get("observedGeneration") == metadata.get("generation") and not _was_refused(status):
        return pinned
    model, name = part(observed.service, "spec", "model"), f"{metadata['name']}-{text(status, 'revision')}"
    for revision in observed.histories:
        if revision["metadata"]["name"] == name and part(revision, "data", "spec", "model") == model:
            return pinned
    return ""
