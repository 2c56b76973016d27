"""A worker on several nodes is a LeaderWorkerSet: seen from the pool down to the Pods of its other nodes."""

from typing import Any

import pytest

from inferplane.cluster import Connection
from inferplane.kube.fields import name_of
from inferplane.kube.picture import Picture, picture
from inferplane.kube.testing import FakeCluster
from inferplane.kube.testing_objects import chat_cluster, make_owned, make_pod, make_pool

GROUPS = "leaderworkerset.x-k8s.io/v1"
SPREAD = {"metadata": {"annotations": {"inferplane.dev/nodes": "2"}}}


def spread_cluster() -> FakeCluster:
    """Make the cluster of `chat`, whose prefill workers have two nodes each, as LeaderWorkerSet makes them."""
    cluster = chat_cluster()
    cluster.served.add(f"/apis/{GROUPS}")
    pool = make_pool("prefill", replicas=1, ready=1)
    pool["spec"]["podTemplate"] = SPREAD
    group = {
        **make_owned("LeaderWorkerSet", "chat-prefill-bbb", "PrefillPool", "uid-chat-prefill"),
        "apiVersion": GROUPS,
    }
    leading = make_owned("StatefulSet", "chat-prefill-bbb", "LeaderWorkerSet", "uid-chat-prefill-bbb")
    leading["metadata"] |= {"labels": {}, "uid": "uid-leading"}  # its labels are LeaderWorkerSet's own
    following = make_owned("StatefulSet", "chat-prefill-bbb-0", "Pod", "uid-chat-prefill-bbb-0")
    following["metadata"] |= {"labels": {}, "uid": "uid-following"}
    foreign = make_owned("StatefulSet", "foreign", "Pod", "uid-foreign")
    return (
        cluster.add("prefillpools", pool)
        .add("leaderworkersets", group)
        .add("statefulsets", leading, following, foreign)
        .add(
            "pods", controlled("chat-prefill-bbb-0", "uid-leading"), controlled("chat-prefill-bbb-0-1", "uid-following")
        )
    )


def controlled(name: str, by: str) -> dict[str, Any]:
    pod = make_pod(name)
    pod["metadata"] |= {"uid": f"uid-{name}"}
    pod["metadata"]["ownerReferences"] = [{"kind": "StatefulSet", "name": by, "uid": by, "controller": True}]
    return pod


def seen(cluster: FakeCluster) -> Picture:
    return picture(Connection(cluster, "default"), "chat")


def test_the_picture_goes_down_to_the_pods_of_other_nodes() -> None:
    found = seen(spread_cluster())

    assert [name_of(it) for it in found.workloads] == ["chat-decode-bbb", "chat-prefill-bbb"]
    assert [name_of(it) for it in found.sets] == ["chat-decode-bbb-rs", "chat-prefill-bbb", "chat-prefill-bbb-0"]
    assert [name_of(it) for it in found.pods] == ["chat-decode-bbb-x1", "chat-prefill-bbb-0", "chat-prefill-bbb-0-1"]


def test_an_old_revision_that_spans_nodes_is_seen_as_well() -> None:
    cluster = spread_cluster()
    cluster.add("prefillpools", make_pool("prefill", replicas=1, ready=1))
    revision = make_owned("ControllerRevision", "chat-old", "InferenceService", "uid-default-chat", data=SPREAD)
    cluster.add("controllerrevisions", revision)

    assert "chat-prefill-bbb-0-1" in [name_of(it) for it in seen(cluster).pods]


@pytest.mark.parametrize("plural", ["leaderworkersets", "statefulsets"])
def test_what_may_not_be_read_is_named(plural: str) -> None:
    cluster = spread_cluster()
    cluster.forbidden.add(("list", plural))

    assert seen(cluster).hidden == (plural,)


def test_a_cluster_without_that_kind_has_none() -> None:
    cluster = spread_cluster()
    cluster.served.discard(f"/apis/{GROUPS}")

    found = seen(cluster)
    assert [name_of(it) for it in found.workloads] == ["chat-decode-bbb"]
    assert found.hidden == ()


def test_a_service_on_single_nodes_does_not_ask_for_them() -> None:
    cluster = chat_cluster()
    cluster.forbidden |= {("list", "leaderworkersets"), ("list", "statefulsets")}

    assert seen(cluster).hidden == ()
