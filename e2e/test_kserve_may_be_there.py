"""KServe has a kind called InferenceService too: each of the two is read and written as if the other were not there."""

from collections.abc import Iterator

import pytest

from e2e.support.cluster import Cluster
from e2e.support.conversation import Chat, Load
from e2e.support.release import Release
from e2e.support.services import Service, sim_service
from e2e.support.waiting import until

THEIR_CRD = "inferenceservices.serving.kserve.io"
THEIRS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": THEIR_CRD},
    "spec": {
        "group": "serving.kserve.io",
        "scope": "Namespaced",
        "names": {
            "kind": "InferenceService",
            "listKind": "InferenceServiceList",
            "plural": "inferenceservices",
            "singular": "inferenceservice",
            "shortNames": ["isvc"],
        },
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}
ONE_OF_THEIRS = {
    "apiVersion": "serving.kserve.io/v1beta1",
    "kind": "InferenceService",
    "metadata": {"name": "shared"},
    "spec": {"predictor": {"model": {"modelFormat": {"name": "sklearn"}}}},
}


@pytest.fixture
def kserve(cluster: Cluster) -> Iterator[None]:
    cluster.apply(THEIRS)
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{THEIR_CRD}", "--timeout=30s")
    yield
    cluster.kubectl("delete", "crd", THEIR_CRD)


@pytest.mark.usefixtures("kserve")
def test_objects_of_the_same_kind_and_name_live_side_by_side(
    cluster: Cluster, release: Release, namespace: str
) -> None:
    cluster.apply(ONE_OF_THEIRS, namespace=namespace)
    before = cluster.get(THEIR_CRD, "shared", namespace=namespace)
    ours = Service(cluster, namespace, "shared")
    ours.apply(sim_service("shared", prefill=0, served=namespace))

    ours.wait_ready()
    with Load(Chat(release.url, namespace, tokens=16), streams=2) as load:
        until(lambda: load.ended >= 4, what="answers")

    assert load.wrong == []
    assert cluster.get(THEIR_CRD, "shared", namespace=namespace) == before
    short = cluster.kubectl("get", "isvc", "-n", namespace, "-o", "name")
    assert short.split() == ["inferenceservice.serving.kserve.io/shared"]
