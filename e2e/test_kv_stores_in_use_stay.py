"""A KVStore that services use cannot be deleted, by a policy of the API server; a namespace takes it along anyway."""

from collections.abc import Callable
from typing import Any

import pytest

from e2e.support.cluster import Cluster
from e2e.support.services import sim_service
from e2e.support.waiting import until

pytestmark = pytest.mark.usefixtures("release")
STORE = {
    "apiVersion": "inferplane.dev/v1alpha1",
    "kind": "KVStore",
    "metadata": {"name": "warm"},
    "spec": {"tiers": [{"name": "memory", "medium": "dram", "capacity": "1Gi"}]},
}


@pytest.fixture
def use(cluster: Cluster, namespace: str) -> Callable[[list[str]], None]:
    """Give a store, and a function that makes services which use it; the operator says so in its status."""

    def used_by(services: list[str]) -> None:
        put_to_use(cluster, namespace, services)

    return used_by


def put_to_use(cluster: Cluster, namespace: str, services: list[str]) -> None:
    cluster.apply(STORE, namespace=namespace)
    for name in services:
        idle = sim_service(name, prefill=0, decode=0, served=f"{namespace}-{name}", kvStore={"name": "warm"})
        idle["spec"]["decode"]["minReplicas"] = 0
        cluster.apply(idle, namespace=namespace)
    if services:
        until(lambda: users(cluster, namespace) == services, 60, what="the operator's list of users")


def users(cluster: Cluster, namespace: str) -> list[str]:
    found = cluster.get("kvstores.inferplane.dev", "warm", namespace=namespace)
    said: list[str] = found.get("status", {}).get("usedBy", [])
    return said


def delete(cluster: Cluster, namespace: str) -> Any:
    return cluster.access.try_kubectl("delete", "kvstores.inferplane.dev/warm", "-n", namespace)


def refusal(cluster: Cluster, namespace: str) -> str:
    """Ask for a deletion without doing it: a server takes a moment to learn of a new policy."""
    asked = cluster.access.try_kubectl("delete", "kvstores.inferplane.dev/warm", "-n", namespace, "--dry-run=server")
    return str(asked.stderr) if asked.returncode else ""


def test_who_deletes_it_is_told_who_uses_it(cluster: Cluster, namespace: str, use: Callable[[list[str]], None]) -> None:
    use(["chat", "code"])
    until(lambda: refusal(cluster, namespace), 30, what="the policy in force")

    refused = delete(cluster, namespace)

    assert refused.returncode
    assert "status.usedBy: in use by chat, code; remove spec.kvStore from these InferenceServices" in refused.stderr


def test_one_that_nobody_uses_is_deleted(cluster: Cluster, namespace: str, use: Callable[[list[str]], None]) -> None:
    use([])

    assert delete(cluster, namespace).returncode == 0


def test_a_namespace_that_goes_takes_it_along(cluster: Cluster) -> None:
    name = "with-a-store"
    cluster.kubectl("create", "namespace", name)
    put_to_use(cluster, name, ["chat"])

    cluster.kubectl("delete", "namespace", name, "--wait=true", "--timeout=60s")

    assert cluster.access.try_kubectl("get", "namespace", name).returncode
