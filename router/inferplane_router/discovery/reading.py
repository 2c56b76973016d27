"""From an object as the API server sends it to the record that is kept of it.

Custom resources are validated once per generation, which an API server raises with every change of a spec: the status
that an operator writes every few seconds costs no validation.  One that this version cannot carry out becomes a record
that says why; it breaks nothing else.
"""

from collections.abc import Mapping
from typing import Any, Final

from inferplane_api import workload
from inferplane_api.catalogue_entries import catalogue_routes, catalogue_service
from inferplane_api.claims import Key
from inferplane_api.v1alpha1.inference_service import InferenceService
from inferplane_api.v1alpha1.lora_adapter import LoRAAdapter
from inferplane_api.v1alpha1.model_route import ModelRoute
from inferplane_api.v1alpha1.stored import StoredObjectError, read_stored
from inferplane_router.discovery.records import (
    AdapterRecord,
    Controller,
    Owned,
    PodRecord,
    RouteRecord,
    ServiceRecord,
)
from inferplane_runtime.kube.table import uid_of

Raw = Mapping[str, Any]
_OVER: Final = ("Succeeded", "Failed")


def read_owned(kind: str, raw: Raw) -> Owned:
    metadata: Raw = raw["metadata"]
    return Owned(kind, _key(metadata), uid_of(raw), _controller(metadata))


def read_pod(raw: Raw, _before: PodRecord | None = None) -> PodRecord:
    metadata: Raw = raw["metadata"]
    labels: Raw = metadata.get("labels") or {}
    status: Raw = raw.get("status") or {}
    ports = _agent_ports(raw.get("spec") or {})
    return PodRecord(
        owned=read_owned("Pod", raw),
        address=str(status.get("podIP") or ""),
        over=status.get("phase") in _OVER,
        revision=str(labels.get(workload.LABEL_REVISION, "")),
        http_port=ports.get(workload.HTTP_PORT_NAME, workload.DEFAULT_HTTP_PORT),
        stream_port=ports.get(workload.STREAM_PORT_NAME, workload.DEFAULT_STREAM_PORT),
    )


def read_service(raw: Raw, before: ServiceRecord | None) -> ServiceRecord:
    uid, generation, since, key = _identity(raw)
    if before is not None and _is_same(before.uid, before.generation, raw):
        return before
    try:
        entry = catalogue_service(read_stored(InferenceService, raw))
    except StoredObjectError as error:
        return ServiceRecord(key, uid, generation, since, None, str(error))
    return ServiceRecord(key, uid, generation, since, entry)


def read_adapter(raw: Raw, before: AdapterRecord | None) -> AdapterRecord:
    uid, generation, since, key = _identity(raw)
    if before is not None and _is_same(before.uid, before.generation, raw):
        return before
    try:
        adapter = read_stored(LoRAAdapter, raw)
    except StoredObjectError as error:
        return AdapterRecord(key, uid, generation, since, problem=str(error))
    return AdapterRecord(key, uid, generation, since, adapter.spec.service, adapter.served_name)


def read_route(raw: Raw, before: RouteRecord | None) -> RouteRecord:
    uid, generation, since, key = _identity(raw)
    if before is not None and _is_same(before.uid, before.generation, raw):
        return before
    try:
        entries = catalogue_routes((read_stored(ModelRoute, raw),))
    except StoredObjectError as error:
        return RouteRecord(key, uid, generation, since, problem=str(error))
    return RouteRecord(key, uid, generation, since, entries)


def _identity(raw: Raw) -> tuple[str, int, str, Key]:
    metadata: Raw = raw["metadata"]
    generation = int(metadata.get("generation") or 0)
    return uid_of(raw), generation, str(metadata.get("creationTimestamp") or ""), _key(metadata)


def _is_same(uid: str, generation: int, raw: Raw) -> bool:
    return generation > 0 and uid == uid_of(raw) and generation == raw["metadata"].get("generation")


def _key(metadata: Raw) -> Key:
    return Key(str(metadata.get("namespace") or ""), str(metadata["name"]))


def _controller(metadata: Raw) -> Controller | None:
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            return Controller(str(owner["kind"]), str(owner["name"]), str(owner["uid"]))
    return None


def _agent_ports(spec: Raw) -> dict[str, int]:
    """Find the ports that the Pod's agent says it listens on: a user's own Pod template may have moved them."""
    containers: list[Raw] = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    of_agent: list[Raw] = []
    for container in containers:
        if container.get("name") == workload.AGENT_CONTAINER:
            of_agent += container.get("ports") or ()
    return {str(port["name"]): int(port["containerPort"]) for port in of_agent if port.get("name")}
