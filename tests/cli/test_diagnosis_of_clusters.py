"""`diagnose` in a cluster: what stands in a status, in Pods and in the release, problems first."""

import json
from typing import Any

import pytest

from inferplane.kube.testing import FakeCluster
from inferplane.kube.testing_objects import make_component, make_event, make_pod
from inferplane.testing import Call


@pytest.fixture
def installed(cluster: FakeCluster) -> FakeCluster:
    return cluster.add("deployments", make_component("operator"), make_component("gateway"))


def problems(call: Call) -> dict[str, dict[str, Any]]:
    shown = json.loads(call("diagnose", "chat", "-o", "json").stdout)
    return {it["check"]: it for it in shown["findings"] if not it["ok"]}


def test_nothing_is_wrong_with_a_service_that_serves(call_cluster: Call, installed: FakeCluster) -> None:
    del installed
    result = call_cluster("diagnose")

    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == "nothing is wrong"
    assert "pod chat-decode-bbb-x1" in result.stdout


def test_a_release_that_is_not_there_is_the_first_problem(call_cluster: Call) -> None:
    result = call_cluster("diagnose", "chat")

    assert result.exit_code == 1
    assert result.stdout.splitlines()[0].split() == ["PROBLEM", "operator", "is", "not", "installed"]


def test_conditions_that_tell_of_a_problem_are_told_from_those_that_inform(
    call_cluster: Call, installed: FakeCluster
) -> None:
    status = installed.held("inferenceservices", "chat")["status"]
    status["conditions"] = [
        {"type": "Ready", "status": "False", "reason": "NoReadyWorkers", "message": "0 of 2"},
        {"type": "Degraded", "status": "True", "reason": "WorkersFailed"},
        {"type": "Progressing", "status": "True", "reason": "RollingOut"},
        {"type": "Unverified", "status": "True", "reason": "NeverRun"},
        {"type": "SLOMet", "status": "Unknown", "reason": "NoTraffic"},
        {"type": "FromANewerOperator", "status": "False", "reason": "X"},
    ]
    found = problems(call_cluster)

    assert found.keys() == {"Ready", "Degraded"}
    assert found["Ready"]["detail"] == "False, NoReadyWorkers: 0 of 2"
    assert found["Ready"]["fix"]


@pytest.mark.parametrize(
    ("reason", "fix"), [("Frozen", "inferplane unfreeze"), ("NoRoom", "maxSurge"), ("CrashLoop", "workers below")]
)
def test_a_problems_fix_goes_by_its_reason(
    call_cluster: Call, installed: FakeCluster, *, reason: str, fix: str
) -> None:
    status = installed.held("inferenceservices", "chat")["status"]
    status["conditions"] = [{"type": "Ready", "status": "False", "reason": reason}]

    assert fix in problems(call_cluster)["Ready"]["fix"]


def test_an_operator_that_has_not_looked_is_a_problem(call_cluster: Call, installed: FakeCluster) -> None:
    installed.held("inferenceservices", "chat")["metadata"]["generation"] = 9

    assert "has not seen the latest change" in problems(call_cluster)["status"]["detail"]


def test_a_pod_that_does_not_serve_says_why(call_cluster: Call, installed: FakeCluster) -> None:
    unschedulable = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
    }
    waiting = make_pod("waiting", ready=False, phase="Pending", conditions=[unschedulable], containerStatuses=[])
    mounting = make_pod("mounting", ready=False, containerStatuses=[])
    installed.add("pods", waiting, mounting).add("events", make_event(mounting, "FailedMount", "no such claim"))
    found = problems(call_cluster)

    assert "no node has enough nvidia.com/gpu left" in found["pod waiting"]["detail"]
    assert found["pod mounting"]["detail"] == "Starting: no such claim"
    assert "`inferplane logs mounting`" in found["pod mounting"]["fix"]
    assert found["pod waiting"]["fix"] == "see `inferplane status chat`"  # a Pod without a node has no logs


def test_a_quota_that_lets_no_pod_be_made_is_a_problem(call_cluster: Call, installed: FakeCluster) -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: gpus"}
    installed.held("deployments", "chat-decode-bbb")["status"] = {"conditions": [failure]}

    assert "quota allows no more workers" in problems(call_cluster)["deployment"]["detail"]
    assert "quota allows no more workers" in call_cluster("status", "chat").stdout


def test_a_service_that_is_held_says_so_and_is_no_problem(call_cluster: Call, installed: FakeCluster) -> None:
    annotations = {"inferplane.dev/freeze": "weekend", "inferplane.dev/paused": "true"}
    installed.held("inferenceservices", "chat")["metadata"]["annotations"] = annotations
    result = call_cluster("diagnose", "chat")

    assert result.exit_code == 0
    assert "nothing is rolled out; `inferplane unfreeze` lets it go on (weekend)" in result.stdout


def test_an_explanation_says_how_to_reach_the_routers(call_cluster: Call, installed: FakeCluster) -> None:
    router = make_pod("router-1")
    router["metadata"] |= {"namespace": "system", "labels": {"inferplane.dev/component": "gateway"}}
    installed.add("pods", router)
    result = call_cluster("explain", "some-id")

    assert result.exit_code == 2
    assert "kubectl -n system port-forward pod/router-1 9000" in result.stderr
    assert "--router 127.0.0.1:9000" in result.stderr


def test_a_live_view_says_how_to_reach_a_gateway(call_cluster: Call, installed: FakeCluster) -> None:
    assert "no gateway runs in this cluster" in call_cluster("top").stderr

    gateway = make_pod("gateway-1")
    gateway["metadata"] |= {"namespace": "system", "labels": {"inferplane.dev/component": "gateway"}}
    installed.add("pods", gateway)
    result = call_cluster("top")

    assert result.exit_code == 2
    assert "`kubectl -n system port-forward pod/gateway-1 8000`" in result.stderr


def test_without_a_router_there_is_nothing_to_ask(call_cluster: Call) -> None:
    result = call_cluster("explain", "some-id")

    assert result.exit_code == 2
    assert "no router runs in this cluster that you may see" in result.stderr
