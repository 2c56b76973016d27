"""From an installed chart to nothing left: every change that a service's owner or a cluster's makes, under load.

Streams run all the time, each compared with what a quiet service said: none may fail, end early or say anything else.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import pytest
from kubernetes.client import ApiException

from e2e.support.cluster import Cluster
from e2e.support.conversation import Chat, Load
from e2e.support.namespaces import namespace_of
from e2e.support.release import Release
from e2e.support.services import Service, sim_service
from e2e.support.waiting import until

pytestmark = [pytest.mark.timeout(420, func_only=True), pytest.mark.usefixtures("release")]
DECODERS = 2
ENGINE = {
    "type": "sim",
    "blockSize": 16,
    "maxModelLen": 8192,
    "sim": {"profile": "cpu-test", "seed": 7, "speed": 0.015},
}
"""Some twenty tokens a second for each stream, as a large model: fifty streams are then half of what two CPUs can do,
and what runs is long enough to meet what is done to it."""
TOKENS = 48
PATIENT = {"ttft": "30s", "tpot": "300ms"}
"""One worker that all streams wait for is not late: a gateway would refuse what it cannot begin in time."""


@pytest.fixture(scope="module")
def living(cluster: Cluster, release: Release) -> Iterator[Service]:
    """Give the service that lives through all of this, from a new namespace to its end."""
    assert release
    with namespace_of(cluster, "the-whole-life") as name:
        made = Service(cluster, name, "life")
        # the namespace is new and the name is in it alone; served names are the cluster's
        made.apply(sim_service("life", decode=DECODERS, served=name, engine=ENGINE, slo=PATIENT))
        made.wait_ready()
        yield made


@pytest.fixture
def service(living: Service) -> Service:
    """Give the service as a test may leave it to the next: ready, with one prefill and two decode workers."""
    scale(living, "decode", DECODERS)
    await_decoders(living, DECODERS)
    living.wait_ready()
    return living


@pytest.fixture(scope="module")
def streams(living: Service, release: Release) -> Iterator[Load]:
    """Give fifty streams that run from the first test to the last, also between two of them."""
    with Load(Chat(release.url, living.namespace, tokens=TOKENS)) as running:
        until(lambda: running.ended > 0, what="first streams to their end")
        yield running
    assert running.newly_wrong() == []  # of those that ended last


@pytest.fixture
def load(service: Service, streams: Load) -> Iterator[Load]:
    """Give the streams; since the last look none of them may have gone wrong."""
    assert service
    yield streams
    assert streams.newly_wrong() == []


def settled(load: Load) -> None:
    """Let every stream end that might have met the change, and as many again after it."""
    seen = load.ended
    until(lambda: load.ended >= seen + 2 * load.streams, 120, what="streams after the change")


def test_a_manifest_becomes_an_endpoint(service: Service, release: Release) -> None:
    chat = Chat(release.url, service.namespace, tokens=16)

    with Load(chat, streams=4) as load:
        until(lambda: load.ended >= 8, what="eight answers")

    assert load.wrong == []


def test_scaling_down_and_up_loses_no_stream(service: Service, load: Load) -> None:
    for replicas in (4, 1, 4):
        scale(service, "decode", replicas)
        await_decoders(service, replicas)
        settled(load)


def await_decoders(service: Service, count: int) -> None:
    """Wait until so many serve and no other is left."""
    until(lambda: len(service.ready_pods("decode")) == count == len(service.pods("decode")), 180)


def scale(service: Service, role: str, replicas: int) -> None:
    service.cluster.kubectl(
        "scale", "-n", service.namespace, f"{role}pool/{service.name}-{role}", f"--replicas={replicas}"
    )


def test_a_rolling_update_loses_no_stream(service: Service, load: Load) -> None:
    before = service.uids()
    service.edit(engine={"maxNumSeqs": 64})  # another revision, which says the same words

    service.wait_ready(240)
    until(lambda: not (before & service.uids()), 180, what="old workers to be gone")
    settled(load)


def test_an_edit_that_needs_no_restart_restarts_nothing(service: Service, load: Load) -> None:
    before = service.uids()
    service.edit(slo={"ttft": "20s", "tpot": "200ms"})

    service.wait_ready()
    settled(load)

    assert service.uids() == before
    assert service.restarts() == 0


def test_evictions_wait_for_the_budget_and_lose_no_stream(
    service: Service, load: Load, cluster: Cluster, api: Any
) -> None:
    """As a drain does: the node takes no new Pods and its workers are evicted, as far as their budget lets them."""
    first, second = (pod["metadata"]["name"] for pod in service.pods("decode"))
    with cordoned(cluster):
        answers = [evict(api, service.namespace, name) for name in (first, second)]
        until(lambda: first not in {pod["metadata"]["name"] for pod in service.pods("decode")}, 120)
        settled(load)
    until(lambda: len(service.ready_pods("decode")) == 2, 120, what="a worker in the evicted one's place")
    settled(load)

    assert answers == [HTTPStatus.CREATED, HTTPStatus.TOO_MANY_REQUESTS]


@contextmanager
def cordoned(cluster: Cluster) -> Generator[None]:
    nodes = [node["metadata"]["name"] for node in cluster.get("nodes")["items"]]
    cluster.kubectl("cordon", *nodes)
    try:
        yield
    finally:
        cluster.kubectl("uncordon", *nodes)


def evict(api: Any, namespace: str, pod: str) -> int:
    """Ask for an eviction as a drain does; return the answer's status."""
    eviction = api.V1Eviction(metadata=api.V1ObjectMeta(name=pod, namespace=namespace))
    try:
        api.CoreV1Api().create_namespaced_pod_eviction(pod, namespace, eviction)
    except ApiException as error:
        refused: Any = error
        return int(refused.status)
    return HTTPStatus.CREATED


