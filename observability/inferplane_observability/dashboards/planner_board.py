"""The planner: what it decided and what it expects of it, beside what came."""

from typing import Final

from inferplane_observability.dashboards.expressions import NAMED, OF_SERVICE, largest, quantile, rate
from inferplane_observability.dashboards.panel_values import Board, Good, Panel, Query, Row, Show
from inferplane_observability.rule_values import SERVICE
from inferplane_runtime.metrics.catalogue import gateway, planner, router


def _limit(objective: str) -> Query:
    return Query(
        largest(router.OBJECTIVE, SERVICE, f'objective="{objective}"', OF_SERVICE),
        f"objective {NAMED}",
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
                    (Query(largest(planner.PLANNED_WORKERS, f"{SERVICE}, role", OF_SERVICE), NAMED + " {{role}}"),),
                ),
                Panel(
                    "Verdict",
                    "What the last plan means for the objective: 1 for the verdict that holds.",
                    "short",
                    (
                        Query(
                            largest(planner.VERDICT, f"{SERVICE}, verdict", OF_SERVICE) + " == 1",
                            NAMED + " {{verdict}}",
                        ),
                    ),
                    most=1,
                ),
                Panel(
                    "Decisions",
                    "A second, by what they do; staying is one.",
                    "short",
                    (Query(rate(planner.DECISIONS, f"{SERVICE}, move", OF_SERVICE), NAMED + " {{move}}"),),
                ),
                Panel(
                    "Requests: planned and come",
                    "A second.",
                    "reqps",
                    (
                        Query(largest(planner.PLANNED_RATE, SERVICE, OF_SERVICE), f"{NAMED} planned"),
                        Query(rate(gateway.REQUESTS, SERVICE, OF_SERVICE), f"{NAMED} come"),
                    ),
                    width=12,
                ),
                Panel(
                    "Cost an hour",
                    "Of the last plan, in the price list's currency.",
                    "short",
                    (Query(largest(planner.COST, SERVICE, OF_SERVICE), NAMED),),
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
                    (Query(largest(planner.ATTAINMENT, SERVICE, OF_SERVICE), NAMED),),
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
                        Query(largest(planner.PREDICTED_TTFT, SERVICE, OF_SERVICE), f"{NAMED} expected"),
                        Query(quantile(0.99, gateway.TTFT, SERVICE, OF_SERVICE), f"{NAMED} seen"),
                        _limit("ttft"),
                    ),
                ),
                Panel(
                    "TPOT",
                    "Expected at the objective's percentile, and seen at the 99th.",
                    "s",
                    (
                        Query(largest(planner.PREDICTED_TPOT, SERVICE, OF_SERVICE), f"{NAMED} expected"),
                        Query(quantile(0.99, gateway.TPOT, SERVICE, OF_SERVICE), f"{NAMED} seen"),
                        _limit("tpot"),
                    ),
                ),
            ),
        ),
    ),
)
