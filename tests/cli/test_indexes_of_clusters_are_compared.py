"""`diagnose` in a cluster asks each router, through the API server, how its index compares with what workers hold."""

import json
from typing import Any

import pytest

from inferplane.kube.testing import FakeCluster
from inferplane.kube.testing_objects import make_component, make_pod
from inferplane.testing import Call

WORKER = "chat-decode-bbb-x1"


def place(missing: int = 0, surplus: int = 0) -> dict[str, Any]:
    examples = [f"{number:016x}" for number in range(missing + surplus)]
    return {"rank": 0, "plane": "device", "blocks": 7, "missing": missing, "surplus": surplus, "examples": examples}


def compared(*places: dict[str, Any], worker: str = f"default/{WORKER}", problem: str = "") -> dict[str, Any]:
    return {"worker": worker, "problem": problem, "places": list(places)}


def add_router(cluster: FakeCluster, name: str, *workers: dict[str, Any] | str) -> None:
    """Add a router's Pod, which answers with these workers, or with a text; without any it cannot be reached."""
    router = make_pod(name)
    router["metadata"] |= {"namespace": "system", "labels": {"inferplane.dev/component": "gateway"}}
    cluster.add("pods", router)
    if workers:
        answer = workers[0] if isinstance(workers[0], str) else json.dumps({"workers": workers})
        cluster.log_lines[f"/api/v1/namespaces/system/pods/{name}:9090/proxy/index"] = [answer]


def findings(call: Call) -> dict[str, dict[str, Any]]:
    shown = json.loads(call("diagnose", "chat", "-o", "json").stdout)
    return {it["check"]: it for it in shown["findings"] if "block index" in it["check"]}


@pytest.fixture
def installed(cluster: FakeCluster) -> FakeCluster:
    return cluster.add("deployments", make_component("operator"), make_component("gateway"))


def test_each_router_is_asked_and_a_wrong_index_is_a_problem(call_cluster: Call, installed: FakeCluster) -> None:
    add_router(installed, "router-1", compared(place()))
    add_router(installed, "router-2", compared(place(missing=2, surplus=1)))
    found = findings(call_cluster)

    assert found.keys() == {f"pod {WORKER} block index of router-1", f"pod {WORKER} block index of router-2"}
    assert found[f"pod {WORKER} block index of router-1"]["ok"]
    wrong = found[f"pod {WORKER} block index of router-2"]
    assert "rank 0, device: 2 of 7 blocks missing, 1 too many" in wrong["detail"]
    assert f"`inferplane logs {WORKER} -c agent`" in wrong["fix"]
    assert call_cluster("diagnose", "chat").exit_code == 1


def test_workers_of_other_services_are_not_shown(call_cluster: Call, installed: FakeCluster) -> None:
    elsewhere = f"prod/{WORKER}"
    add_router(installed, "router-1", compared(place(missing=3), worker=elsewhere), compared(place()))
    found = findings(call_cluster)

    assert found.keys() == {f"pod {WORKER} block index of router-1"}


def test_a_worker_that_could_not_be_compared_says_why(call_cluster: Call, installed: FakeCluster) -> None:
    add_router(installed, "router-1", compared(problem="the agent at 10.0.0.1:8101 does not answer"))
    found = findings(call_cluster)[f"pod {WORKER} block index of router-1"]

    assert (found["ok"], found["detail"]) == (False, "the agent at 10.0.0.1:8101 does not answer")


@pytest.mark.parametrize("answer", [(), ("<html>",), ('{"workers": [{}]}',)], ids=["silent", "no JSON", "strange"])
def test_a_router_that_cannot_be_asked_is_named_and_no_problem(
    call_cluster: Call, installed: FakeCluster, answer: tuple[str, ...]
) -> None:
    add_router(installed, "router-1", *answer)
    found = findings(call_cluster)["block index"]

    assert found["ok"]
    assert found["detail"].startswith("router system/router-1 could not be asked: ")


def test_whoever_may_not_ask_is_told_which_right_is_missing(call_cluster: Call, installed: FakeCluster) -> None:
    add_router(installed, "router-1", compared(place()))
    installed.forbidden.add(("get", "pods/proxy"))

    assert "pods/proxy" in findings(call_cluster)["block index"]["detail"]
    assert call_cluster("diagnose", "chat").exit_code == 0
