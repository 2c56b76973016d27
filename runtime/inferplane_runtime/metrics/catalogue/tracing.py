"""What becomes of spans."""

from inferplane_runtime.metrics.spec import MetricSpec, counter

SPANS = counter(
    "trace_spans_total",
    "Spans of traced requests: exported to the collector, failed (not taken by it), or dropped (too many waited).",
    labels=("outcome",),
)

ALL: tuple[MetricSpec, ...] = (SPANS,)
