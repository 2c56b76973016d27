"""The reference page of all metrics, from the catalogue: what is not in it is served by nobody."""

from collections.abc import Iterator
from typing import Final

from inferplane_observability.alerts import ALL
from inferplane_observability.burn import BUDGET_LEFT, BUDGET_WINDOWS, MISSED
from inferplane_observability.recording import RULES
from inferplane_runtime.metrics import catalogue
from inferplane_runtime.metrics.labels import LABELS, Fleet, series
from inferplane_runtime.metrics.spec import MetricSpec

PAGE: Final = "docs/reference/metrics.md"
_OWNERS: Final = (
    ("Gateway", "each router process, from the client's side", catalogue.gateway.ALL),
    ("Router", "each router process: what it decides and knows", catalogue.router.ALL),
    (
        "Agent",
        "the agent beside each engine; what begins with `agent_engine` is the engine's own number",
        catalogue.agent.ALL,
    ),
    ("KV store", "the agent beside each engine that uses a store, as the store counts", catalogue.kv_store.ALL),
    ("Traces", "each router process and each agent", catalogue.tracing.ALL),
    ("Planner", "the planner", catalogue.planner.ALL),
    ("Operator", "the operator", catalogue.kube_operator.ALL),
)
_HEAD: Final = """# Metrics

Made by `make generate` from the catalogue in `inferplane_runtime.metrics`; do not edit.
Each process serves its own at `/metrics`, port 9090 in a Pod.
[Dashboards and alerts](../how-to/dashboards.md) are made from them.

`most` is how many series one process can show.
It is counted for {services} services, {pools} pools, {workers} workers and {tenants} tenants.
A histogram counts as its buckets and three more.
Histograms of one quantity have equal buckets in every process.
"""


def page() -> str:
    """Return the page."""
    return "\n".join([*_metrics(), *_labels(), *_recorded(), *_alerts()])


def _metrics() -> Iterator[str]:
    fleet = Fleet()
    yield _HEAD.format(services=fleet.services, pools=fleet.pools, workers=fleet.workers, tenants=fleet.tenants)
    for owner, where, specs in _OWNERS:
        total = sum(series(spec) for spec in specs)
        yield f"## {owner}\n\nServed by {where}; {total:,} series at most.\n"
        yield "| metric | type | unit | labels | most | meaning |\n|---|---|---|---|---|---|"
        yield from (_row(spec) for spec in specs)
        yield ""


def _row(spec: MetricSpec) -> str:
    labels = ", ".join(f"`{label}`" for label in spec.labels)
    return f"| `{spec.name}` | {spec.kind} | {spec.unit} | {labels} | {series(spec):,} | {spec.help} |"


def _labels() -> Iterator[str]:
    fleet = Fleet()
    yield "## Labels\n\n| label | values at most | meaning |\n|---|---|---|"
    for label in LABELS.values():
        counted = f" ({label.counted} of the fleet)" if label.counted else ""
        yield f"| `{label.name}` | {label.bound(fleet)}{counted} | {label.meaning} |"
    yield ""


def _recorded() -> Iterator[str]:
    yield "## Recording rules\n"
    yield "`namespace`, `service`, `pool` and `role` of agents' series come from the scrape configuration.\n"
    yield "| name | expression |\n|---|---|"
    for rule in RULES:
        yield f"| `{rule.record}` | `{rule.expr.replace('|', chr(92) + '|')}` |"
    yield ""
    yield "Each service's own rules add two:\n"
    yield "| name | what |\n|---|---|"
    yield f"| `{MISSED}` | share of streams that missed, over `windows` times the objective's window |"
    yield f"| `{BUDGET_LEFT}` | what is left of the budget of {BUDGET_WINDOWS:g} windows |"
    yield ""


def _alerts() -> Iterator[str]:
    yield "## Alerts\n\n| alert | severity | waits | runbook |\n|---|---|---|---|"
    burns = [
        ("InferplaneTTFTBudgetBurns", "page, ticket", 0.0, "budget-burns"),
        ("InferplaneTPOTBudgetBurns", "page, ticket", 0.0, "budget-burns"),
    ]
    listed = [(alert.name, alert.severity.value, alert.wait_s, alert.runbook) for alert in ALL]
    for name, severity, wait_s, runbook in burns + listed:
        yield f"| `{name}` | {severity} | {wait_s / 60:g} min | [{runbook}](../runbooks/{runbook}.md) |"
    yield ""
