"""A service's alerts follow its objective and go with it, where the cluster takes them and the release asks."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from inferplane_operator.reconcile.alerting import RuleSettings
from inferplane_operator.reconcile.core import PureCore
from inferplane_operator.reconcile.scene import Settings
from inferplane_operator.reconcile.testing import FakeCluster
from inferplane_operator.reconcile.values import Apply, Outcome, Write

Build = Callable[..., FakeCluster]
CORE = PureCore(Settings(rules=RuleSettings({"release": "monitoring"}, 30.0, "https://wiki.example/runbooks")))


def reconciled(cluster: FakeCluster, *, takes_rules: bool) -> Outcome:
    return CORE.service(replace(cluster.observed(), takes_rules=takes_rules))


def rules(outcome: Outcome) -> list[Apply]:
    def is_rule(write: Write) -> bool:
        return isinstance(write, Apply) and write.manifest["kind"] == "PrometheusRule"

    return [write for write in outcome.writes if isinstance(write, Apply) and is_rule(write)]


def alerts(rule: Apply) -> list[dict[str, Any]]:
    return [each for group in rule.manifest["spec"]["groups"] for each in group["rules"] if "alert" in each]


def test_nothing_is_made_where_the_cluster_does_not_take_rules(running: Build) -> None:
    assert rules(reconciled(running(), takes_rules=False)) == []


def test_the_rule_belongs_to_the_service_and_is_found_by_its_label(running: Build) -> None:
    cluster = running(slo={"ttft": "1s", "tpot": "50ms", "window": "5m"})

    (rule,) = rules(reconciled(cluster, takes_rules=True))
    metadata = rule.manifest["metadata"]

    assert rule.bookkeeping
    assert metadata["labels"]["release"] == "monitoring"
    assert metadata["labels"]["inferplane.dev/service"] == "demo"
    assert [(each["kind"], each["name"]) for each in metadata["ownerReferences"]] == [("InferenceService", "demo")]
    assert all(each["annotations"]["runbook_url"].startswith("https://wiki.example/") for each in alerts(rule))


def test_another_objective_makes_another_rule(running: Build) -> None:
    found = [
        rules(reconciled(running(slo={"ttft": "1s", "tpot": "50ms", "window": window}), takes_rules=True))
        for window in ("5m", "1h")
    ]
    (one,), (other,) = found

    assert alerts(one)
    assert [each["expr"] for each in alerts(one)] != [each["expr"] for each in alerts(other)]
