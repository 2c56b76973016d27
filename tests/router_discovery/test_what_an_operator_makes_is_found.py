"""Operator and routers agree on labels and references: what the one makes, the others find."""

import copy
from collections.abc import Mapping
from typing import Any

from inferplane_api.v1alpha1 import InferenceService
from inferplane_api.v1alpha1.manifests import parse_resource
from inferplane_operator.render import render_service
from inferplane_operator.render.objects import pool_object, pool_settings, workload
from inferplane_router.discovery.fake_cluster import FakeCluster, Object
from inferplane_router.discovery.testing import Found, manifest, service


def put(cluster: FakeCluster, raw: Mapping[str, Any]) -> Object:
    """Put what an operator applies, as an API server stores it."""
    return cluster.put(raw)


def child(owner: Object, version: str, kind: str, suffix: str, template: Mapping[str, Any], **rest: Any) -> Object:
    """Make what Kubernetes' controllers make of a workload: with the template's labels, below its owner."""
    labels = template["metadata"]["labels"]
    return manifest(version, kind, f"{owner['metadata']['name']}-{suffix}", owner=owner, labels=labels, **rest)


def running(template: Mapping[str, Any], ip: str) -> dict[str, Any]:
    return {"spec": template["spec"], "status": {"phase": "Running", "podIP": ip}}


def rendered_pools(cluster: FakeCluster, raw: Object) -> list[tuple[Object, Mapping[str, Any], str]]:
    """Put a service and its pools; return each with its Pod template and revision."""
    stored = put(cluster, raw)
    parsed = parse_resource(raw)
    assert isinstance(parsed, InferenceService)
    found: list[tuple[Object, Mapping[str, Any], str]] = []
    for pool in render_service(parsed).pools:
        made = pool_object(
            pool, stored, template=pool.pod_template, revision=pool.revision, settings=pool_settings(parsed, pool.role)
        )
        found.append((put(cluster, made), pool.pod_template, pool.revision))
    return found


def test_workers_of_deployments() -> None:
    cluster = FakeCluster()
    pools = rendered_pools(cluster, service("s", "m", prefill={}))
    for number, (pool, template, revision) in enumerate(pools):
        deployment = put(cluster, workload(pool, revision=revision, template=template, replicas=1))
        replicas = put(cluster, child(deployment, "apps/v1", "ReplicaSet", "7f", template))
        put(cluster, child(replicas, "v1", "Pod", "x", template, **running(template, f"10.0.0.{number}")))

    found = Found(cluster)

    assert sorted((worker.pool, worker.role.value, worker.http_address) for worker in found.workers.values()) == [
        ("s-decode", "decode", "10.0.0.1:8100"),
        ("s-prefill", "prefill", "10.0.0.0:8100"),
    ]
    assert {worker.revision for worker in found.workers.values()} == {revision for _, _, revision in pools}
    assert found.ignored["unowned_pod"] == 0


def over_two_nodes(template: Mapping[str, Any]) -> Object:
    """Let a template say what that of a model says which one node cannot hold."""
    made: Object = copy.deepcopy(dict(template))
    made["metadata"]["annotations"]["inferplane.dev/nodes"] = "2"
    made["spec"]["containers"][0]["args"] += ["--node-rank", "0"]
    return made


def test_workers_that_span_nodes() -> None:
    cluster = FakeCluster()
    ((pool, template, revision),) = rendered_pools(cluster, service("s", "m", mode="aggregated"))
    template = over_two_nodes(template)
    leader_worker_set = put(cluster, workload(pool, revision=revision, template=template, replicas=1))
    assert leader_worker_set["kind"] == "LeaderWorkerSet"
    group = leader_worker_set["spec"]["leaderWorkerTemplate"]
    of_set = {"metadata": {"labels": {"leaderworkerset.sigs.k8s.io/name": leader_worker_set["metadata"]["name"]}}}
    leaders = put(cluster, child(leader_worker_set, "apps/v1", "StatefulSet", "", of_set))
    leader = put(cluster, child(leaders, "v1", "Pod", "0", group["leaderTemplate"], **running(template, "10.0.0.1")))
    followers = put(cluster, child(leader, "apps/v1", "StatefulSet", "", of_set))
    put(cluster, child(followers, "v1", "Pod", "1", group["workerTemplate"], **running(template, "10.0.0.2")))

    found = Found(cluster)

    assert [worker.http_address for worker in found.workers.values()] == ["10.0.0.1:8100"]
    assert found.ignored["unowned_pod"] == 0