def test_a_killed_operator_is_not_missed(service: Service, load: Load, release: Release, cluster: Cluster) -> None:
    """While it is gone streams go on; the next one carries out what was asked meanwhile."""
    before = service.uids()
    for pod in release.pods("operator"):
        name = pod["metadata"]["name"]
        cluster.kubectl("delete", "pod", "-n", release.namespace, name, "--grace-period=0", "--force")
    scale(service, "decode", 3)

    until(lambda: len(service.ready_pods("decode")) == 3, 120, what="the next operator's work")
    settled(load)

    assert before <= service.uids()


def test_a_restarted_api_server_is_not_missed(service: Service, load: Load, cluster: Cluster) -> None:
    node, before = cluster.node, service.uids()
    node.stop_api_server()
    node.start_api_server()
    settled(load)
    scale(service, "decode", 3)

    until(lambda: len(service.ready_pods("decode")) == 3, 120, what="scaling after the restart")
    settled(load)

    assert before <= service.uids()


def test_a_gateway_rollout_loses_no_stream(load: Load, release: Release, cluster: Cluster) -> None:
    before = {pod["metadata"]["uid"] for pod in release.pods("gateway")}
    deployment = f"deployment/{release.deployment('gateway')}"
    cluster.kubectl("rollout", "restart", "-n", release.namespace, deployment)
    cluster.kubectl("rollout", "status", "-n", release.namespace, deployment, "--timeout=180s")

    until(lambda: not before & {pod["metadata"]["uid"] for pod in release.pods("gateway")}, 180)
    settled(load)


def test_a_chart_upgrade_restarts_no_engine(service: Service, load: Load, release: Release, cluster: Cluster) -> None:
    """Every component gets another image, the agents' too: workers keep the one that their revision has.

    Nobody goes back: it is the same image by another name, and the next upgrade is another test's.
    """
    before, gateways = service.uids(), {pod["metadata"]["uid"] for pod in release.pods("gateway")}
    newer = replace(release, image=f"{release.image}-next")
    cluster.node.tag_image(release.image, newer.image)
    newer.install()
    settled(load)
    now = {pod["metadata"]["uid"] for pod in release.pods("gateway") if "deletionTimestamp" not in pod["metadata"]}

    assert not gateways & now
    assert service.uids() == before
    assert service.restarts() == 0
    assert service.condition("Ready")["status"] == "True"
