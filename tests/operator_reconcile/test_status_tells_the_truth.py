from collections.abc import Callable, Mapping
from typing import Any

import pytest

from inferplane_api.claims import Key
from inferplane_api.v1alpha1 import KINDS
from inferplane_api.v1alpha1.manifests import parse_resource
from inferplane_operator.reconcile.core import PureCore
from inferplane_operator.reconcile.scene import Settings
from inferplane_operator.reconcile.testing import FakeCluster
from inferplane_operator.reconcile.values import ServedNameClaim

Build = Callable[..., FakeCluster]


def conditions(cluster: FakeCluster) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in cluster.service["status"]["conditions"]}


def test_all_conditions_are_there_from_the_first_look(fresh: Build) -> None:
    cluster = fresh()
    cluster.reconcile()

    assert conditions(cluster) == {
        "Ready": ("False", "WorkersStarting"),
        "SLOMet": ("Unknown", "Pending"),
        "Progressing": ("False", "RolledOut"),
        "Degraded": ("False", "AsSpecified"),
        "KVRoutingHealthy": ("Unknown", "Pending"),
        "Unverified": ("False", "Verified"),
    }
    assert cluster.service["status"]["observedGeneration"] == 1


def test_a_status_is_what_the_type_says(running: Build) -> None:
    cluster = running()
    written = [cluster.service, cluster.pool("demo-prefill"), cluster.pool("demo-decode")]

    for found in written:
        parsed = parse_resource(found)
        assert parsed.status is not None
        assert parsed.kind in KINDS


def test_a_running_service_shows_what_it_is(running: Build) -> None:
    cluster = running()
    cluster.core = PureCore(Settings(gateway_url="http://gateway.example"))
    cluster.settle()
    status = cluster.service["status"]

    assert status["columns"] == {"workers": "3/3", "ratio": "1:2", "ttft": "-/2s", "tpot": "-/100ms"}
    assert status["url"] == "http://gateway.example"
    assert status["servedNames"] == ["m"]
    assert status["decode"] == {
        "name": "demo-decode",
        "replicas": 2,
        "readyReplicas": 2,
        "updatedReplicas": 2,
        "failedReplicas": 0,
    }
    pool = cluster.pool("demo-decode")["status"]
    assert (pool["replicas"], pool["readyReplicas"], pool["updatedReplicas"]) == (2, 2, 2)
    assert pool["selector"] == "inferplane.dev/component=worker,inferplane.dev/pool=demo-decode"
    assert pool["startup"]["worker"].startswith("demo-decode-")


def test_an_invalid_spec_is_a_condition_and_leaves_what_runs_alone(running: Build) -> None:
    cluster = running()
    cluster.edit({"slo": {"ttft": "0s"}})
    outcome = cluster.reconcile()

    assert outcome.writes == ()
    assert conditions(cluster)["Ready"] == ("False", "InvalidSpec")
    assert "spec.slo.ttft" in cluster.condition("Ready")["message"]
    assert [event.reason for event in outcome.events] == ["InvalidSpec"]
    assert cluster.service["status"]["observedGeneration"] == 2
    assert cluster.reconcile().status == ()

    cluster.edit({"slo": {"ttft": "1s"}})
    cluster.settle()
    assert conditions(cluster)["Ready"] == ("True", "AllWorkersReady")


def test_what_cannot_be_rendered_is_an_invalid_spec(fresh: Build) -> None:
    cluster = fresh(engine={"type": "sglang", "device": "xpu"}, model={"name": "m", "source": {"path": "/m"}})
    cluster.reconcile()

    assert conditions(cluster)["Ready"] == ("False", "InvalidSpec")
    assert "spec.engine" in cluster.condition("Ready")["message"]


def test_a_transition_is_told_once_with_its_time(running: Build) -> None:
    cluster = running()
    since = cluster.condition("Ready")["lastTransitionTime"]
    told = len(cluster.events)
    cluster.clock_s += 100
    cluster.settle()

    assert cluster.condition("Ready")["lastTransitionTime"] == since
    assert len(cluster.events) == told


