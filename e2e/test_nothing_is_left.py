"""Deleting a service, uninstalling the chart, deleting a namespace: nothing waits for a finalizer, nothing stays."""

import pytest

from e2e.support.cluster import Cluster
from e2e.support.release import Release
from e2e.support.services import Service, sim_service
from e2e.support.waiting import until

# the cluster's own memory, which ends by itself, and what other tests' objects leave in it
PASSING = {"events", "events.events.k8s.io", "leases.coordination.k8s.io", "endpointslices.discovery.k8s.io"}


def everything(cluster: Cluster) -> set[str]:
    """Return the names of all objects of all kinds, in all namespaces."""
    kinds = cluster.kubectl("api-resources", "--verbs=list,delete", "--output=name").split()
    wanted = ",".join(kind for kind in kinds if kind not in PASSING)
    columns = "--output=custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name"
    lines = cluster.kubectl("get", wanted, "--all-namespaces", "--no-headers", columns).splitlines()
    return {" ".join(line.split()) for line in lines}


def workers_gone(service: Service) -> bool:
    """Whether the last Pod has drained and gone, and what it belonged to: cheap to ask again and again."""
    selector = f"inferplane.dev/service={service.name}"
    kinds = ("pods", "replicasets", "deployments", "services", "poddisruptionbudgets", "controllerrevisions")
    return not any(service.cluster.get(kind, namespace=service.namespace, selector=selector)["items"] for kind in kinds)


def of(namespace: str, objects: set[str]) -> set[str]:
    return {line for line in objects if namespace in line.split()}


@pytest.mark.usefixtures("release")
def test_a_deleted_service_takes_everything_with_it(cluster: Cluster, namespace: str) -> None:
    before = everything(cluster)
    service = Service(cluster, namespace, "gone")
    service.apply(sim_service("gone", served=namespace))
    service.wait_ready()

    cluster.kubectl("delete", "inferenceservices.inferplane.dev/gone", "-n", namespace)

    until(lambda: workers_gone(service), 120, what="the last worker's end")
    until(lambda: of(namespace, everything(cluster)) == of(namespace, before), what="nothing left")


@pytest.mark.usefixtures("release")
def test_a_deleted_namespace_ends_with_all_its_services(cluster: Cluster) -> None:
    name = "to-be-deleted"
    cluster.kubectl("create", "namespace", name)
    service = Service(cluster, name, "gone")
    service.apply(sim_service("gone", served=name))
    service.wait_ready()

    cluster.kubectl("delete", "namespace", name, "--wait=true", "--timeout=120s")

    assert of(name, everything(cluster)) == set()


def test_an_uninstalled_chart_leaves_definitions_and_services_alone(
    cluster: Cluster, release: Release, namespace: str
) -> None:
    """What users own stays: the definitions, their objects, and the workers, which serve whoever asks them."""
    service = Service(cluster, namespace, "kept")
    service.apply(sim_service("kept", served=namespace))
    service.wait_ready()
    workers = service.uids()

    release.uninstall()
    try:
        cluster.kubectl("delete", "namespace", release.namespace, "--wait=true", "--timeout=120s")
        now = everything(cluster)
        left = {line for line in now - of(namespace, now) if release.name in line}

        assert {line.split()[0] for line in left} == {"CustomResourceDefinition", "APIService"}
        assert service.uids() == workers
    finally:
        release.install()
    service.wait_ready()

    assert service.uids() == workers
