"""NetworkPolicies: who may connect to the gateway, to agents, and to the ports between engines."""

from typing import Any

from helm_chart import Helm, Manifest
from inferplane_operator.render import names

RELEASE_POD = {"app.kubernetes.io/instance": "inferplane"}


def policies(helm: Helm, values: dict[str, Any] | None = None) -> dict[tuple[str, str], Manifest]:
    return {
        (each["metadata"]["namespace"], each["metadata"]["name"]): each["spec"]
        for each in helm.render(values)
        if each["kind"] == "NetworkPolicy"
    }


def admits(policy: Manifest, port: int | str) -> list[Manifest]:
    """Return the peers that may connect to a TCP port; an empty one stands for everybody."""
    rules = [rule for rule in policy["ingress"] if any(covers(each, port) for each in rule["ports"])]
    return [peer for rule in rules for peer in rule.get("from", [{}])]


def covers(allowed: Manifest, port: int | str) -> bool:
    if allowed["protocol"] != "TCP":
        return False
    if isinstance(port, str) or isinstance(allowed["port"], str):
        return bool(allowed["port"] == port)
    last = int(allowed.get("endPort") or allowed["port"])
    return bool(allowed["port"] <= port <= last)


def test_ports_between_engines_are_open_to_workers_alone(helm: Helm) -> None:
    workers = policies(helm)["inferplane-system", "inferplane-workers"]
    ports = (names.DEFAULT_SIDE_CHANNEL_PORT, names.DEFAULT_BOOTSTRAP_PORT, 40_000)

    assert workers["podSelector"] == {"matchLabels": {names.LABEL_COMPONENT: "worker"}}
    assert [admits(workers, port) for port in ports] == [
        [{"podSelector": {"matchLabels": {names.LABEL_COMPONENT: "worker"}}}]
    ] * 3


def test_agents_are_open_to_workers_and_to_this_release(helm: Helm) -> None:
    workers = policies(helm)["inferplane-system", "inferplane-workers"]
    for port in (names.DEFAULT_HTTP_PORT, names.DEFAULT_STREAM_PORT):
        among, release = admits(workers, port)

        assert among == {"podSelector": {"matchLabels": {names.LABEL_COMPONENT: "worker"}}}
        assert release["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "inferplane-system"}
        assert release["podSelector"]["matchLabels"] == RELEASE_POD
        assert release["podSelector"]["matchExpressions"][0]["values"] == ["gateway", "planner", "operator"]


def test_agents_take_orders_from_the_operator_alone(helm: Helm) -> None:
    (peer,) = admits(policies(helm)["inferplane-system", "inferplane-workers"], 8102)

    assert peer["podSelector"]["matchLabels"] == {**RELEASE_POD, names.LABEL_COMPONENT: "operator"}
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "inferplane-system"}


def test_everybody_may_use_the_gateway_unless_peers_are_named(helm: Helm) -> None:
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "apps"}}}
    key = ("inferplane-system", "inferplane-gateway")

    assert admits(policies(helm)[key], "http") == [{}]
    assert admits(policies(helm, {"networkPolicies": {"gatewayFrom": [peer]}})[key], "http") == [peer]
    assert admits(policies(helm)[key], "grpc")[0]["podSelector"]["matchLabels"] == RELEASE_POD


def test_each_namespace_of_workers_has_a_policy(helm: Helm) -> None:
    values = {"networkPolicies": {"workerNamespaces": ["a", "b"]}}

    assert [key[0] for key in policies(helm, values) if key[1] == "inferplane-workers"] == ["a", "b"]
    assert [key[0] for key in policies(helm, {"watchNamespace": "w"}) if key[1] == "inferplane-workers"] == ["w"]


def test_they_can_be_left_out(helm: Helm) -> None:
    assert policies(helm, {"networkPolicies": {"enabled": False}}) == {}


def test_a_gateways_pods_reach_picker_and_agents_where_they_are_named(helm: Helm) -> None:
    proxies = {"namespaceSelector": {"matchLabels": {"team": "edge"}}}
    pool = {"enabled": True, "from": [proxies]}
    named = policies(helm, {"gateway": {"inferencePool": pool}})
    unnamed = policies(helm, {"gateway": {"inferencePool": {"enabled": True}}})
    gateway, workers = ("inferplane-system", "inferplane-gateway"), ("inferplane-system", "inferplane-workers")

    assert admits(named[gateway], "ext-proc") == [proxies]
    assert proxies in admits(named[workers], 8100)
    assert proxies not in admits(named[workers], 8101)
    assert admits(unnamed[gateway], "ext-proc") == []
    assert unnamed[workers] == policies(helm)[workers]


def test_a_planner_is_open_to_readers_of_metrics_alone(helm: Helm) -> None:
    readers = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    found = policies(helm, {"planner": {"enabled": True}, "networkPolicies": {"metricsFrom": [readers]}})
    planner = found["inferplane-system", "inferplane-planner"]

    assert planner["podSelector"]["matchLabels"]["inferplane.dev/component"] == "planner"
    assert admits(planner, "metrics") == [readers]
    assert admits(planner, "health") == []
    assert ("inferplane-system", "inferplane-planner") not in policies(helm)
