"""What is simulated: pools, routers, the time between them, what breaks.  Times in seconds, lengths in tokens."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from inferplane_api.catalogue import RoutingMode, WorkerRole
from inferplane_engine.sim.config import EngineConfig, LoadFailurePolicy
from inferplane_engine.timing import TimingProfile
from inferplane_router.core.cost import CostSettings
from inferplane_router.core.placing import Policy
from inferplane_simulator.errors import ScenarioError
from inferplane_simulator.policies import POLICIES

Policies = Mapping[str, Callable[[], Policy]]

_FOREVER_S: Final = 1e9
"""Leases never end here: a consumer that waits renews them."""


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """Workers of one role, all alike."""

    role: WorkerRole
    workers: int
    profile: TimingProfile
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    devices: int = 1
    """Accelerators that one worker takes."""
    zone: str = "a"

    def __post_init__(self) -> None:
        if self.workers < 0:
            raise ScenarioError(f"{self.role}.workers", f"{self.workers} is negative", "give 0 or more")
        if self.devices < 1:
            raise ScenarioError(f"{self.role}.devices", f"{self.devices} is not a number of devices", "give 1 or more")
        if self.profile.kv_capacity_tokens < 1:
            raise ScenarioError(f"{self.role}.profile", "has no room for KV", "choose a larger accelerator")


@dataclass(frozen=True, slots=True)
class Delays:
    route_s: float = 0.001
    """From the gateway to an agent, and from an agent's answer back to the client."""
    report_s: float = 0.003
    """From an event at an engine until routers have heard of it."""
    lost_s: float = 0.05
    """From a crash until routers have noticed it."""

    def __post_init__(self) -> None:
        for name in ("route_s", "report_s", "lost_s"):
            check_time(f"delays.{name}", getattr(self, name))


@dataclass(frozen=True, slots=True)
class Slo:
    """Limits that every request is held against."""

    ttft_s: float = 2.0
    tpot_s: float = 0.1
    percentile: float = 95.0
    """Percent of requests that are to keep them: what the router aims at."""

    def __post_init__(self) -> None:
        if not 0 < self.percentile < 100:  # noqa: PLR2004
            raise ScenarioError("slo.percentile", f"is {self.percentile:g}", "give a percentage, such as 95")
        for name in ("ttft_s", "tpot_s"):
            check_time(f"slo.{name}", getattr(self, name))
            if getattr(self, name) == 0:
                raise ScenarioError(f"slo.{name}", "is 0", "give a limit above 0")


@dataclass(frozen=True, slots=True)
class Crash:
    """A worker's engine dies; after `down_s` it starts anew, with all phases of its start."""

    at_s: float
    worker: str
    """As `decode-0`: role and number in order of creation."""
    down_s: float = 5.0

    def __post_init__(self) -> None:
        check_time("crash.at", self.at_s)
        check_time("crash.down", self.down_s)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One fleet and how it is watched."""

    pools: tuple[PoolSpec, ...]
    slo: Slo = field(default_factory=Slo)
    delays: Delays = field(default_factory=Delays)
    policy: str = "kv-aware"
    mode: RoutingMode = RoutingMode.AUTO
    routers: int = 1
    queue_limit: int = 1024
    queue_timeout_s: float = 30.0
    block_tokens: int = 64
    max_model_len: int = 131_072
    exact: bool = False
    """Compute every engine step by itself; False: runs of plain decode steps at once."""
    crashes: tuple[Crash, ...] = ()
    warm_up_s: float = 0.0
    """Requests that arrive before this count for nothing."""
    duration_s: float = math.inf
    """Requests that arrive after this are not sent."""
    drain_s: float = 120.0
    """Answers that are not complete so long after the last arrival are not waited for."""
    start_up_s: float | None = None
    """What starting a worker takes; None: what its profile says."""
    seed: int = 0
    policies: Policies = field(default_factory=lambda: POLICIES)
    cost: CostSettings = field(default_factory=CostSettings)
    """Priors and weights of the `kv-aware` policy, to be tuned."""

    def __post_init__(self) -> None:
        if not any(pool.role is WorkerRole.DECODE for pool in self.pools):
            raise ScenarioError("pools", "hold no decode pool", "every answer is made by a decode worker; add one")
        if len({pool.role for pool in self.pools}) != len(self.pools):
            raise ScenarioError("pools", "hold a role twice", "one pool for each role")
        if self.policy not in self.policies:
            raise ScenarioError("policy", f"{self.policy!r} is unknown", f"use one of {', '.join(self.policies)}")
        for name in ("routers", "block_tokens", "max_model_len"):
            if getattr(self, name) < 1:
                raise ScenarioError(name, f"{getattr(self, name)} is too few", "give 1 or more")
        for name in ("warm_up_s", "drain_s", "queue_timeout_s"):
            check_time(name, getattr(self, name))
        if not self.duration_s > self.warm_up_s:
            raise ScenarioError("duration", "ends before the warm-up does", "make it longer")

    def pool(self, role: WorkerRole) -> PoolSpec | None:
        return next((pool for pool in self.pools if pool.role is role), None)

    @property
    def longest(self) -> int:
        """Tokens of prompt and answer that every engine has room for."""
        return min(self.max_model_len, *(pool.profile.kv_capacity_tokens for pool in self.pools))

    def engine(self, pool: PoolSpec) -> EngineConfig:
        """Return what the pool's engines are configured as."""
        blocks = max(1, pool.profile.kv_capacity_tokens // self.block_tokens)
        return EngineConfig(
            block_size=self.block_tokens,
            blocks=blocks + 1,
            max_model_len=min(self.longest, blocks * self.block_tokens),
            max_num_seqs=pool.max_num_seqs,
            max_num_batched_tokens=pool.max_num_batched_tokens,
            lease_s=_FOREVER_S,
            load_failure=LoadFailurePolicy.RECOMPUTE,
            exact=self.exact,
            content=False,
            every_token=False,
        )


def check_time(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise ScenarioError(name, f"{value:g} is not a time", "give 0 or more seconds")
