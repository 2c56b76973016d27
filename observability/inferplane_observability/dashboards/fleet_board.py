"""The first board on call: does each service keep its objective, and what does it cost."""

from typing import Final

from inferplane_observability.dashboards.expressions import (
    NAMED,
    OF_SERVICE,
    largest,
    none_is_zero,
    quantile,
    rate,
    total,
)
from inferplane_observability.dashboards.panel_values import Board, Good, Panel, Query, Row, Show
from inferplane_observability.rule_values import SERVICE
from inferplane_runtime.metrics.catalogue import gateway, planner, router

_ATTAINED: Final = "inferplane:slo_attainment:ratio_rate5m"
BOARD: Final = Board(
    uid="inferplane-fleet",
    title="Inferplane / Fleet",
    meaning="Every service at one look: objective, traffic, workers, cost.",
    rows=(
        Row(
            "Objectives",
            (
                Panel(
                    "Within both objectives",
                    "Share of streams within their TTFT and TPOT limits, over five minutes.",
                    "percentunit",
                    (Query(f'{_ATTAINED}{{objective="both",{OF_SERVICE}}}', NAMED),),
                    Show.NUMBER,
                    good=Good.HIGH,
                    bounds=(0.95, 0.99),
                    most=1,
                ),
                Panel(
                    "Goodput",
                    "Streams a second that were within both limits.",
                    "reqps",
                    (Query(f"inferplane:goodput:rate5m{{{OF_SERVICE}}}", NAMED),),
                    Show.NUMBER,
                ),
                Panel(
                    "Answers that failed",
                    "Share of answers with a status of 5xx, over five minutes.",
                    "percentunit",
                    (Query(f"inferplane:requests_failed:ratio_rate5m{{{OF_SERVICE}}}", NAMED),),
                    Show.NUMBER,
                    good=Good.LOW,
                    bounds=(0.05, 0.01),
                    most=1,
                ),
                Panel(
                    "Attainment",
                    "Share of streams within each limit, and the share that was promised.",
                    "percentunit",
                    (
                        Query(f"{_ATTAINED}{{{OF_SERVICE}}}", NAMED + " {{objective}}"),
                        Query(
                            largest(router.OBJECTIVE_RATIO, SERVICE, OF_SERVICE),
                            f"objective {NAMED}",
                            objective=True,
                        ),
                    ),
                    width=12,
                    most=1,
                ),
                Panel(
                    "TTFT, 99th percentile",
                    "From the complete request to the first piece of a stream, queue included.",
                    "s",
                    (
                        Query(quantile(0.99, gateway.TTFT, SERVICE, OF_SERVICE), NAMED),
                        Query(
                            largest(router.OBJECTIVE, SERVICE, 'objective="ttft"', OF_SERVICE),
                            f"objective {NAMED}",
                            objective=True,
                        ),
                    ),
                    width=12,
                ),
            ),
        ),
        Row(
            "Traffic",
            (
                Panel(
                    "Requests",
                    "Requests that ended, by service.",
                    "reqps",
                    (Query(rate(gateway.REQUESTS, SERVICE, OF_SERVICE), NAMED),),
                ),
                Panel(
                    "Output tokens",
                    "Tokens a second that agents sent, over five minutes.",
                    "short",
                    (Query(f"inferplane:output_tokens:rate5m{{{OF_SERVICE}}}", NAMED),),
                ),
                Panel(
                    "Prompt tokens from a cache",
                    "Share of prompt tokens that were not computed.",
                    "percentunit",
                    (Query(f"inferplane:prefix_hit:ratio_rate5m{{{OF_SERVICE}}}", NAMED),),
                    most=1,
                ),
                Panel(
                    "Waiting in routers",
                    "Requests that wait for a worker.",
                    "short",
                    (Query(total(router.QUEUED, SERVICE, OF_SERVICE), NAMED),),
                ),
                Panel(
                    "By tenant and priority",
                    "Streams a second within both limits.",
                    "reqps",
                    (
                        Query(
                            f"inferplane:goodput_by_tenant:rate5m{{{OF_SERVICE}}}",
                            NAMED + " {{tenant}} {{priority}}",
                        ),
                    ),
                    width=16,
                ),
            ),
        ),
        Row(
            "Workers and cost",
            (
                Panel(
                    "Workers",
                    "Workers by pool and health.",
                    "short",
                    (
                        Query(
                            largest(router.WORKERS, f"{SERVICE}, pool, health", OF_SERVICE),
                            "{{namespace}}/{{pool}} {{health}}",
                        ),
                    ),
                    width=6,
                ),
                Panel(
                    "Accelerators",
                    "Devices that workers hold, by class.",
                    "short",
                    (
                        Query(
                            f"sum by ({SERVICE}, accelerator) (inferplane:devices:count{{{OF_SERVICE}}})",
                            NAMED + " {{accelerator}}",
                        ),
                    ),
                    width=6,
                ),
                Panel(
                    "Device hours, last day",
                    "Hours of devices held within the last day.",
                    "short",
                    (Query(f"sum by ({SERVICE}) (inferplane:device_hours:increase1d{{{OF_SERVICE}}})", NAMED),),
                    Show.NUMBER,
                    width=6,
                ),
                Panel(
                    "Cost of a million output tokens",
                    "What the planner's plan costs, over what is sent; in the price list's currency. Needs a planner.",
                    "short",
                    (Query(f"inferplane:cost_per_million_output_tokens:5m{{{OF_SERVICE}}}", NAMED),),
                    Show.NUMBER,
                    width=6,
                ),
                Panel(
                    "Cost an hour",
                    "Cost of the last plan.",
                    "short",
                    (Query(largest(planner.COST, SERVICE, OF_SERVICE), NAMED),),
                    width=12,
                ),
                Panel(
                    "Retries",
                    "Requests sent to another worker before their answer began.",
                    "reqps",
                    (
                        Query(
                            none_is_zero(rate(gateway.RETRIES, f"{SERVICE}, cause", OF_SERVICE)), NAMED + " {{cause}}"
                        ),
                    ),
                    width=12,
                ),
            ),
        ),
    ),
)
