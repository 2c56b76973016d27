"""Dashboards, rules and monitors: off unless asked for, and made so that Grafana and Prometheus find them."""

import json
from typing import Any

import pytest

from helm_chart import Helm, Manifest

ON: dict[str, Any] = {
    "dashboards": {"enabled": True, "annotations": {"k8s-sidecar-target-directory": "LLM"}},
    "rules": {"enabled": True, "labels": {"release": "monitoring"}, "runbooks": "https://wiki.example.com/runbooks/"},
    "podMonitors": {"enabled": True, "interval": "30s"},
}
KINDS = {"PrometheusRule", "PodMonitor"}


def rendered(helm: Helm, **values: Any) -> list[Manifest]:
    return helm.render({"monitoring": ON, **values})


def of_kind(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
    return {each["metadata"]["name"]: each for each in manifests if each["kind"] == kind}


def test_nothing_is_made_unless_asked_for(helm: Helm) -> None:
    manifests = helm.render({})

    assert KINDS & {each["kind"] for each in manifests} == set()
    assert [name for name in of_kind(manifests, "ConfigMap") if "board" in name] == []


def test_each_dashboard_is_a_config_map_that_the_sidecar_looks_for(helm: Helm) -> None:
    boards = {name: each for name, each in of_kind(rendered(helm), "ConfigMap").items() if "-board-" in name}

    assert sorted(boards) == [
        f"inferplane-board-{each}" for each in ("fleet", "kv-store", "operator", "planner", "router", "service")
    ]
    for board in boards.values():
        (text,) = board["data"].values()
        assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert board["metadata"]["annotations"] == {"k8s-sidecar-target-directory": "LLM"}
        assert json.loads(text)["uid"].startswith("inferplane-")


def test_rules_carry_the_label_and_the_runbooks_that_are_wanted(helm: Helm) -> None:
    (rule,) = of_kind(rendered(helm), "PrometheusRule").values()
    alerts = [each for group in rule["spec"]["groups"] for each in group["rules"] if "alert" in each]

    assert rule["metadata"]["labels"]["release"] == "monitoring"
    assert alerts
    assert all(alert["annotations"]["runbook_url"].startswith("https://wiki.example.com/runbooks/") for alert in alerts)
    assert not any("//" in alert["annotations"]["runbook_url"].partition("://")[2] for alert in alerts)


@pytest.mark.parametrize("watched", ["", "team-a"])
def test_every_page_is_scraped_and_an_agent_is_told_apart_by_its_pod(helm: Helm, watched: str) -> None:
    monitors = of_kind(rendered(helm, watchNamespace=watched, planner={"enabled": True}), "PodMonitor")
    workers = monitors["inferplane-workers"]["spec"]
    (endpoint,) = workers["podMetricsEndpoints"]

    assert sorted(monitors) == [f"inferplane-{each}" for each in ("gateway", "operator", "planner", "workers")]
    assert [each["targetLabel"] for each in endpoint["relabelings"]] == ["service", "pool", "role"]
    assert (endpoint["honorLabels"], endpoint["interval"]) == (True, "30s")
    assert workers["namespaceSelector"] == ({"matchNames": ["team-a"]} if watched else {"any": True})


def test_the_operator_is_told_to_make_the_rules_of_services_and_may(helm: Helm) -> None:
    asked, unasked = rendered(helm), helm.render({})
    operator = of_kind(asked, "Deployment")["inferplane-operator"]
    args = operator["spec"]["template"]["spec"]["containers"][0]["args"]

    assert [each for each in args if "rule" in each] == [
        "--service-rules=true",
        "--rule-scrape=30s",
        "--rule-runbooks=https://wiki.example.com/runbooks/",
        "--rule-label=release=monitoring",
    ]
    assert allowed(asked) == ["list", "watch", "create", "patch"]
    assert allowed(unasked) == []


def allowed(manifests: list[Manifest]) -> list[str]:
    """Return what the operator may do with PrometheusRules."""
    role = next(each for each in manifests if each["kind"] == "ClusterRole" and "operator" in each["metadata"]["name"])
    return [verb for rule in role["rules"] if "prometheusrules" in rule["resources"] for verb in rule["verbs"]]
