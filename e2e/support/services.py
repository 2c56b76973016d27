"""InferenceServices as tests use them: simulated engines that are small, quick and always say the same."""

import json
from dataclasses import dataclass
from typing import Any, Final

from e2e.support.cluster import Cluster
from e2e.support.waiting import until

_MODEST: Final = {"requests": {"cpu": "10m", "memory": "64Mi"}}
_AGENT: Final = {"name": "agent", "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}}}


def sim_service(name: str, *, prefill: int = 1, decode: int = 1, served: str = "", **spec: Any) -> dict[str, Any]:
    """Return a manifest; without prefill workers the service is aggregated."""
    pools: dict[str, Any] = {"decode": _pool(decode)}
    if prefill:
        pools["prefill"] = _pool(prefill)
    return {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": {
            "model": {"name": "inferplane/sim", "servedNames": [served or name]},
            "engine": {"type": "sim", "blockSize": 16, "maxModelLen": 8192, "sim": {"profile": "cpu-test", "seed": 7}},
            "mode": "disaggregated" if prefill else "aggregated",
            "drainTimeout": "60s",
            **pools,
            **spec,
        },
    }


def _pool(replicas: int) -> dict[str, Any]:
    # the agent's requests are for real traffic; one small node has to hold a dozen of them
    template = {"spec": {"initContainers": [_AGENT]}}
    return {"replicas": replicas, "maxReplicas": 8, "resources": _MODEST, "podTemplate": template}


@dataclass(frozen=True, slots=True)
class Service:
    """An InferenceService in the cluster."""

    cluster: Cluster
    namespace: str
    name: str

    @property
    def object(self) -> dict[str, Any]:
        return self.cluster.get("inferenceservices.inferplane.dev", self.name, namespace=self.namespace)

    def apply(self, manifest: dict[str, Any]) -> None:
        self.cluster.apply(manifest, namespace=self.namespace)

    def edit(self, **spec: Any) -> None:
        """Change some fields of the spec, as `kubectl edit` does, and leave the others."""
        kind, patch = "inferenceservices.inferplane.dev", json.dumps({"spec": spec})
        self.cluster.kubectl("patch", kind, self.name, "-n", self.namespace, "--type=merge", "--patch", patch)

    def wait_ready(self, limit_s: float = 120) -> None:
        """Wait until the object says that it serves with its present spec, as `kubectl wait` does."""
        kind = f"inferenceservices.inferplane.dev/{self.name}"
        self.cluster.wait(kind, "condition=Ready", namespace=self.namespace, limit_s=limit_s)
        until(self.is_current, limit_s, what="Ready for the present generation")

    def is_current(self) -> bool:
        found = self.object
        (ready,) = (each for each in found["status"]["conditions"] if each["type"] == "Ready")
        return bool(ready["status"] == "True" and ready["observedGeneration"] == found["metadata"]["generation"])

    def condition(self, kind: str) -> dict[str, Any]:
        conditions: list[dict[str, Any]] = self.object.get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == kind), dict[str, Any]())

    def pods(self, role: str = "") -> list[dict[str, Any]]:
        selector = f"inferplane.dev/service={self.name}" + (f",inferplane.dev/role={role}" if role else "")
        found: list[dict[str, Any]] = self.cluster.get("pods", namespace=self.namespace, selector=selector)["items"]
        return found

    def ready_pods(self, role: str = "") -> list[dict[str, Any]]:
        return [pod for pod in self.pods(role) if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]]

    def uids(self, role: str = "") -> set[str]:
        return {pod["metadata"]["uid"] for pod in self.pods(role)}

    def restarts(self) -> int:
        statuses = [
            status
            for pod in self.pods()
            for kind in ("initContainerStatuses", "containerStatuses")
            for status in pod["status"].get(kind, ())
        ]
        return sum(status["restartCount"] for status in statuses)


def is_ready(pod: dict[str, Any]) -> bool:
    conditions: list[dict[str, str]] = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
