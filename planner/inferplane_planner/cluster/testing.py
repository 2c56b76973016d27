"""Objects as an API server sends them, and one that takes the writes of a planner."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inferplane_api.claims import Key
from inferplane_planner.cluster.tables import Tables
from inferplane_planner.cluster.world import Knowledge, KubeWorld, Permission
from inferplane_runtime.kube.api import Call
from inferplane_runtime.kube.errors import AbsentError, ConflictError, KubeError
from inferplane_runtime.kube.leadership import NotLeadingError

Object = dict[str, Any]
START = "2026-01-01T00:00:00Z"
WALL_S = 1_767_225_600.0
"""The same moment."""


def wrote(manager: str, name: str, at: str, subresource: str = "") -> Object:
    """Return an entry of managedFields for `spec.NAME`."""
    return {
        "manager": manager,
        "time": at,
        "fieldsV1": {"f:spec": {f"f:{name}": {}}},
        **({"subresource": subresource} if subresource else {}),
    }


def service(name: str = "chat", *, mode: str = "slo", status: Object | None = None, **spec: Any) -> Object:
    """Return an InferenceService with a prefill and a decode pool."""
    return {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {
            "namespace": "team",
            "name": name,
            "uid": f"uid-{name}",
            "generation": 1,
            "managedFields": [wrote("kubectl-client-side-apply", "scaling", START)],
        },
        "spec": {
            "model": {"name": "m"},
            "engine": {"type": "sim", "sim": {"profile": "l40s-8b"}},
            "slo": {"ttft": "2s", "tpot": "100ms", "percentile": 95},
            "mode": "disaggregated",
            "prefill": {"replicas": 1, "maxReplicas": 4},
            "decode": {"replicas": 1, "maxReplicas": 6},
            "scaling": {"mode": mode},
            **spec,
        },
        **({"status": status} if status else {}),
    }


def pool(role: str, *, of: str = "chat", replicas: int = 1, ready: int = 1, **status: Any) -> Object:
    """Return a pool that the service controls, as the operator made it."""
    return {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": f"{role.capitalize()}Pool",
        "metadata": {
            "namespace": "team",
            "name": f"{of}-{role}",
            "uid": f"uid-{of}-{role}",
            "ownerReferences": [{"controller": True, "kind": "InferenceService", "name": of, "uid": f"uid-{of}"}],
            "managedFields": [wrote("inferplane-operator-create", "replicas", START)],
        },
        "spec": {"service": of, "replicas": replicas},
        "status": {"readyReplicas": ready, **status},
    }


def endpoints(*addresses: str, serving: bool = True, terminating: bool = False) -> Object:
    """Return a slice of the routers' endpoints."""
    return {
        "kind": "EndpointSlice",
        "metadata": {"namespace": "system", "name": "gateway-abc", "uid": "uid-slice"},
        "endpoints": [
            {"addresses": [address], "conditions": {"serving": serving, "terminating": terminating}}
            for address in addresses
        ],
    }


@dataclass(slots=True)
class FakeCalls:
    """Keeps scales and a Lease; `failures` are raised by the next calls, None lets one through."""

    scales: dict[str, Object] = field(default_factory=dict[str, Object])
    """By path."""
    lease: Object | None = None
    calls: list[Call] = field(default_factory=list[Call])
    failures: list[KubeError | None] = field(default_factory=list[KubeError | None])

    def hold(self, found: Object) -> None:
        """Let a pool be scaled."""
        metadata = found["metadata"]
        plural = f"{found['kind'].lower()}s"
        path = f"/apis/inferplane.dev/v1alpha1/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}/scale"
        known = {"uid": metadata["uid"], "resourceVersion": "7"}
        self.scales[path] = {"metadata": known, "spec": {"replicas": found["spec"]["replicas"]}}

    def written(self, ending: str) -> list[Mapping[str, Any]]:
        """Return what was written to paths with this ending."""
        return [call.body or {} for call in self.calls if call.method != "GET" and call.path.endswith(ending)]

    async def call(self, call: Call) -> Mapping[str, Any]:
        self.calls.append(call)
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        if call.path.endswith("/scale"):
            return self._scale(call)
        if "/leases" in call.path:
            return self._leased(call)
        return call.body or {}

    def _scale(self, call: Call) -> Mapping[str, Any]:
        if call.path not in self.scales:
            raise AbsentError(f"{call.path}: 404: not found")
        scale = self.scales[call.path]
        if call.body is not None:
            if call.body["metadata"]["resourceVersion"] != scale["metadata"]["resourceVersion"]:
                raise ConflictError(f"{call.path}: 409: the object has been modified")
            scale["spec"] = dict(call.body["spec"])
        return scale

    def _leased(self, call: Call) -> Mapping[str, Any]:
        if call.method == "GET" and self.lease is None:
            raise AbsentError(f"{call.path}: 404: not found")
        if call.method == "POST" and self.lease is not None:
            raise ConflictError(f"{call.path}: 409: already exists")
        if call.body is not None:
            self.lease = dict(call.body)
        return self.lease or {}


def holding(*objects: Object) -> Tables:
    """Return tables that hold these."""
    tables = Tables(routers="gateway", router_port=9000)
    by_kind: Mapping[str, Any] = {
        "InferenceService": tables.services,
        "PrefillPool": tables.prefill_pools,
        "DecodePool": tables.decode_pools,
        "EndpointSlice": tables.slices,
    }
    for table in by_kind.values():
        table.listed = True
    for each in objects:
        by_kind[each["kind"]].put(each)
    return tables


def world(tables: Tables, calls: FakeCalls | None = None, *, leads: bool = True, now: float = 1000.0) -> KubeWorld:
    """Return service `chat` of these tables; times do not pass."""

    def check() -> None:
        if not leads:
            raise NotLeadingError("the Lease is not held")

    return KubeWorld(
        Key("team", "chat"),
        tables,
        calls or FakeCalls(),
        Knowledge(5.0, {}, {}),
        Permission(lambda: leads, check),
        now=lambda: now,
        wall=lambda: WALL_S,
    )
