"""The API server takes what we call right, refuses what we call wrong, and explains itself.

The wrong manifests are those whose errors the unit tests look at; here the server alone judges them.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiException

from e2e.cluster.places import REPOSITORY
from e2e.support.cluster import Cluster
from inferplane_api.schema.definitions import NAMES
from inferplane_api.v1alpha1.metadata import API_VERSION
from tests.api.test_manifest_errors_name_field_and_fix import CASES

EXAMPLES = sorted((REPOSITORY / "examples").glob("*.yaml"))
GROUP, VERSION = API_VERSION.split("/")
REFUSED = (400, 422)
COARSER = {
    # a server's rules name a map or a list, not an entry of it
    "spec.engine.env.INFERPLANE_X": "spec.engine.env",
    "spec.decode.resources.requests.cpu": "spec.decode.resources.requests",
    "spec.tiers[1].medium": "spec.tiers",
}


def ours(manifest: dict[str, Any]) -> bool:
    """Tell whether the server gets to see it as one of our kinds, in a namespace that may exist."""
    known = manifest["kind"] in NAMES and manifest["apiVersion"] == API_VERSION
    return known and "namespace" not in manifest["metadata"]


OURS = [case for case in CASES if ours(case[0])]

pytestmark = pytest.mark.usefixtures("crds")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_accepted(path: Path, cluster: Cluster) -> None:
    # in a file for a laptop a path may be relative; in a cluster it is a node's
    text = re.sub(r"\bpath: \.{1,2}/", "path: /srv/", path.read_text("utf-8"))
    text = re.sub(r"^  namespace: .*\n", "", text, flags=re.MULTILINE)  # which is not there

    cluster.apply(text, "--server-side", "--dry-run=server")


@pytest.mark.parametrize(("manifest", "path", "says"), OURS, ids=[f"{n}-{case[1]}" for n, case in enumerate(OURS)])
def test_a_wrong_manifest_is_refused_with_its_field(manifest: dict[str, Any], path: str, says: str, api: Any) -> None:
    problem = refusal(manifest, api)

    assert leaf(COARSER.get(path, path)) in problem, (says, problem)


def refusal(manifest: dict[str, Any], api: Any) -> str:
    """Return what the server says against a manifest."""
    with pytest.raises(ApiException) as caught:
        api.CustomObjectsApi().create_namespaced_custom_object(
            GROUP,
            VERSION,
            "default",
            NAMES[manifest["kind"]].plural,
            manifest,
            dry_run="All",
            field_validation="Strict",
        )
    error: Any = caught.value
    assert error.status in REFUSED, error.body
    return str(json.loads(error.body)["message"])


def leaf(path: str) -> str:
    """Return the last name of a field's path, without an index."""
    return re.sub(r"\[\d+\]$", "", path).rpartition(".")[2]


def test_the_limits_are_explained(cluster: Cluster) -> None:
    text = " ".join(cluster.kubectl("explain", "inferenceservice.spec.slo").split())

    assert "How fast it has to be." in text
    assert "Time to the first token within which the percentile must be." in text
    assert "Time per output token within which the percentile must be." in text
    assert 'Duration such as "1500ms"' in text


def test_fields_of_fields_are_explained(cluster: Cluster) -> None:
    text = cluster.kubectl("explain", "inferenceservice.spec", "--recursive")

    assert {"model", "engine", "slo", "prefill", "decode", "rollout"} <= set(
        re.findall(r"^  (\w+)", text, re.MULTILINE)
    )


POOL: dict[str, Any] = {
    "apiVersion": API_VERSION,
    "kind": "DecodePool",
    "metadata": {"name": "demo-decode"},
    "spec": {"service": "demo", "revision": "r1", "replicas": 1, "podTemplate": {"metadata": {}, "spec": {}}},
}


def test_a_pool_is_scaled_by_anybody(cluster: Cluster, namespace: str) -> None:
    cluster.apply(POOL, namespace=namespace)

    cluster.kubectl("scale", "-n", namespace, "decodepool/demo-decode", "--replicas=3")

    assert cluster.get("decodepool", "demo-decode", namespace=namespace)["spec"]["replicas"] == 3


def test_who_scales_keeps_what_was_set_when_others_apply(cluster: Cluster, namespace: str) -> None:
    """Applying a manifest that does not mention `replicas` leaves it to whoever scaled."""
    spec = {key: value for key, value in POOL["spec"].items() if key != "replicas"}
    without = {**POOL, "spec": spec}
    cluster.apply(without, "--server-side", "--field-manager=one", namespace=namespace)
    cluster.kubectl("scale", "-n", namespace, "decodepool/demo-decode", "--replicas=5")

    cluster.apply(without, "--server-side", "--field-manager=one", namespace=namespace)

    assert cluster.get("decodepool", "demo-decode", namespace=namespace)["spec"]["replicas"] == 5


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("inferenceservices", ["NAME", "MODEL", "WORKERS", "P:D", "TTFT", "TPOT", "SLOMET", "READY", "AGE"]),
        ("decodepools", ["NAME", "SERVICE", "READY", "DESIRED", "UPDATED", "REVISION", "AGE"]),
    ],
)
def test_columns_say_what_matters(kind: str, columns: list[str], cluster: Cluster, namespace: str) -> None:
    example = (REPOSITORY / "examples" / "sim.yaml").read_text("utf-8")
    cluster.apply(example, namespace=namespace)
    cluster.apply(POOL, namespace=namespace)

    head = cluster.kubectl("get", kind, "-n", namespace).splitlines()[0]

    assert columns == head.split()


def test_the_category_lists_all_of_ours(cluster: Cluster, namespace: str) -> None:
    cluster.apply(POOL, namespace=namespace)

    assert "demo-decode" in cluster.kubectl("get", "inferplane", "-n", namespace)
