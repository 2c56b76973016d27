"""What a worker agent measures beside its engine."""

from inferplane_runtime.metrics import buckets
from inferplane_runtime.metrics.spec import MetricSpec, Unit, counter, gauge, histogram

REQUESTS = counter(
    "agent_requests_total", "Requests that ended, by role in a hand-off and outcome.", labels=("side", "outcome")
)
RUNNING = gauge("agent_running_requests", "Requests in force.", labels=("side",))
REQUEST_DURATION = histogram(
    "agent_request_duration_seconds",
    "From acceptance to the end of the answer.",
    buckets=buckets.DURATION_S,
    labels=("side",),
)
TTFT = histogram(
    "agent_ttft_seconds",
    "From acceptance by the agent to the first token; the engine's queue is included, the router's is not.",
    buckets=buckets.TTFT_S,
    labels=("side",),
)
TPOT = histogram(
    "agent_tpot_seconds", "Mean time per output token after the first, per request.", buckets=buckets.TPOT_S
)
PREFILL_TIME = histogram(
    "agent_prefill_seconds", "From sending a prompt to its prefill, or its first token.", buckets=buckets.TTFT_S
)
TRANSFER_TIME = histogram(
    "agent_kv_transfer_seconds",
    "From the prefill's answer to the first token of the decode side.",
    buckets=buckets.TTFT_S,
)
PROMPT_TOKENS = counter("agent_prompt_tokens_total", "Prompt tokens of finished requests.", unit=Unit.TOKENS)
CACHED_TOKENS = counter(
    "agent_cached_tokens_total", "Prompt tokens that the computing side took from its cache.", unit=Unit.TOKENS
)
TRANSFERRED_TOKENS = counter(
    "agent_transferred_tokens_total", "Prompt tokens whose KV came from a prefill worker.", unit=Unit.TOKENS
)
OUTPUT_TOKENS = counter("agent_output_tokens_total", "Output tokens sent.", unit=Unit.TOKENS)
HANDOFF_FAILURES = counter(
    "agent_handoff_failures_total", "Prefill workers that failed a hand-off, by cause.", labels=("cause",)
)
LOCAL_PREFILLS = counter("agent_local_prefills_total", "Requests prefilled here because no prefill worker could.")
STRIPPED = counter(
    "agent_stripped_fields_total",
    "Fields and headers removed from requests because clients may not send them.",
    labels=("field",),
)
KV_EVENTS = counter("agent_kv_events_total", "Events of the engine's cache by kind.", labels=("kind",))
KV_EVENT_GAPS = counter(
    "agent_kv_event_gaps_total", "Gaps in the engine's events, by whether replay closed them.", labels=("closed",)
)
KV_BLOCKS = gauge("agent_kv_blocks", "Blocks known to be cached, by plane.", labels=("plane",))
SUBSCRIBERS = gauge("agent_stream_subscribers", "Streams to routers and planners.")
STREAM_OVERFLOWS = counter(
    "agent_stream_overflows_total", "Queues to slow subscribers dropped in favour of a snapshot."
)
ENGINE_UP = gauge("agent_engine_ready", "1 when the engine answers and its canary passed.")
ENGINE_STARTS = counter("agent_engine_starts_total", "Starts of the engine seen.")
ENGINE_RUNNING = gauge("agent_engine_running_requests", "Running requests as the engine says.", labels=("rank",))
ENGINE_WAITING = gauge("agent_engine_waiting_requests", "Waiting requests as the engine says.", labels=("rank",))
ENGINE_KV_USAGE = gauge(
    "agent_engine_kv_usage_ratio", "Share of KV blocks in use as the engine says.", labels=("rank",), unit=Unit.RATIO
)
ENGINE_PROMPT_TOKENS = counter(
    "agent_engine_prompt_tokens_total", "Prompt tokens that the engine says it has taken.", unit=Unit.TOKENS
)
ENGINE_OUTPUT_TOKENS = counter(
    "agent_engine_output_tokens_total", "Tokens that the engine says it has generated.", unit=Unit.TOKENS
)
ENGINE_CACHED_TOKENS = counter(
    "agent_engine_cached_tokens_total",
    "Prompt tokens that the engine says it found in its cache or got from another engine.",
    unit=Unit.TOKENS,
)
ENGINE_PREEMPTIONS = counter(
    "agent_engine_preemptions_total", "Requests that the engine set back because it ran out of KV blocks."
)
ENGINE_FAILED_TRANSFERS = counter(
    "agent_engine_failed_transfers_total", "KV transfers that failed, as the engine says."
)
CANARY_FAILURES = counter("agent_canary_failures_total", "Canary prompts that got a wrong answer.")
DISTRUSTED_PEERS = gauge(
    "agent_distrusted_prefill_workers", "Prefill workers that are not used because their blocks arrived damaged."
)
TRANSPORT_DEGRADED = gauge(
    "agent_transport_degraded", "1 when KV moves over a worse transport than the one asked for.", labels=("transport",)
)
DRAINING = gauge("agent_draining", "1 while the agent finishes what runs and takes nothing new.")

ALL: tuple[MetricSpec, ...] = (
    REQUESTS,
    RUNNING,
    REQUEST_DURATION,
    TTFT,
    TPOT,
    PREFILL_TIME,
    TRANSFER_TIME,
    PROMPT_TOKENS,
    CACHED_TOKENS,
    TRANSFERRED_TOKENS,
    OUTPUT_TOKENS,
    HANDOFF_FAILURES,
    LOCAL_PREFILLS,
    STRIPPED,
    KV_EVENTS,
    KV_EVENT_GAPS,
    KV_BLOCKS,
    SUBSCRIBERS,
    STREAM_OVERFLOWS,
    ENGINE_UP,
    ENGINE_STARTS,
    ENGINE_RUNNING,
    ENGINE_WAITING,
    ENGINE_KV_USAGE,
    ENGINE_PROMPT_TOKENS,
    ENGINE_OUTPUT_TOKENS,
    ENGINE_CACHED_TOKENS,
    ENGINE_PREEMPTIONS,
    ENGINE_FAILED_TRANSFERS,
    CANARY_FAILURES,
    DISTRUSTED_PEERS,
    TRANSPORT_DEGRADED,
    DRAINING,
)
