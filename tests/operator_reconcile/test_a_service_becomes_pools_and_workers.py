from collections.abc import Callable
from dataclasses import replace

from inferplane_operator.reconcile.core import PureCore
from inferplane_operator.reconcile.scene import Settings
from inferplane_operator.reconcile.testing import FakeCluster
from inferplane_operator.reconcile.values import Apply, Create, Merge
from inferplane_operator.render import RenderOptions

Build = Callable[..., FakeCluster]


def replicas(cluster: FakeCluster) -> dict[str, int]:
    return {found["metadata"]["name"]: found["spec"]["replicas"] for found in cluster.of("Deployment")}


def by_pool(cluster: FakeCluster) -> dict[str, int]:
    return {name.rpartition("-")[0]: count for name, count in replicas(cluster).items() if count}


def test_it_gets_what_was_designed(running: Build) -> None:
    cluster = running()
    revision = cluster.service["status"]["revision"]

    names = {(kind, name) for kind, name in cluster.objects if kind not in ("Pod", "InferenceService")}

    assert names == {
        ("PrefillPool", "demo-prefill"),
        ("DecodePool", "demo-decode"),
        ("Deployment", f"demo-prefill-{revision}"),
        ("Deployment", f"demo-decode-{revision}"),
        ("Service", "demo-prefill"),
        ("Service", "demo-decode"),
        ("PodDisruptionBudget", "demo-prefill"),
        ("PodDisruptionBudget", "demo-decode"),
        ("ControllerRevision", f"demo-{revision}"),
    }
    assert by_pool(cluster) == {"demo-prefill": 1, "demo-decode": 2}


def test_every_object_has_one_controller_and_no_finalizer(running: Build) -> None:
    cluster = running()

    for kind, name in cluster.objects:
        metadata = cluster.objects[kind, name]["metadata"]
        owners = metadata.get("ownerReferences", [])
        assert len(owners) == (kind != "InferenceService"), (kind, name)
        assert all(owner["controller"] for owner in owners)
        assert "finalizers" not in metadata


def test_nothing_is_left_when_the_service_is_deleted(running: Build) -> None:
    cluster = running()
    cluster.service["metadata"]["deletionTimestamp"] = cluster.now

    outcome = cluster.reconcile()

    assert (outcome.writes, outcome.status, outcome.events) == ((), (), ())


def test_looking_again_changes_and_says_nothing(running: Build) -> None:
    cluster = running()
    before = cluster.changes
    outcome = cluster.reconcile()

    assert cluster.changes == before
    assert all(isinstance(write, Apply) for write in outcome.writes)
    assert (outcome.status, list(outcome.events), outcome.again_in_s) == ((), [], None)


def test_replicas_are_written_once_and_then_belong_to_others(running: Build) -> None:
    cluster = running()
    cluster.pool("demo-decode")["spec"]["replicas"] = 5
    outcome = cluster.reconcile()

    pools = [
        write.manifest for write in outcome.writes if isinstance(write, Apply) and "Pool" in write.manifest["kind"]
    ]
    assert all("replicas" not in pool["spec"] for pool in pools)
    assert by_pool(cluster)["demo-decode"] == 5
    cluster.settle()
    assert cluster.pool("demo-decode")["spec"]["replicas"] == 5


def test_the_services_own_number_is_carried_out_when_it_changes(running: Build) -> None:
    cluster = running()
    cluster.pool("demo-decode")["spec"]["replicas"] = 5
    cluster.settle()
    cluster.edit({"decode": {"replicas": 3, "maxReplicas": 8}})
    cluster.settle()
    assert by_pool(cluster)["demo-decode"] == 3

    cluster.pool("demo-decode")["spec"]["replicas"] = 4
    cluster.settle()

    assert by_pool(cluster)["demo-decode"] == 4


