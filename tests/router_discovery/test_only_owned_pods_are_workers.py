"""A Pod becomes a worker through its owners, never through its labels."""

from typing import Any

import pytest

from inferplane_api.catalogue import CatalogueWorker, WorkerRole
from inferplane_router.discovery.fake_cluster import FakeCluster, Object
from inferplane_router.discovery.testing import Found, Plant, manifest, service


@pytest.fixture(name="cluster")
def a_cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture(name="plant")
def a_plant(cluster: FakeCluster) -> Plant:
    return Plant(cluster)


def test_a_pod_whose_owners_lead_to_a_service_is_a_worker(cluster: FakeCluster, plant: Plant) -> None:
    pools = cluster.put(service("chat", "m", prefill={}, decode={}))
    plant.pod(plant.replica_set(plant.pool(pools, "prefill")), "a", "10.0.0.1")
    plant.pod(plant.replica_set(plant.pool(pools, "decode")), "b", "10.0.0.2")

    found = Found(cluster).workers

    assert found == {
        "default/chat-prefill-r1-5d9c-a": CatalogueWorker(
            worker_id="default/chat-prefill-r1-5d9c-a",
            service="chat",
            pool="chat-prefill",
            role=WorkerRole.PREFILL,
            revision="r1",
            http_address="10.0.0.1:8100",
            stream_address="10.0.0.1:8101",
        ),
        "default/chat-decode-r1-5d9c-b": CatalogueWorker(
            worker_id="default/chat-decode-r1-5d9c-b",
            service="chat",
            pool="chat-decode",
            role=WorkerRole.DECODE,
            revision="r1",
            http_address="10.0.0.2:8100",
            stream_address="10.0.0.2:8101",
        ),
    }


def test_a_pod_that_only_carries_our_labels_is_counted_and_left_out(cluster: FakeCluster, plant: Plant) -> None:
    real = plant.worker("chat", "m")
    forged: Object = {**real["metadata"], "name": "forged", "uid": "forged", "ownerReferences": []}
    cluster.put({**real, "metadata": forged})

    found = Found(cluster)

    assert list(found.workers) == ["default/chat-decode-r1-5d9c-a"]
    assert found.ignored["unowned_pod"] == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"uid": "guessed"},
        {"name": "another"},
        {"kind": "Deployment"},
        {"controller": False},
        {"kind": "StatefulSet"},
    ],
    ids=["uid", "name", "kind", "no controller", "unknown kind"],
)
def test_a_reference_that_does_not_meet_its_object_gives_nothing(
    cluster: FakeCluster, plant: Plant, changes: dict[str, Any]
) -> None:
    pod = plant.worker("chat", "m")
    reference = pod["metadata"]["ownerReferences"][0]
    cluster.put({**pod, "metadata": {**pod["metadata"], "ownerReferences": [{**reference, **changes}]}})

    found = Found(cluster)

    assert found.workers == {}
    assert found.ignored["unowned_pod"] == 1


def test_an_owner_in_another_namespace_gives_nothing(cluster: FakeCluster, plant: Plant) -> None:
    pod = plant.worker("chat", "m")
    cluster.put({**pod, "metadata": {**pod["metadata"], "namespace": "elsewhere", "uid": "other"}})

    assert list(Found(cluster).workers) == ["default/chat-decode-r1-5d9c-a"]


@pytest.mark.parametrize("kind", ["InferenceService", "DecodePool", "Deployment", "ReplicaSet"])
def test_every_link_of_the_chain_counts(cluster: FakeCluster, plant: Plant, kind: str) -> None:
    plant.worker("chat", "m")
    names = {
        "InferenceService": "chat",
        "DecodePool": "chat-decode",
        "Deployment": "chat-decode-r1",
        "ReplicaSet": "chat-decode-r1-5d9c",
    }
    cluster.delete(kind, names[kind])

    assert Found(cluster).workers == {}


def test_references_in_a_circle_end(cluster: FakeCluster, plant: Plant) -> None:
    pod = plant.worker("chat", "m")
    followers = plant.followers(pod)
    cluster.put(Plant.below(followers, "v1", "Pod", "x", status={"podIP": "10.0.0.9"}))
    turned = cluster.objects("StatefulSet")[0]
    inner = cluster.objects("Pod")[-1]
    reference = {"kind": "Pod", "name": inner["metadata"]["name"], "uid": inner["metadata"]["uid"], "controller": True}
    cluster.put({**turned, "metadata": {**turned["metadata"], "ownerReferences": [reference]}})

    found = Found(cluster)

    assert list(found.workers) == ["default/chat-decode-r1-5d9c-a"]
    assert found.ignored["unowned_pod"] == 1


def test_of_a_worker_that_spans_nodes_the_leader_alone_is_asked(cluster: FakeCluster, plant: Plant) -> None:
    leaders = plant.leader_set(plant.pool(cluster.put(service("big", "m", mode="aggregated"))))
    leader = plant.pod(leaders, "0", "10.0.0.1")
    plant.pod(plant.followers(leader), "1", "10.0.0.2")

    found = Found(cluster)

    assert [worker.http_address for worker in found.workers.values()] == ["10.0.0.1:8100"]
    assert found.ignored["unowned_pod"] == 0


@pytest.mark.parametrize(
    "status",
    [{"podIP": ""}, {"podIP": None}, {"phase": "Succeeded"}, {"phase": "Failed"}],
    ids=["no address", "null address", "succeeded", "failed"],
)
def test_pods_that_cannot_be_reached_are_left_out(cluster: FakeCluster, plant: Plant, status: dict[str, Any]) -> None:
    pod = plant.worker("chat", "m")
    cluster.put({**pod, "status": {**pod["status"], **status}})

    found = Found(cluster)

    assert found.workers == {}
    assert found.ignored["unowned_pod"] == 0


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown"])
def test_a_pod_that_starts_or_terminates_stays_as_its_agent_says_how_it_fares(
    cluster: FakeCluster, plant: Plant, phase: str
) -> None:
    pod = plant.worker("chat", "m")
    dying = {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:01Z"}
    cluster.put({**pod, "metadata": dying, "status": {**pod["status"], "phase": phase}})

    assert len(Found(cluster).workers) == 1


def test_addresses_are_those_the_agent_listens_on(cluster: FakeCluster, plant: Plant) -> None:
    pod = plant.worker("chat", "m", "fd00::7")
    ports = [{"name": "http", "containerPort": 9100}, {"name": "stream", "containerPort": 9101}]
    spec = {"initContainers": [{"name": "agent", "ports": ports}], "containers": [{"name": "engine", "ports": ports}]}
    cluster.put({**pod, "spec": spec})

    worker = next(iter(Found(cluster).workers.values()))

    assert (worker.http_address, worker.stream_address) == ("[fd00::7]:9100", "[fd00::7]:9101")


def test_pods_of_one_name_in_two_namespaces_are_two_workers(cluster: FakeCluster, plant: Plant) -> None:
    for namespace, name in (("a", "m"), ("b", "n")):
        pools = cluster.put(service("chat", name, namespace=namespace, mode="aggregated"))
        plant.pod(plant.leader_set(plant.pool(pools)), "0")

    assert list(Found(cluster).workers) == ["a/chat-decode-r1-0", "b/chat-decode-r1-0"]


def test_a_pod_without_our_labels_is_not_even_asked_for(cluster: FakeCluster) -> None:
    cluster.put(manifest("v1", "Pod", "web", status={"podIP": "10.0.0.9"}))

    assert Found(cluster).ignored["unowned_pod"] == 0
