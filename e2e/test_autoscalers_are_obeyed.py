"""Pools are scaled by what scales everything else: a HorizontalPodAutoscaler, or whoever patches `scale` as KEDA does.

The number is theirs from then on, whatever is applied, and the pool says whose it is.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.support.cluster import Cluster
from e2e.support.demand import METRIC, Demand, served
from e2e.support.services import Service, sim_service
from e2e.support.waiting import until

pytestmark = pytest.mark.usefixtures("release")

EACH = 10
"""Demand that one worker is for."""


@pytest.fixture
def demand(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Demand]:
    assert cluster.node  # in whose network this test is
    with served(cluster, namespace, tmp_path) as made:
        yield made


def autoscaler(service: Service) -> dict[str, Any]:
    pool = {"apiVersion": "inferplane.dev/v1alpha1", "kind": "DecodePool", "name": f"{service.name}-decode"}
    target = {"type": "AverageValue", "averageValue": str(EACH)}
    metrics = [{"type": "External", "external": {"metric": {"name": METRIC}, "target": target}}]
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "by-demand"},
        "spec": {"scaleTargetRef": pool, "minReplicas": 1, "maxReplicas": 3, "metrics": metrics},
    }


def test_an_autoscaler_s_number_is_kept_and_its_owner_named(cluster: Cluster, namespace: str, demand: Demand) -> None:
    service, manifest = Service(cluster, namespace, "scaled"), sim_service("scaled", prefill=0)
    demand.value = EACH
    service.apply(manifest)
    service.wait_ready()

    cluster.apply(autoscaler(service), namespace=namespace)
    demand.value = 2 * EACH
    until(lambda: len(service.ready_pods("decode")) == 2, 120, what="a second worker for twice the demand")
    until(lambda: owner(service) == "kube-controller-manager", what="the autoscaler's name")
    manifest["spec"]["slo"] = {"ttft": "3s"}
    service.apply(manifest)  # with its own number of replicas in it
    service.wait_ready()
    assert replicas(service) == 2

    cluster.kubectl("delete", "horizontalpodautoscaler", "by-demand", "-n", namespace)
    patch(service, 1)
    until(lambda: len(service.pods("decode")) == 1, what="one worker")
    assert until(lambda: owner(service) == "keda-operator", what="KEDA's name")


def pool(service: Service) -> dict[str, Any]:
    return service.cluster.get("decodepools.inferplane.dev", f"{service.name}-decode", namespace=service.namespace)


def replicas(service: Service) -> int:
    return int(pool(service)["spec"]["replicas"])


def owner(service: Service) -> str:
    return str(pool(service).get("status", {}).get("scaledBy", ""))


def patch(service: Service, count: int) -> None:
    """Set the number as KEDA does: a merge patch of the scale subresource, by a manager of another name."""
    how = ("--subresource=scale", "--type=merge", "--field-manager=keda-operator")
    what = json.dumps({"spec": {"replicas": count}})
    name = f"decodepool/{service.name}-decode"
    service.cluster.kubectl("patch", name, "-n", service.namespace, *how, "--patch", what)
