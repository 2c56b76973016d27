"""`rollback`, `freeze`, `unfreeze` and `scale` in a cluster."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane.cluster import ConflictError, Connection, Question, refusal
from inferplane.errors import InvalidError, NotReadyError
from inferplane.kube.revisions import Revision, differences, reverted, to_go_back_to
from inferplane.kube.scaling import find_pool, wait_scaled
from inferplane.kube.testing import FakeCluster
from inferplane.kube.testing_objects import make_pool, make_revision, make_service
from inferplane.testing import Call


def spec(cluster: FakeCluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.held("inferenceservices", "chat")["spec"]
    return found


def test_a_rollback_goes_to_the_revision_before_and_keeps_sizes_and_objectives(
    call_cluster: Call, cluster: FakeCluster
) -> None:
    result = call_cluster("rollback", "chat")

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "chat: revision bbb -> aaa",
        '  spec.engine.args: ["--seed=2"] -> ["--seed=1"]',
        '  spec.engine.env: {"TOKEN": "hush"} -> (none)',
        '  spec.model.revision: "main" -> "c0ffee"',
        "whoever applies the file again (by hand, or from a repository) undoes this: change the file, too",
        "chat is being rolled back to aaa",
    ]
    assert spec(cluster)["engine"]["args"] == ["--seed=1"]
    assert spec(cluster)["decode"] == {"replicas": 2, "maxReplicas": 8}
    assert spec(cluster)["model"]["revision"] == "c0ffee"
    assert spec(cluster)["slo"] == {"ttft": "800ms", "tpot": "25ms"}


def test_a_dry_run_asks_the_cluster_and_changes_nothing(call_cluster: Call, cluster: FakeCluster) -> None:
    result = call_cluster("rollback", "chat", "--dry-run")

    assert result.stdout.splitlines()[-1] == "chat would be rolled back to aaa"
    assert spec(cluster) == make_service()["spec"]
    assert [question.query["dryRun"] for question in cluster.written] == ["All"]


def test_revisions_are_listed_oldest_first(call_cluster: Call) -> None:
    result = call_cluster("rollback", "chat", "--list")

    assert result.stdout.splitlines() == [
        "REVISION   AGE   MODEL    NOTE",
        "aaa        1m    meta/m   -",
        "bbb        1m    meta/m   current",
    ]
    listed = json.loads(call_cluster("rollback", "chat", "--list", "-o", "json").stdout)
    assert [it["revision"] for it in listed["revisions"]] == ["aaa", "bbb"]


def test_a_revision_that_is_used_again_is_listed_once(call_cluster: Call, cluster: FakeCluster) -> None:
    """Its older entry goes when the newer one is there."""
    again = make_revision("aaa", 3, make_service()["spec"])
    again["metadata"]["name"] = "chat-aaa-3"
    cluster.add("controllerrevisions", again)

    listed = json.loads(call_cluster("rollback", "chat", "--list", "-o", "json").stdout)

    assert [it["revision"] for it in listed["revisions"]] == ["bbb", "aaa"]


def test_a_rollback_to_what_is_not_kept_lists_what_is(call_cluster: Call) -> None:
    result = call_cluster("rollback", "chat", "--to", "ccc")

    assert result.exit_code == 2
    assert "--to: revision 'ccc' is not kept; there are: aaa, bbb" in result.stderr


def test_a_rollback_to_the_current_revision_does_nothing(call_cluster: Call, cluster: FakeCluster) -> None:
    cluster.held("inferenceservices", "chat")["spec"]["model"]["revision"] = "facade"
    result = call_cluster("rollback", "chat", "--to", "bbb")

    assert result.exit_code == 0
    assert "nothing to do" in result.stdout
    assert cluster.written == []


def test_a_frozen_service_is_not_rolled_back(call_cluster: Call, cluster: FakeCluster) -> None:
    call_cluster("freeze", "chat", "--reason", "weekend")
    result = call_cluster("rollback", "chat")

    assert result.exit_code == 2
    assert "chat is frozen: nothing would be rolled out; run `inferplane unfreeze chat` first" in result.stderr
    assert spec(cluster)["engine"]["args"] == ["--seed=2"]


def test_a_refused_rollback_shows_the_clusters_words(call_cluster: Call, cluster: FakeCluster) -> None:
    path = "/apis/inferplane.dev/v1alpha1/namespaces/default/inferenceservices/chat"
    cluster.refused[path] = "spec.model.name: is immutable"
    result = call_cluster("rollback", "chat")

    assert result.exit_code == 2
    assert "the cluster refuses it: spec.model.name: is immutable" in result.stderr


def test_freezing_is_said_once_and_undone(call_cluster: Call, cluster: FakeCluster) -> None:
    first, again = call_cluster("freeze", "chat"), call_cluster("freeze", "chat")

    assert "chat is frozen: workers that die are replaced" in first.stdout
    assert again.stdout == "chat is frozen already\n"
    assert cluster.held("inferenceservices", "chat")["metadata"]["annotations"] == {"inferplane.dev/freeze": "true"}

    undone, twice = call_cluster("unfreeze", "chat"), call_cluster("unfreeze", "chat")

    assert "chat goes on" in undone.stdout
    assert twice.stdout == "chat is not frozen\n"
    assert cluster.held("inferenceservices", "chat")["metadata"]["annotations"] == {}


@pytest.mark.parametrize("called", ["chat/decode", "chat-decode", "decode"])
def test_a_pool_is_scaled_through_its_scale_subresource(call_cluster: Call, cluster: FakeCluster, called: str) -> None:
    result = call_cluster("scale", called, "5")

    assert result.stdout == "chat-decode scaled from 2 to 5\n"
    assert cluster.held("decodepools", "chat-decode")["spec"]["replicas"] == 5
    assert cluster.written[0].path.endswith("/decodepools/chat-decode/scale")
    assert cluster.written[0].body == {"spec": {"replicas": 5}}


def test_scaling_stays_within_the_services_bounds(call_cluster: Call, cluster: FakeCluster) -> None:
    more, less, unknown = (
        call_cluster("scale", "chat/decode", "9"),
        call_cluster("scale", "chat/prefill", "0"),
        call_cluster("scale", "chat/encode", "1"),
    )

    assert (more.exit_code, less.exit_code, unknown.exit_code) == (2, 2, 2)
    assert "9 is more than maxReplicas of chat-decode (8); change spec.decode.maxReplicas" in more.stderr
    assert "0 is less than minReplicas of chat-prefill (1); change spec.prefill.minReplicas" in less.stderr
    assert "has no pool 'chat/encode'; there are: chat/decode, chat/prefill" in unknown.stderr
    assert cluster.written == []


def test_a_pool_without_its_service_is_asked_back_where_there_are_several(
    call_cluster: Call, cluster: FakeCluster
) -> None:
    cluster.add("inferenceservices", make_service("other"))
    result = call_cluster("scale", "decode", "3")

    assert result.exit_code == 2
    assert "which service?  Name one of namespace default: chat, other (SERVICE/POOL for a pool)" in result.stderr
    assert call_cluster("scale", "decode", "3", "--name", "chat").exit_code == 0


def test_waiting_ends_when_exactly_so_many_workers_serve(cluster: FakeCluster) -> None:
    pool = find_pool(Connection(cluster), "chat/decode", "")
    said: list[str] = []
    steps = [{"replicas": 4, "readyReplicas": 3}, {"replicas": 3, "readyReplicas": 3}]

    def sleep(_: float) -> None:
        cluster.held("decodepools", "chat-decode")["status"].update(steps.pop(0))

    wait_scaled(pool, 3, 60, said.append, clock=lambda: 0.0, sleep=sleep)

    assert said == [
        "chat-decode: 2 of 3 ready, 2 exist",
        "chat-decode: 3 of 3 ready, 4 exist",
        "chat-decode: 3 of 3 ready",
    ]


def test_waiting_too_long_says_where_to_look(cluster: FakeCluster) -> None:
    pool = find_pool(Connection(cluster), "chat/decode", "")
    times = iter([0.0, 1.0, 61.0])
    with pytest.raises(NotReadyError, match="see `inferplane status chat` for why") as caught:
        wait_scaled(pool, 3, 60, lambda _: None, clock=lambda: next(times), sleep=lambda _: None)

    assert caught.value.exit_code == 3


def test_a_status_before_the_change_is_not_taken_for_the_end(cluster: FakeCluster) -> None:
    cluster.add("decodepools", {**make_pool(), "metadata": {**make_pool()["metadata"], "generation": 2}})
    pool = find_pool(Connection(cluster), "chat/decode", "")
    with pytest.raises(NotReadyError):
        wait_scaled(pool, 2, 0, lambda _: None, clock=iter([0.0, 1.0]).__next__, sleep=lambda _: None)


def test_somebody_faster_is_said_so() -> None:
    error = refusal(409, {"kind": "Status", "message": "changed", "reason": "Conflict"}, Question("/x"))

    assert isinstance(error, ConflictError)
    assert "somebody changed it at the same time: try again" in error.message


def revision(spec_then: dict[str, Any], name: str = "old", model_revision: str = "") -> Revision:
    return Revision(name=name, number=1, created="", spec=spec_then, model_revision=model_revision)


def test_a_prefill_pool_comes_and_goes_with_the_mode() -> None:
    apart = {"model": {"name": "m"}, "mode": "disaggregated", "prefill": {"replicas": 3}, "decode": {}}
    alone = {"model": {"name": "m"}, "mode": "aggregated", "decode": {"replicas": 4}}

    assert reverted(alone, revision(apart)) == {
        "model": {"name": "m"},
        "mode": "disaggregated",
        "prefill": {"replicas": 3},
        "decode": {"replicas": 4},
    }
    assert reverted(apart, revision(alone)) == {"model": {"name": "m"}, "mode": "aggregated", "decode": {}}


def test_without_an_earlier_revision_there_is_nothing_to_go_back_to() -> None:
    with pytest.raises(InvalidError, match="no revision is kept yet"):
        to_go_back_to([], "a", "")
    with pytest.raises(InvalidError, match="there is no revision but the current one, old"):
        to_go_back_to([revision({})], "old", "")
    with pytest.raises(InvalidError, match="fits several"):
        to_go_back_to([revision({}, "ab"), revision({}, "ac")], "", "a")


@st.composite
def pools(draw: st.DrawFn) -> dict[str, Any]:
    sizes = {name: draw(st.integers(1, 9)) for name in draw(st.sets(st.sampled_from(["replicas", "maxReplicas"])))}
    return {**sizes, "parallelism": {"tensor": draw(st.integers(1, 8))}}


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    maybe: dict[str, Any] = {"drainTimeout": "1m", "kvStore": {"name": "k"}, "prefill": draw(pools())}
    chosen = draw(st.sets(st.sampled_from(sorted(maybe))))
    return {
        "model": {"name": draw(st.sampled_from("ab"))},
        "decode": draw(pools()),
        "slo": {"ttft": draw(st.sampled_from(["1s", "2s"]))},
        **{name: maybe[name] for name in chosen},
    }


@given(now=specs(), then=specs())
def test_going_back_changes_what_workers_are_made_of_and_nothing_else(
    now: dict[str, Any], then: dict[str, Any]
) -> None:
    result = reverted(now, revision(then))

    assert result["slo"] == now["slo"]
    for field in ("model", "drainTimeout", "kvStore"):
        assert result.get(field) == then.get(field)
    for role in ("prefill", "decode"):
        assert (role in result) == (role in then)
        if role in then:
            assert result[role]["parallelism"] == then[role]["parallelism"]
        if role in then and role in now:
            assert result[role].get("replicas") == now[role].get("replicas")
    assert reverted(result, revision(then)) == result
    assert differences(result, result) == []
    assert (differences(now, result) == []) == (now == result)
