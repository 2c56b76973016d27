"""What the KV store beside an engine holds and does; agents show it, each the store that its engine uses."""

from inferplane_runtime.metrics.buckets import FETCH_S
from inferplane_runtime.metrics.spec import MetricSpec, Unit, counter, gauge, histogram

_STORE, _TIER = ("store",), ("store", "tier")

UP = gauge("kvstore_tier_up", "1 while a tier answers.", labels=_TIER)
CAPACITY = gauge("kvstore_capacity_bytes", "Size of a tier; Redis has its own.", labels=_TIER, unit=Unit.BYTES)
USED = gauge(
    "kvstore_used_bytes", "Bytes of blocks in a tier; of Redis all that it holds.", labels=_TIER, unit=Unit.BYTES
)
BLOCKS = gauge("kvstore_blocks", "Blocks in a tier of this machine.", labels=_TIER)
LOOKUPS = counter("kvstore_lookups_total", "Blocks that engines asked for.", labels=_STORE)
MISSES = counter("kvstore_misses_total", "Blocks that engines asked for and that were nowhere.", labels=_STORE)
HITS = counter("kvstore_hits_total", "Blocks that engines asked for, by the first tier that had them.", labels=_TIER)
WRITTEN = counter("kvstore_written_blocks_total", "Blocks written to a tier.", labels=_TIER)
EVICTIONS = counter("kvstore_evictions_total", "Blocks that made room for others.", labels=_TIER)
CORRUPT = counter("kvstore_corrupt_blocks_total", "Blocks whose checksum was wrong; they were dropped.", labels=_TIER)
REFUSED = counter(
    "kvstore_quota_refusals_total", "Blocks not taken because their tenant's quota was full.", labels=_TIER
)
FAILURES = counter("kvstore_failures_total", "Reads and writes that a tier failed.", labels=_TIER)
DROPPED = counter(
    "kvstore_dropped_blocks_total", "Blocks that were to go to a tier and found its queue full.", labels=_TIER
)
READ_BYTES = counter(
    "kvstore_read_bytes_total", "Bytes brought from a tier into memory.", labels=_TIER, unit=Unit.BYTES
)
READ_TIME = histogram(
    "kvstore_read_seconds", "Time to bring a batch of blocks from a tier into memory.", buckets=FETCH_S, labels=_TIER
)
FETCHED = counter("kvstore_worth_fetched_blocks_total", "Blocks that engines fetched.", labels=_STORE)
DECLINED = counter(
    "kvstore_worth_declined_blocks_total",
    "Blocks that were there and that engines computed, because that was faster.",
    labels=_STORE,
)
BLOCK_TIME = gauge(
    "kvstore_block_fetch_seconds",
    "Time to fetch one block from a tier, as engines measured it.",
    labels=_TIER,
    unit=Unit.SECONDS,
)
BLOCK_COMPUTE_TIME = gauge(
    "kvstore_block_compute_seconds",
    "Time to compute one block's tokens, as engines measured it.",
    labels=_STORE,
    unit=Unit.SECONDS,
)

ALL: tuple[MetricSpec, ...] = (
    UP,
    CAPACITY,
    USED,
    BLOCKS,
    LOOKUPS,
    MISSES,
    HITS,
    WRITTEN,
    EVICTIONS,
    CORRUPT,
    REFUSED,
    FAILURES,
    DROPPED,
    READ_BYTES,
    READ_TIME,
    FETCHED,
    DECLINED,
    BLOCK_TIME,
    BLOCK_COMPUTE_TIME,
)
