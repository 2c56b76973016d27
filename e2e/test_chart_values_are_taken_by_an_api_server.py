"""Every combination of the chart's values renders manifests that a real API server accepts.

Values are drawn from the schema, as in tests/helm; here the server judges, by a dry run.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from chart_draws import values
from e2e.cluster.binaries import path_of
from e2e.support.cluster import Cluster
from helm_chart import Helm, Manifest

ABSENT = {"HTTPRoute", "InferencePool"}
"""Kinds of APIs that are not in this cluster."""
NAMESPACE = "chart-values"


@pytest.fixture(scope="module")
def room(cluster: Cluster) -> Iterator[Cluster]:
    """Give a cluster with a namespace for dry runs."""
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.wait("serviceaccount/default", "create", namespace=NAMESPACE)
    yield cluster
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.mark.timeout(300, func_only=True)
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    phases=set(Phase) - {Phase.shrink},
)
@given(chosen=values())
def test_any_combination_of_values_is_accepted(room: Cluster, chosen: dict[str, Any]) -> None:
    manifests = Helm(path_of("helm")).render(in_one_namespace(chosen), release="drawn", namespace=NAMESPACE)
    wanted = [manifest for manifest in manifests if manifest["kind"] not in ABSENT]

    assert refused(room, wanted) == ""


def in_one_namespace(chosen: dict[str, Any]) -> dict[str, Any]:
    """Send everything to the one namespace that is there, with a priority that every cluster has."""
    elsewhere = {"namespaceOverride", "watchNamespace", "monitoring"}  # whose kinds this cluster does not know
    kept = {key: value for key, value in chosen.items() if key not in elsewhere}
    for component in ("operator", "gateway"):
        if kept.get(component, {}).get("priorityClassName"):
            kept[component] = {**kept[component], "priorityClassName": "system-cluster-critical"}
    policies: dict[str, Any] = {**kept.get("networkPolicies", {}), "workerNamespaces": []}
    watched = {"watchNamespace": NAMESPACE} if chosen.get("watchNamespace") else {}
    return {**kept, **watched, "networkPolicies": policies}


def refused(cluster: Cluster, manifests: list[Manifest]) -> str:
    """Return what the API server says against them, and "" where it takes them all."""
    document = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    arguments = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename", "-")
    done = cluster.access.try_kubectl(*arguments, stdin=document)
    return done.stderr if done.returncode else ""
