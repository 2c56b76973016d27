"""What the operator measures of its own work."""

from inferplane_runtime.metrics.spec import MetricSpec, Unit, counter, gauge, histogram

_STEP_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

RECONCILES = counter("operator_reconciles_total", "Looks at one object, by how they ended.", labels=("kind", "outcome"))
RECONCILE_DURATION = histogram(
    "operator_reconcile_duration_seconds", "Time of one look, its writes included.", buckets=_STEP_S, labels=("kind",)
)
QUEUE_DEPTH = gauge("operator_queue_depth", "Objects that are due and wait for a worker.")
WRITES = counter(
    "operator_writes_total",
    "Writes wanted by reconciling; needless ones were left out because what is there is what is wanted.",
    labels=("verb", "kind", "outcome"),
)
LEADING = gauge("operator_leading", "1 while this process holds the Lease.")
WATCHED_OBJECTS = gauge("operator_watched_objects", "Objects in the store.")
WATCH_AGE = gauge(
    "operator_watch_age_seconds", "Time since the last event of a kind.", labels=("kind",), unit=Unit.SECONDS
)
SERVICE_CONDITION = gauge(
    "operator_service_condition",
    "1 for what each condition of each InferenceService is: True, False or Unknown.",
    labels=("namespace", "service", "condition", "status"),
)
WATCH_RESTARTS = counter("operator_watch_restarts_total", "Times that all watches were started anew.")
AUDIT_DIFFERENCES = counter(
    "operator_audit_differences_total",
    "Objects that watches had missed, and objects that were gone without a word.",
    labels=("kind", "difference"),
)

ALL: tuple[MetricSpec, ...] = (
    RECONCILES,
    RECONCILE_DURATION,
    QUEUE_DEPTH,
    WRITES,
    LEADING,
    WATCHED_OBJECTS,
    WATCH_AGE,
    SERVICE_CONDITION,
    WATCH_RESTARTS,
    AUDIT_DIFFERENCES,
)
