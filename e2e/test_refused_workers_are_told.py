"""What refuses a service's workers is named in its status with the server's words, and when it has gone they come.

The refusals wait side by side, each in a namespace of its own: what takes long is a ReplicaSet's next try.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from e2e.support.cluster import Cluster
from e2e.support.namespaces import namespace_of
from e2e.support.services import Service, sim_service
from e2e.support.waiting import until

pytestmark = pytest.mark.usefixtures("release")


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something that refuses, and what the service says of it."""

    name: str
    kind: str
    spec: dict[str, Any]
    condition: str
    status: str
    reason: str
    words: str

    @property
    def manifest(self) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": self.kind, "metadata": {"name": "obstacle"}, "spec": self.spec}

    def in_force(self, service: Service) -> bool:
        """Whether the server judges by it: a quota is counted first."""
        found = service.cluster.get(self.kind.lower(), "obstacle", namespace=service.namespace)
        return self.kind != "ResourceQuota" or "hard" in found.get("status", {})

    def told(self, service: Service) -> bool:
        found = service.condition(self.condition)
        return (found.get("status"), found.get("reason")) == (self.status, self.reason) and self.words in found[
            "message"
        ]


SMALL = {"limits": [{"type": "Container", "max": {"memory": "8Mi"}}]}
OBSTACLES = (
    Obstacle("no-large-pods", "LimitRange", SMALL, "Ready", "False", "WorkerRefused", "memory limit of 8Mi"),
    Obstacle("no-pods", "ResourceQuota", {"hard": {"pods": "0"}}, "Ready", "False", "QuotaExceeded", "exceeded quota"),
    Obstacle(
        "no-workloads",
        "ResourceQuota",
        {"hard": {"count/deployments.apps": "0"}},
        "Ready",
        "False",
        "WorkerRefused",
        "exceeded quota: obstacle",
    ),
    Obstacle(
        "no-history",
        "ResourceQuota",
        {"hard": {"count/controllerrevisions.apps": "0"}},
        "Degraded",
        "True",
        "NotRecorded",
        "exceeded quota: obstacle",
    ),
)


@pytest.fixture
def hindered(cluster: Cluster) -> Iterator[list[tuple[Obstacle, Service]]]:
    """Give a service for each obstacle, in a namespace where that is in force."""
    with ExitStack() as namespaces:
        made = [
            (each, Service(cluster, namespaces.enter_context(namespace_of(cluster, each.name)), "held"))
            for each in OBSTACLES
        ]
        for obstacle, service in made:
            cluster.apply(obstacle.manifest, namespace=service.namespace)
        for obstacle, service in made:
            until(partial(obstacle.in_force, service), what=f"{obstacle.name} in force")
        yield made


def test_what_refuses_a_worker_is_named_and_its_service_mends_itself(
    cluster: Cluster, hindered: list[tuple[Obstacle, Service]]
) -> None:
    for _, service in hindered:
        service.apply(sim_service(service.name, prefill=0, served=service.namespace))
    for obstacle, service in hindered:
        until(partial(obstacle.told, service), what=f"the word of {obstacle.name}")
    (unnoted,) = (service for obstacle, service in hindered if obstacle.condition == "Degraded")
    unnoted.wait_ready()  # there is nothing to go back to, and that is all
    for obstacle, service in hindered:
        cluster.kubectl("delete", obstacle.kind.lower(), "obstacle", "-n", service.namespace)
    unnoted.edit(slo={"ttft": "3s"})  # or wait a minute for the next look

    for obstacle, service in hindered:
        service.wait_ready()
        until(partial(as_specified, service), what=f"no word of {obstacle.name} any more")


def as_specified(service: Service) -> bool:
    return bool(service.condition("Degraded")["status"] == "False")
