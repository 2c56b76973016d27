"""All adapters of one InferenceService at one moment: from raw objects to calls, statuses and Events.  Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inferplane_api.v1alpha1 import InferenceService, LoRAAdapter
from inferplane_api.v1alpha1.conditions import Reason
from inferplane_api.v1alpha1.stored import StoredObjectError, read_stored
from inferplane_operator.reconcile.adapter import (
    AdapterCall,
    AdapterWorker,
    Attempt,
    LoadAdapter,
    Reported,
    WantedAdapter,
    calls_for,
    wanted_of,
)
from inferplane_operator.reconcile.adapter_status import AdapterPicture, Verdict, on_workers, refused, status_of
from inferplane_operator.reconcile.pending import is_ready
from inferplane_operator.reconcile.values import Event, Manifest, Merge, Observed
from inferplane_operator.render.adapter_need import offered_by
from inferplane_operator.render.multi_node import COMPONENT as FOLLOWER
from inferplane_operator.render.names import DEFAULT_CONTROL_PORT, LABEL_COMPONENT


@dataclass(frozen=True, slots=True)
class AdaptersOutcome:
    calls: Sequence[AdapterCall] = ()
    status: Sequence[Merge] = ()
    events: Sequence[Event] = ()
    busy: bool = False
    """Something is being loaded, or was told to be: look again soon."""


def workers_of(observed: Observed) -> list[AdapterWorker]:
    """Return the workers that adapters go to: ready ones, by their Pods; none has been asked yet."""
    return [_worker(pod) for pod in sorted(observed.pods, key=lambda pod: str(pod["metadata"]["name"])) if _serves(pod)]


def reconcile_adapters(
    observed: Observed,
    workers: Sequence[AdapterWorker],
    *,
    commits: Mapping[str, str] | None = None,
    resting: Collection[Attempt] = (),
) -> AdaptersOutcome:
    """Decide for one service; `commits` says what the revisions of adapters from a hub resolved to, by object name."""
    service = _service(observed)
    pictures = _judged(observed, service, commits or {})
    wanted = [each.wanted for each in pictures if each.wanted is not None and each.verdict is None]
    calls = calls_for(wanted, workers, resting=resting)
    told: list[tuple[tuple[Merge, ...], list[Event]]] = []
    for picture in pictures:
        placed = picture.wanted is not None and picture.verdict is None
        seen = on_workers(picture.wanted, wanted, workers) if placed and picture.wanted is not None else []
        whole = AdapterPicture(picture.found, picture.service, picture.wanted, picture.verdict, seen)
        told.append(status_of(whole, now=observed.now))
    return AdaptersOutcome(
        calls=calls,
        status=[merge for merges, _ in told for merge in merges],
        events=[event for _, events in told for event in events],
        busy=any(isinstance(call, LoadAdapter) for call in calls) or _loading(workers),
    )


def orphaned(adapter: Manifest, *, now: str) -> AdaptersOutcome:
    """Decide for an adapter whose service does not exist."""
    spec: Mapping[str, Any] = adapter.get("spec") or {}
    service = str(spec.get("service", ""))
    words = f"there is no InferenceService {service} in this namespace"
    picture = AdapterPicture(adapter, service, verdict=Verdict(Reason.SERVICE_NOT_FOUND, words))
    status, events = status_of(picture, now=now)
    return AdaptersOutcome(status=status, events=events)


@dataclass(frozen=True, slots=True)
class _Names:
    """Who has which served name already."""

    base: Sequence[str]
    lost: Mapping[str, str]
    taken: dict[str, str] = field(default_factory=dict[str, str])

    def holder(self, adapter: LoRAAdapter) -> str:
        name = adapter.served_name
        other = self.taken.setdefault(name, adapter.metadata.name)
        return self.lost.get(name) or ("" if other == adapter.metadata.name else f"LoRAAdapter {other}")


def _judged(observed: Observed, service: InferenceService | None, commits: Mapping[str, str]) -> list[AdapterPicture]:
    lost = {claim.name: f"service {claim.holder.namespace}/{claim.holder.name}" for claim in observed.lost_names}
    names = _Names(service.spec.model.all_served_names if service is not None else (), lost)
    living = [found for found in observed.adapters if not found["metadata"].get("deletionTimestamp")]
    return [_judge(found, service, names, commits) for found in sorted(living, key=_age)]


def _judge(
    found: Manifest, service: InferenceService | None, names: _Names, commits: Mapping[str, str]
) -> AdapterPicture:
    about = str(found["spec"].get("service", ""))
    try:
        adapter = read_stored(LoRAAdapter, found)
    except StoredObjectError as error:
        return AdapterPicture(found, about, verdict=Verdict(Reason.INVALID_SPEC, str(error)))
    room = service.spec.engine.lora if service is not None else None
    verdict = refused(
        adapter,
        base_names=names.base,
        holder=names.holder(adapter),
        max_rank=room.max_rank if room is not None else None,
    )
    wanted: WantedAdapter | None = wanted_of(adapter, commit=commits.get(adapter.metadata.name, ""))
    return AdapterPicture(found, about, wanted, verdict)


def _service(observed: Observed) -> InferenceService | None:
    try:
        return read_stored(InferenceService, observed.service)
    except StoredObjectError:
        return None  # its own status says so; what it serves goes on


def _loading(workers: Sequence[AdapterWorker]) -> bool:
    return any(each.state is Reported.LOADING for worker in workers for each in worker.adapters)


def _age(found: Manifest) -> tuple[str, str]:
    metadata: Mapping[str, Any] = found["metadata"]
    return str(metadata.get("creationTimestamp") or "~"), str(metadata["name"])


def _serves(pod: Manifest) -> bool:
    labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
    going = bool(pod["metadata"].get("deletionTimestamp"))
    return is_ready(pod) and not going and bool(_address(pod)) and labels.get(LABEL_COMPONENT) != FOLLOWER


def _worker(pod: Manifest) -> AdapterWorker:
    metadata, address = pod["metadata"], _address(pod)
    host = f"[{address}]" if ":" in address else address
    return AdapterWorker(
        str(metadata["name"]), f"{host}:{DEFAULT_CONTROL_PORT}", offered_by(metadata.get("annotations"))
    )


def _address(pod: Manifest) -> str:
    status: Mapping[str, Any] = pod.get("status") or {}
    return str(status.get("podIP") or "")
