"""What a worker waits for is named in its service's status and in an Event, in words of a real scheduler and kubelet.

All services wait side by side in one namespace; two of them mend themselves when what they lack has come.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from e2e.support.cluster import Cluster
from e2e.support.services import Service, sim_service
from e2e.support.waiting import until

pytestmark = pytest.mark.usefixtures("release")

WEIGHTS = {"accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "1Mi"}}}
"""Of a cluster that has no StorageClass."""


@dataclass(frozen=True, slots=True)
class Lack:
    """A service without something, the sentence that says so, and what brings it."""

    name: str
    pool: dict[str, Any]
    reason: str
    words: str
    remedy: dict[str, Any] | None = None

    def manifest(self) -> dict[str, Any]:
        made = copy.deepcopy(sim_service(self.name, prefill=0))
        pool = made["spec"]["decode"]
        pool["resources"] |= self.pool.get("resources", {})
        pool["podTemplate"]["spec"] |= self.pool.get("podTemplate", {})
        return made

    def told(self, service: Service) -> bool:
        found = service.condition("Ready")
        named = (found.get("status"), found.get("reason")) == ("False", self.reason)
        return named and self.words in found["message"]

    def in_an_event(self, service: Service) -> bool:
        events = service.cluster.get("events", namespace=service.namespace)["items"]
        return any(
            event["involvedObject"]["name"] == service.name
            and (event["type"], event["reason"]) == ("Warning", self.reason)
            and self.words in event["message"]
            for event in events
        )


def _engine(**fields: Any) -> dict[str, Any]:
    return {"podTemplate": {"containers": [{"name": "engine", **fields}]}}


LACKS = (
    Lack(
        "device",
        {"resources": {"limits": {"nvidia.com/gpu": 1}}},
        "NoRoom",
        "no node has enough nvidia.com/gpu left",
    ),
    Lack(
        "image",
        _engine(image="registry.invalid/engine:1", imagePullPolicy="IfNotPresent"),
        "ImageUnavailable",
        "the image registry.invalid/engine:1 of container engine cannot be had",
    ),
    Lack(
        "secret",
        _engine(envFrom=[{"secretRef": {"name": "hub"}}]),
        "ConfigurationMissing",
        'secret "hub" not found',
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub"}, "stringData": {"TOKEN": "t"}},
    ),
    Lack(
        "claim",
        {"podTemplate": {"volumes": [{"name": "weights", "persistentVolumeClaim": {"claimName": "weights"}}]}},
        "VolumeUnbound",
        "mark one as default",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "weights"},
            "spec": {
                "accessModes": WEIGHTS["accessModes"],
                "capacity": {"storage": "1Mi"},
                "hostPath": {"path": "/usr/share"},
                "persistentVolumeReclaimPolicy": "Retain",
            },
        },
    ),
)


@pytest.fixture
def claimed(cluster: Cluster, namespace: str) -> Iterator[None]:
    """Give a claim that nothing fulfils, and take away the volume that then did."""
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "weights"}, "spec": WEIGHTS}
    cluster.apply(claim, namespace=namespace)
    yield
    cluster.kubectl("delete", "persistentvolume", "weights", "--ignore-not-found", "--wait=false")


@pytest.mark.usefixtures("claimed")
def test_what_a_worker_waits_for_is_named_and_when_it_comes_the_service_serves(
    cluster: Cluster, namespace: str
) -> None:
    waiting = [(each, Service(cluster, namespace, each.name)) for each in LACKS]
    for lack, service in waiting:
        service.apply(lack.manifest())
    for lack, service in waiting:
        until(partial(lack.told, service), what=f"the word of a missing {lack.name}")
        until(partial(lack.in_an_event, service), what=f"an Event for a missing {lack.name}")

    mended = [service for lack, service in waiting if lack.remedy]
    for lack, _ in waiting:
        if lack.remedy:
            cluster.apply(lack.remedy, namespace=namespace)
    for service in mended:
        service.wait_ready()
