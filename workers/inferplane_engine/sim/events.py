"""What the core tells its driver: values only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inferplane_engine.sim.config import GroupKind
from inferplane_runtime.values import value

ExtraKeys = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class BlocksStored:
    """Full blocks entered the prefix cache; `token_ids` spans masked blocks too, `hashes` does not."""

    hashes: tuple[int, ...]
    parent: int | None
    token_ids: tuple[int, ...]
    block_size: int
    group: int
    kind: GroupKind
    window: int | None
    adapter: str
    adapter_id: int | None
    extra_keys: tuple[ExtraKeys | None, ...] | None


@dataclass(frozen=True, slots=True)
class BlocksRemoved:
    hashes: tuple[int, ...]
    group: int


@dataclass(frozen=True, slots=True)
class CacheCleared:
    pass


CacheEvent = BlocksStored | BlocksRemoved | CacheCleared


@dataclass(frozen=True, slots=True)
class CacheChanged:
    """One step's batch of cache events, in order."""

    at: float
    events: tuple[CacheEvent, ...]


@value(frozen=True, slots=True, eq=False)
class KeysChanged:
    """The same of an engine that does not say more: keys that were removed or stored, removals first."""

    at: float
    stored: NDArray[np.uint64]
    removed: NDArray[np.uint64]


class Tokens(NamedTuple):
    """New output tokens of one request, each with the time it was sampled.

    A tuple, because there is one for every sequence and step.
    """

    request_id: str
    tokens: tuple[int, ...]
    times: tuple[float, ...]


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


@value(frozen=True, slots=True)
class RequestStats:
    """Where the prompt's tokens came from, and when; times are the engine's."""

    prompt_tokens: int
    local_cached: int
    external_cached: int
    output_tokens: int
    preemptions: int
    submitted_at: float
    scheduled_at: float
    first_token_at: float
    finished_at: float

    @property
    def cached_tokens(self) -> int:
        """As the engine counts them in usage: local hits and transferred tokens."""
        return self.local_cached + self.external_cached


@value(frozen=True, slots=True)
class Finished:
    at: float
    request_id: str
    reason: FinishReason
    stop_token: int | None
    stats: RequestStats
    held_blocks: tuple[tuple[int, ...], ...] | None = None
    """Producer: blocks kept for the consumer, per group (absent: nothing is kept)."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class PullWanted:
    """Consumer: fetch these blocks of the producer, then call `pulled` or `pull_failed`."""

    at: float
    request_id: str
    source: "RemoteSource"
    blocks: tuple[tuple[int, ...], ...]
    """Per group: the producer's blocks to read, the last ones of `source.block_ids`."""
    tokens: int


@dataclass(frozen=True, slots=True)
class LeaseEnded:
    """Producer: a consumer confirmed, or nobody came in time."""

    at: float
    request_id: str
    expired: bool


@dataclass(frozen=True, slots=True)
class EngineDied:
    """The engine process cannot go on; nothing is said after this."""

    at: float
    reason: str


Event = Tokens | Finished | CacheChanged | KeysChanged | PullWanted | LeaseEnded | EngineDied


@dataclass(frozen=True, slots=True)
class RemoteSource:
    """Where a consumer pulls from: the producer's own words, verbatim."""

    engine_id: str
    request_id: str
    host: str
    port: int
    block_ids: tuple[tuple[int, ...], ...]


@value(frozen=True, slots=True)
class Outline:
    """Stands for a prompt whose tokens nobody needs: a simulation of time and blocks, without contents."""

    tokens: int
    hashes: Sequence[int] | NDArray[np.uint64]
    """Names of the full blocks of prompt and answer, chained; the cache goes by them alone."""


@value(frozen=True, slots=True)
class EngineRequest:
    """One sequence to compute."""

    request_id: str
    prompt: tuple[int, ...]
    """Empty where an outline stands for it."""
    max_tokens: int
    salt: str = ""
    adapter: str = ""
    adapter_id: int | None = None
    extra_keys: Mapping[int, ExtraKeys] | None = None
    """Per block: what multimodal inputs add to its identity."""
    ignore_eos: bool = False
    min_tokens: int = 0
    stop_tokens: frozenset[int] = frozenset()
    sample: int = 0
    """Sampling seed; 0 is greedy."""
    hold: bool = False
    """Producer: keep the blocks when done, for a consumer to pull."""
    source: RemoteSource | None = None
    """Consumer: pull the prompt's KV from here."""
    outline: Outline | None = None

    @property
    def prompt_tokens(self) -> int:
        return len(self.prompt) if self.outline is None else self.outline.tokens


@dataclass(frozen=True, slots=True)
class Gauges:
    """State of one core at one moment."""

    running: int
    waiting: int
    waiting_for_transfer: int
    kv_usage: float
    prefix_queries: int
    prefix_hits: int
    external_queries: int
    external_hits: int
    preemptions: int
    steps: int