def test_one_worker_less_is_degraded_once_it_fails_and_still_ready(running: Build) -> None:
    cluster = running()
    cluster.crash(cluster.pods("demo-decode")[0])
    cluster.reconcile()

    assert conditions(cluster)["Ready"] == ("True", "Serving")
    assert conditions(cluster)["Degraded"] == ("True", "CrashLoop")
    assert "no such weights" in cluster.condition("Degraded")["message"]
    assert cluster.service["status"]["decode"]["failedReplicas"] == 1


def test_no_decode_worker_is_not_ready(running: Build) -> None:
    cluster = running()
    for pod in cluster.pods("demo-decode"):
        cluster.crash(pod)
    cluster.reconcile()

    assert conditions(cluster)["Ready"] == ("False", "CrashLoop")


def test_more_workers_on_their_way_are_progress_and_not_a_fault(running: Build) -> None:
    cluster = running()
    cluster.pool("demo-decode")["spec"]["replicas"] = 4
    cluster.reconcile()
    cluster.reconcile()

    assert conditions(cluster)["Ready"] == ("True", "Serving")
    assert conditions(cluster)["Progressing"] == ("True", "Scaling")
    assert conditions(cluster)["Degraded"] == ("False", "AsSpecified")


def test_a_name_that_another_holds_is_left_out_and_said(running: Build) -> None:
    cluster = running(model={"name": "m", "servedNames": ["a", "b"]})
    cluster.extra = {"lost_names": (ServedNameClaim("a", Key("team", "older")),)}
    cluster.settle()

    assert cluster.service["status"]["servedNames"] == ["b"]
    assert conditions(cluster)["Degraded"] == ("True", "ServedNameConflict")
    assert "team/older" in cluster.condition("Degraded")["message"]
    assert conditions(cluster)["Ready"][0] == "True"


def test_a_service_without_any_name_left_is_not_ready(running: Build) -> None:
    cluster = running()
    cluster.extra = {"lost_names": (ServedNameClaim("m", Key("team", "older")),)}
    cluster.settle()

    assert conditions(cluster)["Ready"] == ("False", "ServedNameConflict")


def test_a_budget_that_is_too_small_is_said(running: Build) -> None:
    cluster = running(
        prefill=None,
        mode="aggregated",
        model={"name": "m", "source": {"path": "/m"}},
        engine={"type": "vllm"},
        budget={"maxDevices": 2},
        decode={"replicas": 3, "maxReplicas": 3},
    )

    assert len(cluster.pods()) == 2
    assert conditions(cluster)["Degraded"] == ("True", "BudgetExhausted")
    assert "1 of demo-decode" in cluster.condition("Degraded")["message"]


def test_a_store_that_is_not_there_is_said(running: Build) -> None:
    cluster = running(kvStore={"name": "shared"})
    assert conditions(cluster)["Degraded"] == ("True", "KVStoreUnavailable")

    cluster.extra = {"kv_store": {"metadata": {"name": "shared"}}}
    cluster.settle()
    assert conditions(cluster)["Degraded"][0] == "False"


def test_what_nobody_has_run_is_said(running: Build) -> None:
    cluster = running(model={"name": "m", "source": {"path": "/m"}}, engine={"type": "vllm"})

    assert conditions(cluster)["Unverified"] == ("True", "NeverRun")
    assert cluster.service["status"]["unverified"]


def test_a_quota_is_said_where_no_pod_could_be_made(running: Build) -> None:
    cluster = running()
    cluster.pool("demo-decode")["spec"]["replicas"] = 4
    deployment = next(found for found in cluster.of("Deployment") if "decode" in found["metadata"]["name"])
    failure = {"type": "ReplicaFailure", "status": "True", "message": "pods is forbidden: exceeded quota: gpus"}
    deployment["status"] = {"conditions": [failure]}
    cluster.reconcile()

    assert conditions(cluster)["Degraded"] == ("True", "QuotaExceeded")


