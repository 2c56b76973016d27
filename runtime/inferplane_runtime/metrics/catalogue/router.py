"""What the router core decides and knows, and what agents report back about its decisions."""

from inferplane_runtime.metrics import buckets
from inferplane_runtime.metrics.spec import MetricSpec, Unit, counter, gauge, histogram

PICKS = counter(
    "router_picks_total", "Picks by outcome: routed, queued, or the reason of a refusal.", labels=("outcome",)
)
RETRIED = counter("router_retried_total", "Picks repeated because a worker did not take the request.")
WORKERS = gauge("router_workers", "Workers by pool and health.", labels=("namespace", "service", "pool", "health"))
WORKER_IN_FLIGHT = gauge(
    "router_worker_in_flight_requests", "Requests on a worker, as its agent reports.", labels=("worker",)
)
WORKER_UNCACHED = gauge(
    "router_worker_uncached_tokens",
    "Prompt tokens that a worker still has to compute.",
    labels=("worker",),
    unit=Unit.TOKENS,
)
WORKER_BLOCKS = gauge("router_worker_blocks", "KV blocks of a worker in the index.", labels=("worker",))
WORKER_EXACT = gauge(
    "router_worker_kv_exact",
    "1 when a worker's cache is known from its events, 0 in approximate mode.",
    labels=("worker", "cause"),
)
TRANSPORT_DEGRADED = gauge(
    "router_worker_transport_degraded",
    "1 when KV moves over a worse transport than the one asked for.",
    labels=("worker", "transport"),
)
QUEUED = gauge("router_queued_requests", "Requests that wait for a worker.", labels=("namespace", "service"))
IN_FLIGHT = gauge(
    "router_in_flight_requests", "Requests that were routed and have not ended.", labels=("namespace", "service")
)
OBJECTIVE = gauge(
    "router_objective_seconds",
    "Limit of a service's objective: ttft (queue included) or tpot.",
    labels=("namespace", "service", "objective"),
    unit=Unit.SECONDS,
)
OBJECTIVE_RATIO = gauge(
    "router_objective_ratio",
    "Share of requests that is to be within the objective.",
    labels=("namespace", "service"),
    unit=Unit.RATIO,
)
DEVICES = gauge(
    "router_devices",
    "Accelerators (or, without any, machines' shares) that a pool's workers hold, as the service's spec has it.",
    labels=("namespace", "service", "pool", "role", "accelerator"),
)
INDEX_BLOCKS = gauge("router_index_blocks", "Unique blocks in the index.")
INDEX_BYTES = gauge("router_index_size_bytes", "Memory of the index.", unit=Unit.BYTES)
INDEX_REFUSED = gauge("router_index_refused_blocks", "Blocks for which the present tables had no room.")
PREDICTED_BLOCKS = gauge("router_predicted_blocks", "Blocks of routed requests that their workers have not stored yet.")
MISMATCHES = counter(
    "router_kv_mismatches_total", "Times a worker was put into approximate mode, by cause.", labels=("cause",)
)
RESYNCS = counter("router_resyncs_total", "Fresh snapshots asked for after a gap.")
PREDICTIONS = counter(
    "router_predictions_total",
    "Finished requests whose predicted cached tokens were compared with the engine's number.",
    labels=("namespace", "service", "side", "exact"),
)
PREDICTED_CACHED = counter(
    "router_predicted_cached_tokens_total",
    "Cached tokens that the router predicted, for compared requests.",
    labels=("namespace", "service"),
    unit=Unit.TOKENS,
)
OBSERVED_CACHED = counter(
    "router_observed_cached_tokens_total",
    "Cached tokens that the engines reported, for compared requests.",
    labels=("namespace", "service"),
    unit=Unit.TOKENS,
)
PREDICTED_TTFT = histogram(
    "router_predicted_ttft_seconds",
    "Predicted time to first token, queue included.",
    buckets=buckets.TTFT_S,
    labels=("namespace", "service"),
)
PREDICTED_TPOT = histogram(
    "router_predicted_tpot_seconds",
    "Predicted time per output token.",
    buckets=buckets.TPOT_S,
    labels=("namespace", "service"),
)
STREAMS = gauge("router_worker_streams", "Worker streams by state.", labels=("state",))
STREAM_MESSAGES = counter("router_stream_messages_total", "Messages of worker streams by kind.", labels=("kind",))
STREAM_FAILURES = counter(
    "router_stream_failures_total", "Worker streams that broke off or could not be opened.", labels=("worker",)
)
STREAM_LAG = gauge(
    "router_stream_lag_seconds",
    "Age of the last message of a worker when it arrived, by the agent's clock.",
    labels=("worker",),
    unit=Unit.SECONDS,
)
CATALOGUE_GENERATION = gauge("router_catalogue_generation", "Generation of the catalogue in use.")
CATALOGUE_FAILURES = counter(
    "router_catalogue_failures_total", "Catalogues that could not be read; the last good one stays in use."
)
CATALOGUE_IGNORED = gauge(
    "router_catalogue_ignored",
    "What was found in the cluster and left out of the catalogue, by reason: Pods with our labels that no pool owns, "
    "resources that cannot be carried out, names that somebody else holds.",
    labels=("reason",),
)
LOOP_DELAY = gauge("router_event_loop_delay_seconds", "How late the event loop ran its last timer.", unit=Unit.SECONDS)
PROCESSES = gauge(
    "router_processes", "Processes of a router of several: the index, and gateways that listen.", labels=("part",)
)

ALL: tuple[MetricSpec, ...] = (
    PICKS,
    RETRIED,
    WORKERS,
    WORKER_IN_FLIGHT,
    WORKER_UNCACHED,
    WORKER_BLOCKS,
    WORKER_EXACT,
    TRANSPORT_DEGRADED,
    QUEUED,
    IN_FLIGHT,
    OBJECTIVE,
    OBJECTIVE_RATIO,
    DEVICES,
    INDEX_BLOCKS,
    INDEX_BYTES,
    INDEX_REFUSED,
    PREDICTED_BLOCKS,
    MISMATCHES,
    RESYNCS,
    PREDICTIONS,
    PREDICTED_CACHED,
    OBSERVED_CACHED,
    PREDICTED_TTFT,
    PREDICTED_TPOT,
    STREAMS,
    STREAM_MESSAGES,
    STREAM_FAILURES,
    STREAM_LAG,
    CATALOGUE_GENERATION,
    CATALOGUE_FAILURES,
    CATALOGUE_IGNORED,
    LOOP_DELAY,
    PROCESSES,
)
