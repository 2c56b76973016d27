"""`preflight`: each thing a cluster may lack is found, and said with its fix."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from inferplane.kube.checks import Check, Level, check
from inferplane.kube.facts import RIGHTS, ClusterFacts, Right
from inferplane.kube.schemas import missing_fields
from inferplane.kube.testing import FakeCluster
from inferplane.kube.testing_objects import NOW, make_component
from inferplane.testing import Call
from inferplane_api.schema import custom_resource_definition
from inferplane_api.v1alpha1.kinds import KINDS

NEEDED = {
    "admissionregistration.k8s.io/v1",
    "gateway.networking.k8s.io/v1",
    "inference.networking.k8s.io/v1",
    "leaderworkerset.x-k8s.io/v1",
    "metrics.k8s.io/v1beta1",
    "resource.k8s.io/v1",
}


@cache
def defined(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = custom_resource_definition(kind)
    return found


def definition(kind: str, established: str = "True") -> dict[str, Any]:
    return {**defined(kind), "status": {"conditions": [{"type": "Established", "status": established}]}}


def node(name: str = "n1", **resources: str) -> dict[str, Any]:
    allocatable = {"cpu": "8", **{key.replace("__", "/").replace("_", "."): value for key, value in resources.items()}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


def storage_class(default: str = "true") -> dict[str, Any]:
    annotations = {"storageclass.kubernetes.io/is-default-class": default}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast", "annotations": annotations},
    }


def policy() -> dict[str, Any]:
    labels = {"app.kubernetes.io/part-of": "inferplane"}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "inferplane-in-use", "labels": labels},
    }


def lease(renewed: str, name: str = "n1") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "kube-node-lease"}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {"renewTime": renewed},
    }


def whole(**changes: Any) -> ClusterFacts:
    facts: dict[str, Any] = {
        "version": "v1.37.2",
        "groups": frozenset(NEEDED),
        "definitions": [definition(kind) for kind in KINDS],
        "nodes": [node(nvidia_com__gpu="8")],
        "storage_classes": [storage_class()],
        "components": [make_component("operator"), make_component("gateway")],
        "policies": [policy()],
        "leases": [lease("2027-01-15T07:59:55.123456Z")],
        "rights": dict.fromkeys(RIGHTS, True),
        "served_at": NOW,
        "seen_at": NOW + 1,
    }
    return ClusterFacts(**{**facts, **changes})


def test_nothing_stands_in_the_way_of_a_whole_cluster() -> None:
    found = check(whole())

    assert {it.level for it in found} == {Level.OK}
    assert not [it for it in found if it.fix]


def older(kind: str) -> dict[str, Any]:
    found = json.loads(json.dumps(definition(kind)))
    found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"].pop("slo")
    return dict(found)


def with_definition(changed: dict[str, Any] | None) -> list[dict[str, Any]]:
    rest = [definition(kind) for kind in KINDS if kind != "InferenceService"]
    return [*rest, changed] if changed else rest


GONE, KUBE = Level.LACKING, "kubernetes"


LACKS: list[tuple[dict[str, Any], str, Level, str]] = [
    ({"version": "v1.28.9"}, KUBE, GONE, "the chart does not take v1.28.9"),
    ({"definitions": with_definition(None)}, "resource InferenceService", GONE, "is not defined"),
    ({"definitions": with_definition(older("InferenceService"))}, "resource InferenceService", GONE, "spec.slo"),
    (
        {"definitions": with_definition(definition("InferenceService", "False"))},
        "resource InferenceService",
        GONE,
        "is not established",
    ),
    ({"definitions": None, "groups": frozenset()}, "resources", GONE, "inferplane.dev is not served"),
    ({"components": [make_component("gateway")]}, "operator", GONE, "is not installed"),
    ({"components": [make_component("operator"), make_component("gateway", 0)]}, "gateway", GONE, "0 of 2 ready"),
    (
        {"components": [make_component("operator"), make_component("gateway"), make_component("planner", 0)]},
        "planner",
        GONE,
        "0 of 2 ready",
    ),
    ({"components": None}, "operator and gateway", Level.OPTIONAL, "may not be read"),
    ({"policies": []}, "admission policy", Level.OPTIONAL, "is not installed"),
    ({"policies": None}, "admission policy", Level.OPTIONAL, "may not be read"),
    ({"version": "v1.29.0"}, "admission policy", Level.OPTIONAL, "this Kubernetes has none"),
    ({"rights": {Right("list", "pods"): False}}, "your rights", GONE, "you may not list pods in namespace default"),
    ({"nodes": [node()]}, "accelerators", Level.OPTIONAL, "none of 1 nodes has any"),
    ({"nodes": None}, "accelerators", Level.OPTIONAL, "nodes may not be read"),
    ({"storage_classes": [storage_class("false")]}, "default StorageClass", Level.OPTIONAL, "there is none"),
    ({"groups": frozenset({"apps/v1"})}, "LeaderWorkerSet", Level.OPTIONAL, "workers that span nodes"),
    ({"groups": frozenset({"apps/v1"})}, "metrics API", Level.OPTIONAL, "autoscaling"),
    ({"groups": frozenset({"apps/v1"})}, "device claims (DRA)", Level.OPTIONAL, "resourceClaims"),
    ({"groups": frozenset({"apps/v1"})}, "Gateway API", Level.OPTIONAL, "HTTPRoute"),
    ({"version": "v1.33.0"}, "image volumes", Level.OPTIONAL, "off by default"),
    ({"version": "v1.31.0"}, "image volumes", Level.OPTIONAL, "absent"),
    ({"seen_at": NOW - 90}, "this machine's clock", Level.OPTIONAL, "is 1m30s behind the cluster's"),
    ({"leases": [lease("2027-01-15T08:00:30Z")]}, "clock of n1", GONE, "is 30s ahead of the API server's"),
    ({"leases": [lease("2027-01-15T07:50:00Z")]}, "clock of n1", Level.OPTIONAL, "its Lease is 10m old"),
]


@pytest.mark.parametrize(("changes", "name", "level", "words"), LACKS)
def test_what_is_lacking_is_found(changes: dict[str, Any], name: str, level: Level, words: str) -> None:
    found = [it for it in check(whole(**changes)) if it.name == name and it.level is not Level.OK]

    assert [it.level for it in found] == [level]
    assert words in found[0].detail
    assert found[0].fix


def test_kserves_kind_of_the_same_name_is_no_fault_but_said() -> None:
    foreign = {"metadata": {"name": "inferenceservices.serving.kserve.io"}}
    found = next(it for it in check(whole(definitions=[*with_definition(None), foreign])) if it.name == "kserve")

    assert found.level is Level.OK
    assert "write inferenceservices.inferplane.dev" in found.detail


def test_accelerators_are_counted_by_resource() -> None:
    nodes = [
        node(nvidia_com__gpu="8"),
        node("n2", nvidia_com__gpu="4"),
        node("n3", amd_com__gpu="2", nvidia_com__gpu="0"),
    ]
    found = [it.detail for it in check(whole(nodes=nodes)) if it.name == "accelerators"]

    assert found == ["2 amd.com/gpu on 1 nodes", "12 nvidia.com/gpu on 2 nodes"]


def test_a_schema_that_is_free_below_a_field_lacks_nothing_there() -> None:
    ours: dict[str, Any] = {"properties": {"a": {"properties": {"b": {}}}, "c": {"items": {"properties": {"d": {}}}}}}
    free: dict[str, Any] = {"properties": {"a": {"x-kubernetes-preserve-unknown-fields": True}, "c": {"items": {}}}}

    assert missing_fields(ours, ours) == []
    assert missing_fields(ours, free) == ["c[].d"]


@pytest.fixture
def ready(cluster: FakeCluster) -> FakeCluster:
    """A cluster that lacks nothing."""
    cluster.served_at = NOW
    cluster.documents["/version"] = {"gitVersion": "v1.37.2"}
    cluster.documents["/apis"] = {"groups": [{"versions": [{"groupVersion": group}]} for group in sorted(NEEDED)]}
    return (
        cluster.add("customresourcedefinitions", *(definition(kind) for kind in KINDS))
        .add("nodes", node(nvidia_com__gpu="4"))
        .add("storageclasses", storage_class())
        .add("deployments", make_component("operator"), make_component("gateway"))
        .add("validatingadmissionpolicies", policy())
        .add("leases", lease("2027-01-15T07:59:58Z"))
    )


def test_a_whole_cluster_passes(call_cluster: Call, ready: FakeCluster) -> None:
    del ready
    result = call_cluster("preflight")

    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "cluster https://prod:6443, namespace default"
    assert result.stdout.splitlines()[-1] == "nothing stands in the way"
    assert "lacking" not in result.stdout


def test_what_is_lacking_comes_first_and_fails(call_cluster: Call, ready: FakeCluster) -> None:
    ready.remove("customresourcedefinitions", "kvstores.inferplane.dev")
    ready.forbidden |= {("list", "pods"), ("list", "nodes")}
    result = call_cluster("preflight")

    assert result.exit_code == 1
    first, fix = result.stdout.splitlines()[2:4]
    assert first.split() == ["lacking", "resource", "KVStore", "is", "not", "defined"]
    assert fix.strip() == "fix: install the chart: `helm install inferplane helm/inferplane`"
    assert "you may not list pods in namespace default" in result.stdout
    assert result.stdout.splitlines()[-1] == "2 lacking"
    shown = json.loads(call_cluster("preflight", "-o", "json").stdout)
    assert shown["ready"] is False
    assert {it["level"] for it in shown["checks"]} == {"ok", "lacking", "optional"}


GPU_SERVICE = """\
apiVersion: inferplane.dev/v1alpha1
kind: InferenceService
metadata: {name: big}
spec:
  model: {name: meta/m, source: {pvc: {claimName: weights}}}
  engine: {type: vllm, device: cuda}
  decode:
    parallelism: {tensor: 4}
    podTemplate: {spec: {imagePullSecrets: [{name: registry}], runtimeClassName: nvidia}}
  kvStore: {name: tiers}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "service.yaml"
    path.write_text(GPU_SERVICE)
    return path


