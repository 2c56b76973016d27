"""The few numbers of an engine's metrics page that the agent needs.

An engine's page is long and asking for it costs the engine time, so it is read at most once a second and only the lines
that matter are looked at.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from inferplane_workers.agent.wire import Gauges

_RUNNING = ("vllm:num_requests_running", "sglang:num_running_reqs")
# In a pair of SGLang's engines requests wait in more than one place: for their other half, for room, for blocks.
_WAITING = (
    "vllm:num_requests_waiting",
    "sglang:num_queue_reqs",
    "sglang:num_prefill_bootstrap_queue_reqs",
    "sglang:num_decode_prealloc_queue_reqs",
    "sglang:num_decode_transfer_queue_reqs",
)
_KV_USAGE = ("vllm:kv_cache_usage_perc", "sglang:token_usage")
_GAUGES = {name: kind for kind, names in enumerate((_RUNNING, _WAITING, _KV_USAGE)) for name in names}
_CACHE_CONFIG = "vllm:cache_config_info"
_BLOCK_SIZE, _BLOCKS = "sglang:page_size", "sglang:num_pages"
_STARTED = "process_start_time_seconds"
# They rise whenever the engine gets anything done.
_PROGRESS = (
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:iteration_tokens_total_count",
    "sglang:realtime_tokens_total",
    "sglang:generation_tokens_total",
)


class Total(StrEnum):
    """What both engines count, under one name."""

    PROMPT_TOKENS = "prompt_tokens"
    OUTPUT_TOKENS = "output_tokens"
    CACHED_TOKENS = "cached_tokens"
    PREEMPTIONS = "preemptions"
    FAILED_TRANSFERS = "failed_transfers"


_TOTALS = {
    "vllm:prompt_tokens_total": Total.PROMPT_TOKENS,
    "sglang:prompt_tokens_total": Total.PROMPT_TOKENS,
    "vllm:generation_tokens_total": Total.OUTPUT_TOKENS,
    "sglang:generation_tokens_total": Total.OUTPUT_TOKENS,
    "vllm:prompt_tokens_cached_total": Total.CACHED_TOKENS,
    "sglang:cached_tokens_total": Total.CACHED_TOKENS,
    "vllm:num_preemptions_total": Total.PREEMPTIONS,
    "sglang:num_retracted_requests_total": Total.PREEMPTIONS,
    "vllm:nixl_num_failed_transfers_total": Total.FAILED_TRANSFERS,
    "sglang:num_transfer_failed_reqs_total": Total.FAILED_TRANSFERS,
}

_WANTED = (*_GAUGES, _CACHE_CONFIG, _BLOCK_SIZE, _BLOCKS, _STARTED, *_PROGRESS, *_TOTALS)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class EnginePage:
    """One reading of the page."""

    gauges: tuple[Gauges, ...] = ()
    progress: float = 0.0
    started: str = ""
    """Start time of the engine's process, where it says so."""
    block_size: int = 0
    kv_blocks: int = 0
    totals: Mapping[Total, float] = field(default_factory=dict[Total, float])
    """Since the engine's start, over all ranks; what its page does not show is missing."""

    @property
    def failed_transfers(self) -> float:
        return self.totals.get(Total.FAILED_TRANSFERS, 0.0)


@dataclass(slots=True)
class _Rank:
    values: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    """Running, waiting, usage of the KV cache."""


def read_page(text: bytes) -> EnginePage:
    """Read the lines that matter; what is not there stays at its default."""
    ranks: dict[int, _Rank] = defaultdict(_Rank)
    progress = 0.0
    totals: dict[Total, float] = {}
    started = ""
    config: Mapping[str, str] = {}
    sizes: dict[str, int] = {}
    for name, labels, value in _samples(text):
        if name in _PROGRESS:
            progress += value
        # With priorities SGLang shows each number once more for each of them.
        if labels.get("priority"):
            continue
        if name in _TOTALS:
            totals[_TOTALS[name]] = totals.get(_TOTALS[name], 0.0) + value
        elif name in _GAUGES:
            ranks[_int(labels.get("engine") or labels.get("dp_rank", "0"))].values[_GAUGES[name]] += value
        elif name == _STARTED:
            started = f"{value:.2f}"
        elif name == _CACHE_CONFIG:
            config = labels
        elif name in (_BLOCK_SIZE, _BLOCKS):
            sizes[name] = int(value)
    return EnginePage(
        gauges=tuple(_gauges(rank, found.values) for rank, found in sorted(ranks.items())),
        progress=progress,
        started=started,
        block_size=_int(config.get("block_size", "0")) or sizes.get(_BLOCK_SIZE, 0),
        kv_blocks=_int(config.get("num_gpu_blocks", "0")) or sizes.get(_BLOCKS, 0),
        totals=totals,
    )


def _gauges(rank: int, values: Sequence[float]) -> Gauges:
    running, waiting, usage = values
    return Gauges(dp_rank=rank, running=int(running), waiting=int(waiting), kv_usage=usage)


def _samples(text: bytes) -> Iterator[tuple[str, Mapping[str, str], float]]:
    for raw in text.decode("utf-8", "replace").split("\n"):
        if not raw.startswith(_WANTED):
            continue
        series, _, number = raw.rpartition(" ")
        name, brace, labels = series.partition("{")
        try:
            value = float(number)
        except ValueError:
            continue
        yield name, dict(_LABEL.findall(labels)) if brace else {}, value


def _int(text: str) -> int:
    try:
        return int(float(text))
    except ValueError:
        return 0
