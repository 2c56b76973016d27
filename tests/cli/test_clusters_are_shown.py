"""`status` in a cluster: the list, one service whole, and what is left out for lack of rights."""

import json

import pytest
import yaml

from inferplane.kube.testing import FakeCluster
from inferplane.kube.testing_objects import A_DAY_AGO, make_pod, make_service
from inferplane.testing import Call


def test_services_of_the_namespace_are_listed(call_cluster: Call, cluster: FakeCluster) -> None:
    cluster.add("inferenceservices", make_service("other", "elsewhere"))
    failing = {"type": "Ready", "status": "False", "reason": "NoReadyWorkers"}
    cluster.add("inferenceservices", make_service("new", observedGeneration=3, columns=None, conditions=[failing]))
    result = call_cluster("status")

    assert result.stdout.splitlines() == [
        "NAME   READY   WORKERS   P:D   TTFT          TPOT        SLOMET    AGE   REASON",
        "chat   True    3/3       1:2   310ms/800ms   22ms/25ms   Unknown   1d    -",
        "new    False   -         -     -             -           Unknown   1d    NoReadyWorkers",
    ]


def test_services_of_all_namespaces_are_listed(call_cluster: Call, cluster: FakeCluster) -> None:
    cluster.add("inferenceservices", make_service("other", "elsewhere"))
    rows = call_cluster("status", "-A").stdout.splitlines()

    assert [row.split()[:2] for row in rows] == [["NAMESPACE", "NAME"], ["default", "chat"], ["elsewhere", "other"]]


def test_an_empty_namespace_says_how_to_begin(call_cluster: Call, cluster: FakeCluster) -> None:
    cluster.remove("inferenceservices", "chat")
    result = call_cluster("status")

    assert result.exit_code == 0
    assert "no InferenceService in namespace default (all namespaces: -A)" in result.stderr


def test_a_status_of_an_older_spec_is_not_taken_for_the_new_one(call_cluster: Call, cluster: FakeCluster) -> None:
    cluster.held("inferenceservices", "chat")["metadata"]["generation"] = 4

    assert call_cluster("status").stdout.splitlines()[1].split()[1] == "Unknown"
    assert "has not seen the latest change yet" in call_cluster("status", "chat").stdout


def test_one_service_is_shown_whole(call_cluster: Call) -> None:
    assert call_cluster("status", "chat").stdout.splitlines() == [
        "default/chat: Ready",
        "gateway http://gw:8000   models m   revision bbb   P:D 1:2   TTFT 310ms/800ms   TPOT 22ms/25ms",
        "",
        "CONDITION   STATUS    REASON            SINCE",
        "Ready       True      AllWorkersReady   1m",
        "SLOMet      Unknown   NoTraffic         1m",
        "",
        "POOL           READY   UP-TO-DATE   DRAINING   FAILED   BOUNDS   SCALED-BY   REVISIONS",
        "chat-decode      2/2            2          0        0   1..8     kubectl     bbb: 2/2",
        "chat-prefill     1/1            1          0        0   1..8     kubectl     bbb: 1/1",
        "",
        "POD                  PHASE   RESTARTS   REVISION   NODE   AGE",
        "chat-decode-bbb-x1   Ready          1   bbb        n1     1m",
        "",
        "START OF             SCHEDULED   INITIALIZED   STARTED   READY",
        "chat-decode-bbb-x1          0s            3s        1s      8s",
        "",
        "LAST   TYPE      REASON    OBJECT                   MESSAGE",
        "1m     Warning   BackOff   pod/chat-decode-bbb-x1   restarting again",
    ]


def test_a_pod_with_our_labels_that_is_not_ours_is_not_shown(call_cluster: Call) -> None:
    assert "foreign" not in call_cluster("status", "chat", "-o", "json").stdout


def test_annotations_that_hold_a_service_are_shown(call_cluster: Call, cluster: FakeCluster) -> None:
    cluster.held("inferenceservices", "chat")["metadata"]["annotations"] = {"inferplane.dev/freeze": "weekend"}

    assert "annotated inferplane.dev/freeze" in call_cluster("status", "chat").stdout


def test_phases_of_pods_are_told_apart(call_cluster: Call, cluster: FakeCluster) -> None:
    waiting = {"name": "engine", "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    draining = make_pod("draining")
    draining["metadata"]["deletionTimestamp"] = A_DAY_AGO
    cluster.add(
        "pods",
        make_pod("starting", ready=False),
        make_pod("pending", ready=False, phase="Pending", conditions=[]),
        make_pod("crashing", ready=False, containerStatuses=[waiting]),
        make_pod("failed", ready=False, phase="Failed"),
        draining,
    )
    shown = json.loads(call_cluster("status", "chat", "-o", "json").stdout)

    assert {pod["name"]: pod["phase"] for pod in shown["pods"]} == {
        "chat-decode-bbb-x1": "Ready",
        "starting": "Starting",
        "pending": "Pending",
        "crashing": "CrashLoop",
        "failed": "Failed",
        "draining": "Draining",
    }


def test_what_may_not_be_read_is_named_and_the_rest_is_shown(call_cluster: Call, cluster: FakeCluster) -> None:
    cluster.forbidden |= {("list", "events"), ("list", "pods")}
    result = call_cluster("status", "chat")

    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "not shown, since you may not list them: pods, events"
    assert "chat-prefill" in result.stdout


def test_a_service_comes_as_json_and_yaml_without_managed_fields(call_cluster: Call) -> None:
    from_json = json.loads(call_cluster("status", "chat", "-o", "json").stdout)
    from_yaml = yaml.safe_load(call_cluster("status", "chat", "-o", "yaml").stdout)

    assert from_json == from_yaml
    assert from_json["service"]["kind"] == "InferenceService"
    assert "managedFields" not in from_json["service"]["metadata"]
    assert [event["reason"] for event in from_json["events"]] == ["BackOff"]


def test_an_unknown_service_is_wrong_usage(call_cluster: Call) -> None:
    result = call_cluster("status", "nobody")

    assert result.exit_code == 2
    assert 'inferenceservices "nobody" not found' in result.stderr


def test_a_cluster_without_our_kinds_says_what_to_install(call_cluster: Call, cluster: FakeCluster) -> None:
    cluster.served.discard("/apis/inferplane.dev/v1alpha1")
    result = call_cluster("status")

    assert result.exit_code == 1
    assert "the cluster knows no inferplane.dev resources; install the chart" in result.stderr


def test_a_watch_prints_again_when_something_changes(
    call_cluster: Call, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    def change(wait_s: float) -> None:
        looks.append(wait_s)
        if len(looks) == 2:
            cluster.held("inferenceservices", "chat")["status"]["columns"]["workers"] = "2/3"
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("inferplane.kube.show_status.time.sleep", change)
    result = call_cluster("status", "-w")

    assert result.exit_code == 0
    assert [line.split()[2] for line in result.stdout.splitlines() if line.startswith("chat")] == ["3/3", "2/3"]
