"""`diff`: what applying a file would do, told in the words of the operator's own foresight."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane.kube.change_view import change_lines, nothing_changes
from inferplane.kube.preview import LAST_APPLIED, Preview, patch
from inferplane.kube.testing import FakeCluster, merged
from inferplane.testing import Call
from inferplane_operator.reconcile.change import Change
from inferplane_operator.reconcile.targets import FREEZE
from inferplane_operator.reconcile.testing import FakeCluster as Operated

FILE: dict[str, Any] = {
    "apiVersion": "inferplane.dev/v1alpha1",
    "kind": "InferenceService",
    "metadata": {"name": "chat"},
    "spec": {
        "model": {"name": "meta/m", "servedNames": ["m"]},
        "engine": {"type": "sim", "args": ["--seed=2"]},
        "slo": {"ttft": "800ms"},
        "mode": "aggregated",
        "decode": {"replicas": 1, "maxReplicas": 8},
    },
}


PLURALS = {
    "InferenceService": "inferenceservices",
    "PrefillPool": "prefillpools",
    "DecodePool": "decodepools",
    "Deployment": "deployments",
    "Pod": "pods",
    "ControllerRevision": "controllerrevisions",
}


def applied(document: dict[str, Any]) -> dict[str, Any]:
    """Return an object as it is right after `kubectl apply`, which keeps a file that has no annotations with {}."""
    kept: dict[str, Any] = {**document, "metadata": {"annotations": {}, **document["metadata"]}}
    annotations = {LAST_APPLIED: json.dumps(kept)}
    return copy.deepcopy({**document, "metadata": {**document["metadata"], "annotations": annotations}})


@pytest.fixture
def world() -> Operated:
    """A service that an operator has brought up."""
    found = Operated(applied(FILE))
    found.settle()
    return found


@pytest.fixture
def cluster(world: Operated) -> FakeCluster:
    found = FakeCluster()
    for (kind, _), it in world.objects.items():
        if kind in PLURALS:
            found.add(PLURALS[kind], it)
    return found.add("inferenceservices", world.service)


def diff(call: Call, tmp_path: Path, spec: dict[str, Any], *args: str, code: int = 1) -> str:
    path = tmp_path / "service.json"
    path.write_text(json.dumps({**FILE, "spec": {**FILE["spec"], **spec}}))
    result = call("diff", "-f", str(path), *args)
    assert result.exit_code == code, result.output
    return result.output


def test_a_file_that_is_applied_already_differs_in_nothing(
    call_cluster: Call, cluster: FakeCluster, tmp_path: Path
) -> None:
    assert diff(call_cluster, tmp_path, {}, code=0) == ""
    assert all(question.query["dryRun"] == "All" for question in cluster.written)


def test_what_restarts_no_worker_says_so(call_cluster: Call, tmp_path: Path) -> None:
    said = diff(call_cluster, tmp_path, {"slo": {"ttft": "1s"}})

    assert '~ spec.slo.ttft: "800ms" -> "1s"' in said
    assert "stays: no worker is replaced" in said
    assert "Pods end:     none" in said


def test_what_replaces_workers_is_marked_with_the_field(call_cluster: Call, tmp_path: Path) -> None:
    said = diff(call_cluster, tmp_path, {"engine": {"type": "sim", "args": ["--seed=3"]}, "slo": {"ttft": "1s"}})

    assert '! spec.engine.args: ["--seed=2"] -> ["--seed=3"]' in said
    assert '~ spec.slo.ttft: "800ms" -> "1s"' in said
    assert "because of spec.engine.args" in said


def test_a_field_that_the_file_has_no_more_is_removed(call_cluster: Call, tmp_path: Path) -> None:
    said = diff(call_cluster, tmp_path, {"slo": {}})

    assert '~ spec.slo.ttft: "800ms" -> (none)' in said


def test_an_apply_does_not_thaw_a_frozen_service(
    call_cluster: Call, cluster: FakeCluster, world: Operated, tmp_path: Path
) -> None:
    world.service["metadata"]["annotations"][FREEZE] = "until the incident is over"
    cluster.add("inferenceservices", world.service)
    said = diff(call_cluster, tmp_path, {"engine": {"type": "sim", "args": ["--seed=3"]}})

    assert f"annotations.{FREEZE}" not in said
    assert "the service is frozen" in said
    assert "Pods end:     none" in said


def test_served_names_that_change_are_told(call_cluster: Call, tmp_path: Path) -> None:
    effects = json.loads(
        diff(call_cluster, tmp_path, {"model": {"name": "meta/m", "servedNames": ["n"]}}, "-o", "json")
    )["effects"]

    assert "m" in effects["names_lost"]
    assert "n" in effects["names_gained"]


def test_a_name_that_an_older_service_holds_is_not_gained(
    call_cluster: Call, cluster: FakeCluster, tmp_path: Path
) -> None:
    older = applied({**FILE, "metadata": {"name": "old"}, "spec": {**FILE["spec"], "model": {"name": "n"}}})
    older["metadata"] |= {"namespace": "default", "creationTimestamp": "2025-01-01T00:00:00Z"}
    cluster.add("inferenceservices", older)
    effects = json.loads(
        diff(call_cluster, tmp_path, {"model": {"name": "meta/m", "servedNames": ["m", "n"]}}, "-o", "json")
    )["effects"]

    assert "n" not in effects["names_gained"]


def test_a_service_that_is_new_is_said_to_be_created(call_cluster: Call, cluster: FakeCluster, tmp_path: Path) -> None:
    for plural in (*PLURALS.values(),):
        cluster.remove_all(plural)
    said = diff(call_cluster, tmp_path, {})

    assert said.splitlines()[0] == "InferenceService chat: is created"
    assert "(the first)" in said
    assert "Pods start:   1 of chat-decode" in said


def test_a_frozen_service_says_that_nothing_is_done_at_first(
    call_cluster: Call, cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.held("inferenceservices", "chat")["metadata"]["annotations"]["inferplane.dev/paused"] = "true"
    said = diff(call_cluster, tmp_path, {"engine": {"type": "sim", "args": ["--seed=3"]}})

    assert "nothing is done at first: the service is paused" in said


def test_what_cannot_be_found_out_is_no_difference(call_cluster: Call, cluster: FakeCluster, tmp_path: Path) -> None:
    path = "/apis/inferplane.dev/v1alpha1/namespaces/default/inferenceservices/chat"
    cluster.refused[path] = "spec.slo.ttft: must be positive"
    refused = diff(call_cluster, tmp_path, {}, code=2)
    cluster.forbidden.add(("get", "inferenceservices"))

    assert "the cluster refuses it: spec.slo.ttft: must be positive" in refused
    assert "cannot get resource" in diff(call_cluster, tmp_path, {}, code=2)


EDITS: list[dict[str, Any]] = [
    {"engine": {"type": "sim", "args": ["--seed=3"]}},
    {"decode": {"replicas": 3, "maxReplicas": 8}},
    {"decode": {"replicas": 0, "minReplicas": 0, "maxReplicas": 8}},
    {"engine": {"type": "sim", "args": ["--seed=3"]}, "decode": {"replicas": 2, "maxReplicas": 8}},
    {"mode": "disaggregated", "prefill": {"replicas": 2, "maxReplicas": 2}},
    {"slo": {"ttft": "1s"}, "routing": {"queueLimit": 5}},
]


@pytest.mark.parametrize("spec", EDITS, ids=["arguments", "more", "none", "both", "a pool more", "nothing to restart"])
def test_what_is_foreseen_happens(call_cluster: Call, world: Operated, tmp_path: Path, spec: dict[str, Any]) -> None:
    effects = json.loads(diff(call_cluster, tmp_path, spec, "-o", "json"))["effects"]
    before = {pod["metadata"]["name"] for pod in world.pods()}
    world.edit(spec)
    world.settle()
    after = {pod["metadata"]["name"] for pod in world.pods()}

    assert set(effects["stops"]) == before - after
    assert sum(effects["starts"].values()) == len(after - before)
    assert effects["new_revision"] == world.service["status"]["revision"]
    for pool, (_, wanted) in effects["replicas"].items():
        assert world.pool(pool)["spec"]["replicas"] == wanted


RESTART: dict[str, Any] = {"engine": {"type": "sim", "args": ["--seed=3"]}}


def test_the_cache_that_is_lost_is_asked_of_the_agents(
    call_cluster: Call, cluster: FakeCluster, world: Operated, tmp_path: Path
) -> None:
    (pod,) = world.pods()
    path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}:9090/proxy/metrics"
    cluster.log_lines[path] = [
        "# TYPE inferplane_agent_kv_blocks gauge",
        'inferplane_agent_kv_blocks{plane="host"} 7.0',
        'inferplane_agent_kv_blocks{plane="device"} 1234.0',
    ]

    assert "cache lost:   1234 KV blocks on the Pods that end" in diff(call_cluster, tmp_path, RESTART)


@pytest.mark.parametrize("why", ["forbidden", "silent"])
def test_a_cache_that_nobody_tells_of_is_unknown(
    call_cluster: Call, cluster: FakeCluster, tmp_path: Path, why: str
) -> None:
    if why == "forbidden":
        cluster.forbidden.add(("get", "pods/proxy"))

    assert "cache lost:   unknown: the agents could not be asked" in diff(call_cluster, tmp_path, RESTART)


CHANGE = Change(
    old_revision="aaa",
    new_revision="bbb",
    fields=("spec.engine.args",),
    stops=tuple(f"chat-decode-aaa-{number}" for number in range(10)),
    starts={"chat-decode": 10, "chat-prefill": 1},
    replicas={"chat-prefill": (0, 1)},
    devices_now=10,
    devices_peak=12,
    devices_after=11,
    cached_blocks_lost=4096,
    names_lost=("old",),
    names_gained=("new", "newer"),
)
OBJECT = {"kind": "InferenceService", "metadata": {"name": "chat"}, "spec": {"a": 1}}


def test_every_effect_is_a_line() -> None:
    lines = list(change_lines(CHANGE, [Preview(OBJECT, OBJECT)]))

    names = ", ".join(f"chat-decode-aaa-{number}" for number in range(8))
    assert lines == [
        "InferenceService chat: stays as it is",
        "",
        "revision:     aaa -> bbb, because of spec.engine.args",
        f"Pods end:     10 ({names} and 2 more), each once it has finished what it has",
        "Pods start:   10 of chat-decode, 1 of chat-prefill",
        "replicas:     chat-prefill 0 -> 1",
        "devices:      10 now, 12 at the peak (and what draining workers still hold), 11 afterwards",
        "cache lost:   4096 KV blocks on the Pods that end",
        "names lost:   old: requests for them fail",
        "names new:    new, newer",
    ]


def test_only_an_empty_change_of_equal_objects_is_no_change() -> None:
    same, other = Preview(OBJECT, OBJECT), Preview(OBJECT, {**OBJECT, "spec": {}})

    assert nothing_changes(Change(), [same])
    assert not nothing_changes(CHANGE, [same])
    assert not nothing_changes(Change(), [same, other])
    assert not nothing_changes(Change(), [Preview(None, OBJECT)])


VALUES = st.recursive(
    st.integers(0, 3) | st.lists(st.integers(0, 2), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
MAPPINGS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(last=MAPPINGS, wanted=MAPPINGS, foreign=st.integers())
def test_applying_gives_what_the_file_has_and_keeps_what_others_wrote(
    last: dict[str, Any], wanted: dict[str, Any], foreign: int
) -> None:
    live = {**last, "foreign": foreign}

    assert merged(live, patch(last, wanted)) == {**wanted, "foreign": foreign}
