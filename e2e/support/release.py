"""The chart as it is installed for tests: the one image that holds every component, and little of everything."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from e2e.cluster.places import REPOSITORY
from e2e.support.cluster import Cluster

CHART: Final = REPOSITORY / "helm" / "inferplane"
_LIMIT: Final = "120s"


@dataclass(frozen=True, slots=True)
class Release:
    """An installed chart."""

    cluster: Cluster
    name: str
    namespace: str
    image: str

    def install(self, chart: Path = CHART, **changes: Any) -> None:
        """Install or upgrade, and wait until everything is ready; `changes` are top-level values, merged one level."""
        values = _values(self.image)
        for name, change in changes.items():
            values[name] = {**values.get(name, {}), **change} if isinstance(change, Mapping) else change
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(values, file)
            file.flush()
            self.cluster.access.helm(
                *("upgrade", "--install", self.name, str(chart), "--namespace", self.namespace, "--create-namespace"),
                *("--values", file.name, "--wait", "--timeout", _LIMIT),
            )

    def uninstall(self) -> None:
        self.cluster.access.helm("uninstall", self.name, "--namespace", self.namespace, "--wait", "--timeout", _LIMIT)

    def selector(self, component: str) -> str:
        return f"app.kubernetes.io/instance={self.name},inferplane.dev/component={component}"

    def pods(self, component: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.cluster.get(
            "pods", namespace=self.namespace, selector=self.selector(component)
        )["items"]
        return found

    def deployment(self, component: str) -> str:
        (found,) = self.cluster.get("deployments", namespace=self.namespace, selector=self.selector(component))["items"]
        return str(found["metadata"]["name"])

    def account(self, component: str) -> str:
        """Return the user that a component is for the API server."""
        (pod, *_) = self.pods(component)
        return f"system:serviceaccount:{self.namespace}:{pod['spec']['serviceAccountName']}"

    @property
    def url(self) -> str:
        """Return where clients connect: the gateway's Service."""
        (service,) = self.cluster.get("services", namespace=self.namespace, selector=self.selector("gateway"))["items"]
        return f"http://{service['spec']['clusterIP']}:{service['spec']['ports'][0]['port']}"


def _values(image: str) -> dict[str, Any]:
    registry, _, rest = image.partition("/")
    repository, _, tag = rest.rpartition(":")
    ours = {"repository": repository, "tag": tag}
    # requests are promises that one small node could not keep for a dozen Pods
    modest = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}
    return {
        "image": {"registry": registry, "pullPolicy": "IfNotPresent"},
        "operator": {"image": ours, "resources": modest},
        "gateway": {"image": ours, "resources": modest, "drainTimeoutS": 60},
        "planner": {"image": ours, "resources": modest},
        "worker": {"image": ours},
    }