def on_nodes(cluster: FakeCluster, **nodes: str) -> Mapping[str, Any]:
    pods = {f"p{number}": pod for number, pod in enumerate(cluster.pods("demo-decode"))}
    for name, node in nodes.items():
        pods[name]["spec"]["nodeName"] = node
    return pods


def test_a_node_whose_workers_fail_is_named(running: Build) -> None:
    cluster = running(decode={"replicas": 3, "maxReplicas": 8})
    pods = on_nodes(cluster, p0="good", p1="good", p2="bad")
    cluster.crash(pods["p2"])
    cluster.reconcile()

    assert "workers fail on bad" in cluster.condition("Degraded")["message"]


def test_a_workers_place_is_taken_by_one_that_stays_away_from_the_node(running: Build) -> None:
    cluster = running(decode={"replicas": 3, "maxReplicas": 8})
    pods = on_nodes(cluster, p0="good", p1="good", p2="bad")
    stays, fails = {pods["p0"]["metadata"]["name"], pods["p1"]["metadata"]["name"]}, pods["p2"]["metadata"]["name"]
    cluster.crash(pods["p2"])
    cluster.settle()

    names = {pod["metadata"]["name"] for pod in cluster.pods("demo-decode")}
    revision = cluster.service["status"]["revision"]
    aside = cluster.objects["Deployment", f"demo-decode-{revision}-x"]
    terms = aside["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    assert stays < names
    assert fails not in names
    assert aside["spec"]["replicas"] == 1
    assert "bad" in str(terms["requiredDuringSchedulingIgnoredDuringExecution"])
    assert conditions(cluster)["Ready"] == ("True", "AllWorkersReady")
    assert conditions(cluster)["Degraded"][0] == "False"

    cluster.edit({"drainTimeout": "10s"})
    cluster.settle()
    assert [
        found["metadata"]["name"] for found in cluster.of("Deployment") if revision in found["metadata"]["name"]
    ] == []
    assert len(cluster.pods("demo-decode")) == 3


def test_fewer_workers_are_wanted_of_a_pool_with_some_aside(running: Build) -> None:
    cluster = running(decode={"replicas": 3, "maxReplicas": 8})
    cluster.crash(on_nodes(cluster, p0="good", p1="good", p2="bad")["p2"])
    cluster.settle()
    cluster.pool("demo-decode")["spec"]["replicas"] = 1
    cluster.settle()

    assert len(cluster.pods("demo-decode")) == 1
    before = cluster.changes
    cluster.reconcile()
    assert cluster.changes == before


def test_a_revision_that_fails_everywhere_accuses_no_node(running: Build) -> None:
    cluster = running(decode={"replicas": 3, "maxReplicas": 8})
    for pod in on_nodes(cluster, p0="a", p1="b", p2="c").values():
        cluster.crash(pod)
    cluster.reconcile()

    assert "workers fail on" not in cluster.condition("Degraded")["message"]


@pytest.mark.parametrize("length", [40])
def test_the_longest_names_fit(length: int) -> None:
    cluster = FakeCluster(
        {
            "apiVersion": "inferplane.dev/v1alpha1",
            "kind": "InferenceService",
            "metadata": {"name": "n" * length},
            "spec": {"model": {"name": "m"}, "engine": {"type": "sim"}, "prefill": {}, "decode": {}},
        }
    )
    cluster.settle()

    assert max(len(name) for kind, name in cluster.objects if kind != "Pod") <= 63
    labels = [value for found in cluster.objects.values() for value in found["metadata"].get("labels", {}).values()]
    assert max(map(len, labels)) <= 63


def test_a_name_in_another_script_is_served(running: Build) -> None:
    cluster = running(model={"name": "модель-模型"})

    assert cluster.service["status"]["servedNames"] == ["модель-模型"]
