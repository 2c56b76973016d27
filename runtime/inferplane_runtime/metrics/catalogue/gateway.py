"""What the HTTP gateway measures, from the client's side of things."""

from inferplane_runtime.metrics import buckets
from inferplane_runtime.metrics.spec import MetricSpec, Unit, counter, gauge, histogram

REQUESTS = counter(
    "gateway_requests_total",
    "Requests answered, by service (empty when none could be told), route and outcome.",
    labels=("namespace", "service", "route", "outcome"),
)
RESPONSES = counter("gateway_responses_total", "Answers by HTTP status.", labels=("namespace", "service", "status"))
REQUEST_DURATION = histogram(
    "gateway_request_duration_seconds",
    "From the complete request to the end of its answer, queue included.",
    buckets=buckets.DURATION_S,
    labels=("namespace", "service"),
)
TTFT = histogram(
    "gateway_ttft_seconds",
    "From the complete request to the first byte of a streamed answer's body; the router's queue is included.",
    buckets=buckets.TTFT_S,
    labels=("namespace", "service"),
)
TPOT = histogram(
    "gateway_tpot_seconds",
    "Mean time between the pieces of a streamed answer after the first, per request.",
    buckets=buckets.TPOT_S,
    labels=("namespace", "service"),
)
ITL = histogram(
    "gateway_itl_seconds",
    "Time between two pieces of a streamed answer as they are passed on, each gap for itself.",
    buckets=buckets.TPOT_S,
    labels=("namespace", "service"),
)
SLO_REQUESTS = counter(
    "gateway_slo_requests_total",
    "Streams held against an objective (ttft, queue included; tpot; both) and whether they met it. A refusal and a "
    "stream that broke off have missed; a client's error and what is not streamed are not counted.",
    labels=("namespace", "service", "objective", "priority", "tenant", "met"),
)
QUEUE_TIME = histogram(
    "gateway_queue_seconds",
    "Time that a request waited in the router's queue for a worker, zero excluded.",
    buckets=buckets.TTFT_S,
    labels=("namespace", "service"),
)
TOKENISE_TIME = histogram(
    "gateway_tokenize_seconds",
    "Time to turn a request into tokens.",
    buckets=buckets.STAGE_S,
    labels=("namespace", "service"),
)
PICK_TIME = histogram(
    "gateway_pick_seconds",
    "Time to hash a prompt and choose its workers.",
    buckets=buckets.STAGE_S,
    labels=("namespace", "service"),
)
PROMPT_TOKENS = histogram(
    "gateway_prompt_tokens",
    "Tokens of a prompt, as the router counts them.",
    buckets=buckets.TOKENS,
    labels=("namespace", "service"),
    unit=Unit.TOKENS,
)
RUNNING = gauge("gateway_running_requests", "Requests that are being answered.", labels=("namespace", "service"))
RETRIES = counter(
    "gateway_retries_total",
    "Requests sent to another worker before their answer began, by cause.",
    labels=("namespace", "service", "cause"),
)
DISCONNECTS = counter(
    "gateway_disconnects_total", "Clients that left before their answer was complete.", labels=("namespace", "service")
)
UPSTREAM_FAILURES = counter(
    "gateway_upstream_failures_total",
    "Answers that no worker gave completely, by cause.",
    labels=("namespace", "service", "cause"),
)
REJECTED = counter(
    "gateway_rejected_total", "Messages refused before they were requests, by status.", labels=("status",)
)
CONNECTIONS = gauge("gateway_connections", "Open client connections.")
DRAINING = gauge("gateway_draining", "1 while the process finishes what runs and takes nothing new.")

ALL: tuple[MetricSpec, ...] = (
    REQUESTS,
    RESPONSES,
    REQUEST_DURATION,
    TTFT,
    TPOT,
    ITL,
    SLO_REQUESTS,
    QUEUE_TIME,
    TOKENISE_TIME,
    PICK_TIME,
    PROMPT_TOKENS,
    RUNNING,
    RETRIES,
    DISCONNECTS,
    UPSTREAM_FAILURES,
    REJECTED,
    CONNECTIONS,
    DRAINING,
)