def checks(call: Call, file: Path) -> dict[str, Check]:
    shown = json.loads(call("preflight", "-f", str(file), "-o", "json").stdout)
    return {it["name"]: Check(**{**it, "level": Level(it["level"])}) for it in shown["checks"]}


def stored(kind: str, name: str, api_version: str = "v1", namespace: str | None = "default") -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def test_a_file_whose_needs_are_there_passes(call_cluster: Call, ready: FakeCluster, file: Path) -> None:
    ready.add("persistentvolumeclaims", stored("PersistentVolumeClaim", "weights"))
    ready.add("secrets", stored("Secret", "registry"))
    ready.add("kvstores", stored("KVStore", "tiers", "inferplane.dev/v1alpha1"))
    ready.add("runtimeclasses", stored("RuntimeClass", "nvidia", "node.k8s.io/v1", None))
    found = checks(call_cluster, file)

    assert {it.level for it in found.values()} == {Level.OK}
    assert found["InferenceService big"].detail == "the API server accepts it"
    assert found["big-decode: 4 nvidia.com/gpu"].detail == "a node has 4"
    assert found["Secret registry"].detail == "is there (imagePullSecrets)"
    assert [question.query["dryRun"] for question in ready.written] == ["All"]


@pytest.mark.parametrize(
    ("devices", "name", "words", "fix"),
    [
        (
            "2",
            "big-decode: 4 nvidia.com/gpu",
            "no node has more than 2",
            "lower spec.decode.parallelism, or add nodes",
        ),
        (
            "0",
            "big-decode: 4 nvidia.com/gpu",
            "no node has that resource",
            "correct spec.decode.accelerator, install the device plugin, or add nodes",
        ),
        ("4", "Secret registry", "is not there in namespace default", "create it, or correct the file"),
        ("4", "PersistentVolumeClaim weights", "is not there in namespace default (volume model)", ""),
        ("4", "RuntimeClass nvidia", "is not there in this cluster", ""),
        ("4", "KVStore tiers", "is not there in namespace default (spec.kvStore.name)", ""),
    ],
)
def test_what_a_file_needs_and_is_not_there_is_named(
    call_cluster: Call, ready: FakeCluster, file: Path, *, devices: str, name: str, words: str, fix: str
) -> None:
    ready.add("nodes", node(nvidia_com__gpu=devices))
    found = checks(call_cluster, file)[name]

    assert found.level is Level.LACKING
    assert words in found.detail
    assert fix in found.fix


def test_what_the_api_server_says_of_a_file_is_shown(call_cluster: Call, ready: FakeCluster, file: Path) -> None:
    ready.refused["/apis/inferplane.dev/v1alpha1/namespaces/default/inferenceservices/big"] = "spec.model: too new"
    found = checks(call_cluster, file)["InferenceService big"]

    assert found.level is Level.LACKING
    assert "the cluster refuses it: spec.model: too new" in found.detail
