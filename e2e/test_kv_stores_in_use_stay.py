"""A KVStore that services use cannot be deleted, by a policy of the API server; a namespace takes it along anyway."""

from collections.abc import Callable
from typing import Any

import pytest

from e2e.support.cluster import Cluster
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
    """Give a store, and a function that sets who uses it, as the operator does."""
    cluster.apply(STORE, namespace=namespace)

    def used_by(services: list[str]) -> None:
        patch = f'{{"status": {{"usedBy": {services}}}}}'.replace("'", '"')
        where = ("-n", namespace, "--subresource=status", "--type=merge", "--patch", patch)
        cluster.kubectl("patch", "kvstores.inferplane.dev/warm", *where)

    return used_by


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
    cluster.apply(STORE, namespace=name)
    patch = '{"status": {"usedBy": ["chat"]}}'
    where = ("-n", name, "--subresource=status", "--type=merge", "--patch", patch)
    cluster.kubectl("patch", "kvstores.inferplane.dev/warm", *where)

    cluster.kubectl("delete", "namespace", name, "--wait=true", "--timeout=60s")

    assert cluster.access.try_kubectl("get", "namespace", name).returncode
