import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferplane_api.v1alpha1 import InferenceService
from inferplane_observability import alerts, recording
from inferplane_observability.burn import service_groups
from inferplane_observability.dashboards import BOARDS
from inferplane_observability.rule_values import Alert, Recording
from inferplane_runtime.metrics import catalogue
from inferplane_runtime.metrics.labels import LABELS, Fleet, series
from inferplane_runtime.metrics.spec import Kind

ROOT = Path(__file__).parents[2]
SPECS = {spec.name: spec for spec in catalogue.ALL}
SERVED = {
    name
    for spec in catalogue.ALL
    for name in (
        [f"{spec.name}_{end}" for end in ("bucket", "sum", "count")] if spec.kind is Kind.HISTOGRAM else [spec.name]
    )
}
TARGET_LABELS = {"instance", "service", "pool", "role", "le", "windows"}
_NAME = re.compile(r"\binferplane_[a-z_]+\b")
_RECORDED = re.compile(r"\binferplane:[a-z0-9_:]+\b")
_BY = re.compile(r"\bby \(([a-z_, ]+)\)")
_MATCHED = re.compile(r'\b([a-z_]+)(?:=~|!=|!~|=)"')


def service() -> InferenceService:
    return InferenceService.model_validate(
        {
            "apiVersion": "inferplane.dev/v1alpha1",
            "kind": "InferenceService",
            "metadata": {"name": "chat"},
            "spec": {"model": {"name": "m"}, "engine": {"type": "sim"}, "decode": {"replicas": 1}},
        }
    )


RULES = [rule for group in (recording.GROUP, *alerts.GROUPS, *service_groups(service())) for rule in group.rules]
RECORDED = {rule.record for rule in RULES if isinstance(rule, Recording)}
ALERTS = [rule for rule in RULES if isinstance(rule, Alert)]


def expressions() -> Iterator[str]:
    yield from (rule.expr for rule in RULES)
    for board in BOARDS:
        yield from (query.expr for query in board.queries)


def test_no_query_asks_for_a_metric_that_is_not_in_the_catalogue() -> None:
    asked = {name for expr in expressions() for name in _NAME.findall(expr)}

    assert asked - SERVED == set()


def test_no_query_asks_for_what_no_rule_records() -> None:
    asked = {name for expr in expressions() for name in _RECORDED.findall(expr)}

    assert asked - RECORDED == set()


def test_no_query_uses_a_label_that_nobody_sets() -> None:
    lists = (labels for expr in expressions() for labels in _BY.findall(expr))
    used = {label.strip() for labels in lists for label in labels.split(",")}
    used |= {label for expr in expressions() for label in _MATCHED.findall(expr)}

    assert used - LABELS.keys() - TARGET_LABELS == set()


def test_every_label_of_the_catalogue_is_declared_with_a_bound() -> None:
    assert {label for spec in catalogue.ALL for label in spec.labels} - LABELS.keys() == set()
    assert all(label.bound(Fleet()) > 0 for label in LABELS.values())


def test_a_hundred_workers_and_fifty_tenants_stay_within_what_a_prometheus_takes() -> None:
    most = {spec.name: series(spec, Fleet(services=10, pools=20, workers=100, tenants=50)) for spec in catalogue.ALL}

    assert max(most.values()) <= 20_000
    assert sum(most.values()) <= 60_000


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: f"{alert.name}-{alert.labels.get('pace', '')}")
def test_every_alert_has_a_page_that_says_what_to_do(alert: Alert) -> None:
    page = ROOT / "docs" / "runbooks" / f"{alert.runbook}.md"
    text = page.read_text("utf-8")

    assert alert.name in text
    assert "## What to do" in text
    assert alert.summary.endswith(".")


def test_no_runbook_is_of_an_alert_that_is_gone() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "runbooks").glob("*.md")} - {"index"}

    assert pages == {alert.runbook for alert in ALERTS}
