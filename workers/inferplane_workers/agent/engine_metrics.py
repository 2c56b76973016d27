"""The few numbers of an engine's metrics page that the agent needs.

An engine's page is long and asking for it costs the engine time, so it is read at most once a second and only the lines
that matter are looked at.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from inferplane_workers.agent.wire import Gauges

_RUNNING = "vllm:num_requests_running"
_WAITING = "vllm:num_requests_waiting"
_KV_USAGE = "vllm:kv_cache_usage_perc"
_CACHE_CONFIG = "vllm:cache_config_info"
_STARTED = "process_start_time_seconds"
# They rise whenever the engine gets anything done.
_PROGRESS = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:iteration_tokens_total_count")
_FAILED_TRANSFERS = "vllm:nixl_num_failed_transfers_total"

_WANTED = (_RUNNING, _WAITING, _KV_USAGE, _CACHE_CONFIG, _STARTED, *_PROGRESS, _FAILED_TRANSFERS)
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
    failed_transfers: float = 0.0


@dataclass(slots=True)
class _Rank:
    values: dict[str, float] = field(default_factory=dict[str, float])


def read_page(text: bytes) -> EnginePage:
    """Read the lines that matter; what is not there stays at its default."""
    ranks: dict[int, _Rank] = defaultdict(_Rank)
    progress = failed = 0.0
    started = ""
    config: Mapping[str, str] = {}
    for name, labels, value in _samples(text):
        if name in (_RUNNING, _WAITING, _KV_USAGE):
            values = ranks[_int(labels.get("engine", "0"))].values
            values[name] = values.get(name, 0.0) + value
        elif name in _PROGRESS:
            progress += value
        elif name == _STARTED:
            started = f"{value:.2f}"
        elif name == _CACHE_CONFIG:
            config = labels
        elif name == _FAILED_TRANSFERS:
            failed += value
    return EnginePage(
        gauges=tuple(_gauges(rank, found.values) for rank, found in sorted(ranks.items())),
        progress=progress,
        started=started,
        block_size=_int(config.get("block_size", "0")),
        kv_blocks=_int(config.get("num_gpu_blocks", "0")),
        failed_transfers=failed,
    )


def _gauges(rank: int, values: Mapping[str, float]) -> Gauges:
    return Gauges(
        dp_rank=rank,
        running=int(values.get(_RUNNING, 0)),
        waiting=int(values.get(_WAITING, 0)),
        kv_usage=values.get(_KV_USAGE, 0.0),
    )


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
