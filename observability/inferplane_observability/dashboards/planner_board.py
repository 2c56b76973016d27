"""The planner: what it decided and what it expects of it, beside what came."""

from typing import Final

from inferplane_observability.dashboards.expressions import OF_SERVICE, largest, quantile, rate
from inferplane_observability.dashboards.panel_values import Board, Good, Panel, Query, Row, Show
from inferplane_runtime.metrics.catalogue import gateway, planner, router


def _limit(objective: str) -> Query:
    return Query(
        largest(router.OBJECTIVE, "service", f'objective="{objective}"', OF_SERVICE),
        "objective {{service}}",
        objective=True,
    )


BOARD: Final = Board(
    uid="inferplane-planner",
    title="Inferplane / Planner",
    meaning="Plans, what was expected of them, and what came.",
    rows=(
        Row(
            "Plans",
            (
                Panel(
                    "Planned workers",
                    "Of the last plan, by role: the ratio of prefill to decode.",
                    "short",
                    (Query(largest(planner.PLANNED_WORKERS, "service, role", OF_SERVICE), "{{service}} {{role}}"),),
                ),
                Panel(
                    "Verdict",
                    "What the last plan means for the objective: 1 for the verdict that holds.",
                    "short",
                    (
                        Query(
                            largest(planner.VERDICT, "service, verdict", OF_SERVICE) + " == 1",
                            "{{service}} {{verdict}}",
                        ),
                    ),
                    most=1,
                ),
                Panel(
                    "Decisions",
                    "A second, by what they do; staying is one.",
                    "short",
                    (Query(rate(planner.DECISIONS, "service, move", OF_SERVICE), "{{service}} {{move}}"),),
                ),
                Panel(
                    "Requests: planned and come",
                    "A second.",
                    "reqps",
                    (
                        Query(largest(planner.PLANNED_RATE, "service", OF_SERVICE), "{{service}} planned"),
                        Query(rate(gateway.REQUESTS, "service", OF_SERVICE), "{{service}} come"),
                    ),
                    width=12,
                ),
                Panel(
                    "Cost an hour",
                    "Of the last plan, in the price list's currency.",
                    "short",
                    (Query(largest(planner.COST, "service", OF_SERVICE), "{{service}}"),),
                    width=12,
                ),
            ),
        ),
        Row(
            "Expected and come",
            (
                Panel(
                    "Measured attainment",
                    "Share of the window's requests within the objective, as the planner sees it.",
                    "percentunit",
                    (Query(largest(planner.ATTAINMENT, "service", OF_SERVICE), "{{service}}"),),
                    Show.NUMBER,
                    good=Good.HIGH,
                    bounds=(0.95, 0.99),
                    most=1,
                ),
                Panel(
                    "TTFT",
                    "Expected at the objective's percentile, and seen at the 99th; queue included.",
                    "s",
                    (
                        Query(largest(planner.PREDICTED_TTFT, "service", OF_SERVICE), "{{service}} expected"),
                        Query(quantile(0.99, gateway.TTFT, "service", OF_SERVICE), "{{service}} seen"),
                        _limit("ttft"),
                    ),
                ),
                Panel(
                    "TPOT",
                    "Expected at the objective's percentile, and seen at the 99th.",
                    "s",
                    (
                        Query(largest(planner.PREDICTED_TPOT, "service", OF_SERVICE), "{{service}} expected"),
                        Query(quantile(0.99, gateway.TPOT, "service", OF_SERVICE), "{{service}} seen"),
                        _limit("tpot"),
                    ),
                ),
            ),
        ),
    ),
)
