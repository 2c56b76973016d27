"""What is said of each LoRAAdapter of a service: where it is loaded, and what is in the way elsewhere.  Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from inferplane_api.v1alpha1 import LoRAAdapter
from inferplane_api.v1alpha1.conditions import ConditionType, Reason
from inferplane_api.v1alpha1.lora_adapter import AdapterState
from inferplane_operator.reconcile.adapter import AdapterWorker, Reported, WantedAdapter, fitting, missing
from inferplane_operator.reconcile.statuses import Said, conditions_of, dated, status_patch, transitions, truth
from inferplane_operator.reconcile.values import Event, Manifest, Merge

_MOST_WORKERS: Final = 64
_MESSAGE: Final = 1_000
_TROUBLE_FIRST: Final = (
    AdapterState.FAILED,
    AdapterState.FULL,
    AdapterState.NO_ROOM,
    AdapterState.UNREACHABLE,
    AdapterState.LOADING,
    AdapterState.LOADED,
)
_STATES: Final = {
    Reported.LOADED: AdapterState.LOADED,
    Reported.LOADING: AdapterState.LOADING,
    Reported.FAILED: AdapterState.FAILED,
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why an adapter is loaded nowhere, decided before any worker is looked at."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class OnWorker:
    """One adapter on one worker."""

    worker: str
    state: AdapterState
    revision: str = ""
    message: str = ""

    @property
    def wire(self) -> dict[str, str]:
        said = {"name": self.worker, "state": self.state.value}
        said |= {"revision": self.revision} if self.revision else {}
        return said | ({"message": self.message[:_MESSAGE]} if self.message else {})


@dataclass(frozen=True, slots=True)
class AdapterPicture:
    """One LoRAAdapter and what came of it."""

    found: Manifest
    service: str
    wanted: WantedAdapter | None = None
    verdict: Verdict | None = None
    workers: Sequence[OnWorker] = field(default=())

    @property
    def loaded(self) -> int:
        return sum(each.state is AdapterState.LOADED for each in self.workers)


def on_workers(
    wanted: WantedAdapter, all_wanted: Sequence[WantedAdapter], workers: Sequence[AdapterWorker]
) -> list[OnWorker]:
    return [_on_worker(wanted, all_wanted, worker) for worker in workers]


def _on_worker(wanted: WantedAdapter, all_wanted: Sequence[WantedAdapter], worker: AdapterWorker) -> OnWorker:
    if worker.problem:
        return OnWorker(worker.name, AdapterState.UNREACHABLE, message=worker.problem)
    if lacking := missing(wanted, worker.offers):
        return OnWorker(worker.name, AdapterState.NO_ROOM, message=lacking)
    limit = worker.offers.max_adapters if worker.offers is not None else 0
    if wanted not in fitting(all_wanted, limit):
        return OnWorker(worker.name, AdapterState.FULL, message=f"it holds {limit} adapters, and others come first")
    report = worker.report(wanted.name)
    if report is None:
        return OnWorker(worker.name, AdapterState.LOADING)
    state = _STATES[report.state] if report.is_of(wanted) else AdapterState.LOADING
    return OnWorker(worker.name, state, report.serving or "", report.error)


def status_of(picture: AdapterPicture, *, now: str) -> tuple[tuple[Merge, ...], list[Event]]:
    """Return the patch of the status and what people are told; nothing where nothing changed."""
    found = picture.found
    generation = int(found["metadata"].get("generation", 0))
    conditions = dated([_ready(picture)], conditions_of(found), generation=generation, now=now)
    entries = sorted(picture.workers, key=lambda each: (_TROUBLE_FIRST.index(each.state), each.worker))
    status: Mapping[str, Any] = {
        "observedGeneration": generation,
        "conditions": conditions,
        "revision": picture.wanted.revision if picture.wanted is not None else None,
        "loadedOn": picture.loaded,
        "wantedOn": len(picture.workers),
        "workers": [each.wire for each in entries[:_MOST_WORKERS]] or None,
    }
    return status_patch(found, status), transitions(found, conditions)


def _ready(picture: AdapterPicture) -> Said:
    reason, message = reason_of(picture)
    return Said(ConditionType.READY, truth(reason is Reason.ADAPTER_LOADED), reason, message)


def reason_of(picture: AdapterPicture) -> tuple[Reason, str]:
    """Say in one word and in a sentence how it stands."""
    if picture.verdict is not None:
        return picture.verdict.reason, picture.verdict.message
    total, loaded = len(picture.workers), picture.loaded
    count = f"loaded on {loaded} of {total} workers"
    if not total:
        return Reason.NO_READY_WORKERS, f"no worker of service {picture.service} is ready"
    if loaded == total:
        return Reason.ADAPTER_LOADED, count
    for state, reason in _REASONS.items():
        first = next((each for each in picture.workers if each.state is state), None)
        if first is not None:
            return reason, f"{count}; {first.worker}: {first.message}{_HINTS.get(state, '')}"
    return Reason.ADAPTER_LOADING, count


_REASONS: Final = {
    AdapterState.FAILED: Reason.ADAPTER_FAILED,
    AdapterState.FULL: Reason.ADAPTERS_FULL,
    AdapterState.NO_ROOM: Reason.ROLLING_OUT,
    AdapterState.UNREACHABLE: Reason.WORKERS_FAILED,
}
_HINTS: Final = {
    AdapterState.FULL: "; raise spec.engine.lora.maxAdapters of the service, or delete one",
    AdapterState.NO_ROOM: "; workers of the service's next revision have it",
}


def refused(adapter: LoRAAdapter, *, base_names: Sequence[str], holder: str, max_rank: int | None) -> Verdict | None:
    """Say why an adapter cannot be offered at all; `holder` is who has its name, max_rank what the service allows."""
    name, rank = adapter.served_name, adapter.spec.rank
    if name in base_names:
        words = f"{name} is a served name of service {adapter.spec.service} itself; set spec.servedName"
        return Verdict(Reason.SERVED_NAME_CONFLICT, words)
    if holder:
        return Verdict(
            Reason.SERVED_NAME_CONFLICT, f"{name} is served by {holder}, which is older; set spec.servedName"
        )
    if max_rank is not None and rank > max_rank:
        fix = "raise it there (its workers restart), or train the adapter with a smaller rank"
        words = f"spec.rank {rank} is more than spec.engine.lora.maxRank {max_rank} of service {adapter.spec.service}"
        return Verdict(Reason.INVALID_SPEC, f"{words}; {fix}")
    return None
