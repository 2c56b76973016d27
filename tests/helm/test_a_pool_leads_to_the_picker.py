"""An InferencePool, its picker's Service, the port behind that and the route to the pool belong together."""

from typing import Any

from helm_chart import Helm, Manifest

POOL: dict[str, Any] = {"gateway": {"inferencePool": {"enabled": True, "selector": {"inferplane.dev/service": "chat"}}}}
ROUTE: dict[str, Any] = {"gateway": {"httpRoute": {"enabled": True, "parentRefs": [{"name": "edge"}]}}}


def found(helm: Helm, values: dict[str, Any], kind: str, name: str) -> Manifest:
    return next(each for each in helm.render(values) if (each["kind"], each["metadata"]["name"]) == (kind, name))


def test_the_pools_picker_is_a_port_of_the_gateways_pods(helm: Helm) -> None:
    spec = found(helm, POOL, "InferencePool", "inferplane-workers")["spec"]
    service = found(helm, POOL, "Service", spec["endpointPickerRef"]["name"])["spec"]
    pod = found(helm, POOL, "Deployment", "inferplane-gateway")["spec"]["template"]
    ports = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
    config = found(helm, POOL, "ConfigMap", "inferplane-gateway")["data"]["router.yaml"]

    assert spec["endpointPickerRef"]["port"]["number"] == service["ports"][0]["port"] == ports["ext-proc"] == 9002
    assert spec["endpointPickerRef"]["failureMode"] == "FailClose"
    assert service["selector"].items() <= pod["metadata"]["labels"].items()
    assert 'extProc: "0.0.0.0:9002"' in config


def test_the_pool_holds_workers_that_answer(helm: Helm) -> None:
    spec = found(helm, POOL, "InferencePool", "inferplane-workers")["spec"]

    assert spec["selector"]["matchLabels"] == {
        "inferplane.dev/component": "worker",
        "inferplane.dev/role": "decode",
        "inferplane.dev/service": "chat",
    }
    assert spec["targetPorts"] == [{"number": 8100}]


def test_a_route_leads_to_the_pool_where_there_is_one(helm: Helm) -> None:
    both = {"gateway": POOL["gateway"] | ROUTE["gateway"]}
    refs = [
        found(helm, values, "HTTPRoute", "inferplane-gateway")["spec"]["rules"][0]["backendRefs"][0]
        for values in (both, ROUTE)
    ]

    assert (refs[0]["kind"], refs[0]["name"]) == ("InferencePool", "inferplane-workers")
    assert (refs[1]["name"], refs[1]["port"]) == ("inferplane-gateway", 80)


def test_without_a_pool_nobody_listens(helm: Helm) -> None:
    assert "extProc" not in found(helm, {}, "ConfigMap", "inferplane-gateway")["data"]["router.yaml"]
