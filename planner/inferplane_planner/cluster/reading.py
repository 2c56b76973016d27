"""From an object as the API server sends it to the record that is kept of it."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from inferplane_api.claims import Key
from inferplane_api.v1alpha1.conditions import Reason
from inferplane_api.v1alpha1.inference_service import InferenceService
from inferplane_api.v1alpha1.stored import StoredObjectError, read_stored
from inferplane_api.v1alpha1.units import parse_duration
from inferplane_planner.cluster.records import PoolRecord, RouterRecord, ServiceRecord, Written

Raw = Mapping[str, Any]
TOLD: Final = ("slo", "plan", "routing")
"""Fields of a service's status that a planner writes, and nobody else."""
_WAITING: Final = frozenset({Reason.NO_ROOM, Reason.UNSCHEDULABLE, Reason.QUOTA_EXCEEDED})
_PHASES: Final = ("scheduled", "initialized", "started", "ready")


def read_service(raw: Raw, before: ServiceRecord | None) -> ServiceRecord:
    """Read a service; its spec is validated once a generation."""
    metadata: Raw = raw["metadata"]
    uid, generation = str(metadata["uid"]), int(metadata.get("generation") or 0)
    spec, problem = None, ""
    if before is not None and (before.uid, before.generation) == (uid, generation):
        spec, problem = before.spec, before.problem
    else:
        try:
            spec = read_stored(InferenceService, raw).spec
        except StoredObjectError as error:
            problem = str(error)
    status: Raw = raw.get("status") or {}
    return ServiceRecord(
        key=_key(metadata),
        uid=uid,
        generation=generation,
        spec=spec,
        problem=problem,
        scaling_set=last_written(metadata.get("managedFields") or (), "scaling"),
        told={name: status[name] for name in TOLD if name in status},
    )


def read_pool(raw: Raw, _before: PoolRecord | None = None) -> PoolRecord:
    metadata: Raw = raw["metadata"]
    spec: Raw = raw.get("spec") or {}
    status: Raw = raw.get("status") or {}
    start_up: Raw = status.get("startup") or {}
    return PoolRecord(
        key=_key(metadata),
        uid=str(metadata["uid"]),
        service_uid=_controller(metadata),
        replicas=int(spec.get("replicas", 1)),
        ready=int(status.get("readyReplicas") or 0),
        waits_for=_waits_for(status.get("conditions") or ()),
        started=str(start_up.get("worker", "")),
        start_up_s=sum(parse_duration(str(start_up[phase])) for phase in _PHASES if phase in start_up),
        replicas_set=last_written(metadata.get("managedFields") or (), "replicas"),
    )


def read_routers(raw: Raw, _before: RouterRecord | None = None) -> RouterRecord:
    """Keep routers that serve, and those that are about to end: they have requests to tell of yet."""
    found = [str(each["addresses"][0]) for each in raw.get("endpoints") or () if each.get("addresses") and _tells(each)]
    return RouterRecord(_key(raw["metadata"]), tuple(sorted(found)))


def _tells(endpoint: Raw) -> bool:
    conditions: Raw = endpoint.get("conditions") or {}
    return bool(conditions.get("serving", True) or conditions.get("terminating"))


def last_written(entries: Iterable[Raw], name: str) -> Written:
    """Return who wrote `spec.NAME` last, whichever subresource that went through."""
    found = [
        (str(entry.get("time", "")), str(entry.get("manager", "")))
        for entry in entries
        if f"f:{name}" in _fields(entry)
    ]
    at, manager = max(found, default=("", ""))
    return Written(manager, at)


def _fields(entry: Raw) -> Raw:
    """Return the fields of the spec that an entry of managedFields names."""
    fields: Raw = entry.get("fieldsV1") or {}
    return fields.get("f:spec") or {}


def _waits_for(conditions: Iterable[Raw]) -> str:
    reasons = [str(condition.get("reason")) for condition in conditions if condition.get("type") != "Progressing"]
    return next((reason for reason in reasons if reason in _WAITING), "")


def _controller(metadata: Raw) -> str:
    owners = metadata.get("ownerReferences") or ()
    return next((str(owner["uid"]) for owner in owners if owner.get("controller")), "")


def _key(metadata: Raw) -> Key:
    return Key(str(metadata.get("namespace", "")), str(metadata["name"]))
