"""What the planner decided, and what it expects of it."""

from inferplane_runtime.metrics.spec import MetricSpec, Unit, counter, gauge

PLANNED_WORKERS = gauge(
    "planner_planned_workers", "Workers of the last plan, by role.", labels=("namespace", "service", "role")
)
DECISIONS = counter("planner_decisions_total", "Plans by what they do.", labels=("namespace", "service", "move"))
VERDICT = gauge(
    "planner_verdict", "1 for what the last plan means for the objective.", labels=("namespace", "service", "verdict")
)
PLANNED_RATE = gauge(
    "planner_planned_requests_per_second",
    "Requests a second that the last plan was made for.",
    labels=("namespace", "service"),
)
COST = gauge(
    "planner_planned_cost_per_hour",
    "Cost per hour of the last plan, in your price list's currency.",
    labels=("namespace", "service"),
)
PREDICTED_TTFT = gauge(
    "planner_predicted_ttft_seconds",
    "Time to first token, queue included, that is expected at the objective's percentile.",
    labels=("namespace", "service"),
    unit=Unit.SECONDS,
)
PREDICTED_TPOT = gauge(
    "planner_predicted_tpot_seconds",
    "Time per output token that is expected at the objective's percentile.",
    labels=("namespace", "service"),
    unit=Unit.SECONDS,
)
ATTAINMENT = gauge(
    "planner_measured_attainment_ratio",
    "Share of the window's requests within the objective.",
    labels=("namespace", "service"),
    unit=Unit.RATIO,
)

ALL: tuple[MetricSpec, ...] = (
    PLANNED_WORKERS,
    DECISIONS,
    VERDICT,
    PLANNED_RATE,
    COST,
    PREDICTED_TTFT,
    PREDICTED_TPOT,
    ATTAINMENT,
)
