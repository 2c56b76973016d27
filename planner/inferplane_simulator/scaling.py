"""The seam where a planner sits: it sees what was asked and answered, and says how many workers there shall be."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from inferplane_api.catalogue import WorkerRole


@dataclass(frozen=True, slots=True)
class Served:
    """One complete answer; times in seconds, lengths in tokens."""

    at_s: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    ttft_s: float
    tpot_s: float


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """What a serving engine's metrics say at one moment."""

    running: int
    waiting: int
    kv_use: float
    """Share of its KV blocks."""


@dataclass(frozen=True, slots=True)
class Staff:
    """Workers of a role: ready ones, and those that start."""

    ready: int
    starting: int
    engines: tuple[EngineLoad, ...] = ()
    """One for each ready worker."""
    queued: int = 0
    """Requests that wait in routers, for any role."""

    @property
    def wanted(self) -> int:
        return self.ready + self.starting

    @property
    def waiting(self) -> int:
        """Return the requests that no engine computes yet."""
        return self.queued + sum(engine.waiting for engine in self.engines)

    @property
    def concurrency(self) -> int:
        return self.waiting + sum(engine.running for engine in self.engines)


class Scaler(Protocol):
    """Is asked every `period_s` seconds."""

    @property
    def period_s(self) -> float: ...

    def arrived(self, at_s: float) -> None: ...

    def served(self, answer: Served) -> None: ...

    def plan(self, staff: Mapping[WorkerRole, Staff], now: float) -> Mapping[WorkerRole, int]:
        """Return how many workers of each role there shall be; a role that is left out stays as it is."""
        ...
