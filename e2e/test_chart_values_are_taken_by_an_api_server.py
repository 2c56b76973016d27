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
from e2e.cluster.definitions import gateway_definitions
from e2e.support.cluster import Cluster
from helm_chart import Helm, Manifest

NAMESPACE = "chart-values"


@pytest.fixture(scope="module")
def gateways(cluster: Cluster) -> None:
    """Let the cluster know what a Gateway is told with: routes, and pools of workers; nothing carries them out."""
    with cluster.outside():
        files = [f"--filename={file}" for file in gateway_definitions()]
    if cluster.own is not None:
        cluster.kubectl("apply", "--server-side", *files)
        cluster.kubectl("wait", "--for=condition=Established", *files, "--timeout=30s")
    elif cluster.access.try_kubectl("get", *files).returncode:
        pytest.skip("this cluster does not know what a Gateway is told with, and is not ours to teach")


@pytest.fixture(scope="module")
def room(cluster: Cluster, gateways: None) -> Iterator[Cluster]:
    """Give a cluster with a namespace for dry runs."""
    assert gateways is None
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

    assert refused(room, manifests) == ""


@pytest.mark.parametrize("pool", [False, True], ids=["to the gateway", "to the workers"])
def test_a_gateway_s_api_takes_route_and_pool(room: Cluster, *, pool: bool) -> None:
    route = {"enabled": True, "parentRefs": [{"name": "front"}], "hostnames": ["llm.example.com"]}
    chosen = {"gateway": {"httpRoute": route, "inferencePool": {"enabled": pool}}}
    manifests = Helm(path_of("helm")).render(in_one_namespace(chosen), release="routed", namespace=NAMESPACE)
    kinds = {manifest["kind"] for manifest in manifests}

    assert "HTTPRoute" in kinds
    assert ("InferencePool" in kinds) == pool
    assert refused(room, manifests) == ""


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