def test_a_pool_is_created_with_nothing_that_would_stay(fresh: Build) -> None:
    outcome = fresh().reconcile()

    seeds = [
        write.manifest for write in outcome.writes if isinstance(write, Create) and "Pool" in write.manifest["kind"]
    ]
    assert [seed["spec"]["replicas"] for seed in seeds] == [1, 2]
    assert all(seed["spec"]["podTemplate"] == {"metadata": {}, "spec": {}} for seed in seeds)


def test_an_operator_that_dies_between_two_writes_is_followed_by_one_that_goes_on(fresh: Build) -> None:
    cluster = fresh()
    outcome = cluster.core.service(cluster.observed())
    for write in outcome.writes[:3]:
        cluster.write(write)

    cluster.settle()

    assert by_pool(cluster) == {"demo-prefill": 1, "demo-decode": 2}


def test_a_newer_operator_restarts_nothing(running: Build) -> None:
    cluster = running()
    before = {pod["metadata"]["name"] for pod in cluster.pods()}
    cluster.core = PureCore(Settings(replace(RenderOptions(), agent_image="inferplane/worker:9.9.9")))
    cluster.settle()
    assert {pod["metadata"]["name"] for pod in cluster.pods()} == before
    assert "9.9.9" not in str(cluster.of("Deployment"))

    cluster.objects = {key: found for key, found in cluster.objects.items() if key[0] != "ControllerRevision"}
    cluster.settle()

    assert {pod["metadata"]["name"] for pod in cluster.pods()} == before
    assert "9.9.9" not in str(cluster.of("Deployment"))


def test_what_no_worker_knows_restarts_nothing(running: Build) -> None:
    cluster = running()
    before = {pod["metadata"]["name"] for pod in cluster.pods()}
    cluster.edit({"slo": {"ttft": "1s"}, "routing": {"queueLimit": 5}, "rollout": {"maxSurge": 2}})
    cluster.settle()

    assert {pod["metadata"]["name"] for pod in cluster.pods()} == before
    assert cluster.pool("demo-decode")["spec"]["maxSurge"] == 2


def test_nothing_is_wanted_and_nothing_serves(running: Build) -> None:
    cluster = running(prefill=None, mode="aggregated", decode={"replicas": 0, "minReplicas": 0, "maxReplicas": 4})

    assert replicas(cluster) == {f"demo-decode-{cluster.service['status']['revision']}": 0}
    assert cluster.condition("Ready")["reason"] == "NoReadyWorkers"
    assert cluster.condition("Progressing")["status"] == "False"


def test_the_pods_that_shall_go_are_marked_before_the_deployment_shrinks(running: Build) -> None:
    cluster = running(decode={"replicas": 3, "maxReplicas": 8})
    newest = max((pod["metadata"]["name"] for pod in cluster.pods("demo-decode")), key=lambda name: int(name[-2:]))
    cluster.pool("demo-decode")["spec"]["replicas"] = 2
    outcome = cluster.reconcile()

    order = [
        write.reference.name if isinstance(write, Merge) else write.manifest["metadata"]["name"]
        for write in outcome.writes
        if isinstance(write, Merge | Apply)
    ]
    assert order.index(newest) < order.index(newest.rpartition("-")[0])
    marked = cluster.objects["Pod", newest]["metadata"]
    assert marked["annotations"]["controller.kubernetes.io/pod-deletion-cost"] == "-1000"
    assert marked["deletionTimestamp"]


def test_a_pool_that_is_no_longer_wanted_is_drained_and_then_deleted(running: Build) -> None:
    cluster = running()
    cluster.edit({"prefill": None, "mode": "aggregated"})
    cluster.service["spec"].pop("prefill")
    seen: list[tuple[int, bool]] = []
    for _ in range(12):
        cluster.reconcile()
        seen.append((len(cluster.pods("demo-prefill")), ("PrefillPool", "demo-prefill") in cluster.objects))
        cluster.end_pods()
        cluster.start_pods()

    assert seen[-1] == (0, False)
    assert all(there for pods, there in seen if pods)
    assert not [name for _, name in cluster.objects if name.startswith("demo-prefill")]
