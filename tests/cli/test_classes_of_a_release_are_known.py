"""Files that name accelerator classes of the release: judged as its operator judges them."""

import json
from pathlib import Path
from typing import Any

import pytest

from inferplane.cluster import Object
from inferplane.kube.release_classes import release_accelerators
from inferplane.kube.testing import FakeCluster
from inferplane.kube.testing_objects import make_component
from inferplane.testing import Call
from inferplane_operator.render.accelerators import Accelerators

SERVICE = {
    "apiVersion": "inferplane.dev/v1alpha1",
    "kind": "InferenceService",
    "metadata": {"name": "shared"},
    "spec": {
        "model": {"name": "m", "source": {"path": "/srv/m"}},
        "mode": "aggregated",
        "decode": {"replicas": 1, "accelerator": "h100-shared"},
    },
}
CLASSES = {"classes": {"h100-shared": {"resource": "example.com/shared", "memory": "79Gi"}}}


def operator() -> dict[str, Any]:
    found = make_component("operator")
    volumes: list[Object] = [{"name": "cache", "emptyDir": {}}, {"name": "accelerators", "configMap": {"name": "told"}}]
    found["spec"]["template"] = {"spec": {"volumes": volumes}}
    return found


def told(text: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "told", "namespace": "system"},
        "data": {"accelerators.json": text},
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "service.json"
    path.write_text(json.dumps(SERVICE))
    return path


@pytest.fixture
def release(cluster: FakeCluster) -> FakeCluster:
    return cluster.add("deployments", operator(), make_component("gateway")).add(
        "configmaps", told(json.dumps(CLASSES))
    )


def test_a_diff_foresees_workers_of_such_a_class(call_cluster: Call, release: FakeCluster, file: Path) -> None:
    del release
    said = call_cluster("diff", "-f", str(file)).stdout

    assert "not known" not in said
    assert "Pods start:   1 of shared-decode" in said


def test_a_preflight_looks_for_the_resource_of_such_a_class(
    call_cluster: Call, release: FakeCluster, file: Path
) -> None:
    release.documents |= {"/version": {"gitVersion": "v1.37.2"}, "/apis": {"groups": []}}

    assert "shared-decode: 1 example.com/shared" in call_cluster("preflight", "-f", str(file)).stdout


@pytest.mark.parametrize("text", ["classes: 3", "", "{"])
def test_classes_that_no_operator_would_take_leave_the_built_in_ones(cluster: FakeCluster, text: str) -> None:
    cluster.add("configmaps", told(text))

    assert release_accelerators(cluster, [operator()]) == Accelerators()


def test_who_may_not_read_them_judges_by_the_built_in_ones(cluster: FakeCluster) -> None:
    cluster.add("configmaps", told(json.dumps(CLASSES)))
    assert release_accelerators(cluster, [operator()]).get("h100-shared") is not None

    cluster.forbidden |= {("get", "configmaps")}

    assert release_accelerators(cluster, [operator()]) == Accelerators()
    assert release_accelerators(cluster, None) == Accelerators()
