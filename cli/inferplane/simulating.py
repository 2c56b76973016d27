"""What `simulate` and `replay` run: a scenario from options and a file, a workload for each seed, progress."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import click

from inferplane.context import Context
from inferplane.errors import InvalidError
from inferplane.manifest import read_manifest
from inferplane_api.catalogue import RoutingMode, WorkerRole
from inferplane_engine.profiles import profile_named
from inferplane_engine.timing import TimingProfile
from inferplane_planner.workload import Workload, workload
from inferplane_planner.workload.open_loop import Ends
from inferplane_planner.workload.traces import BLOCK, Trace, holds_records
from inferplane_simulator import PoolSpec, Scenario, Slo
from inferplane_simulator.knee import find_knee
from inferplane_simulator.run import Simulation

_TOLD_EVERY_S = 5.0
_GENERATED_BLOCK = 64


@dataclass(frozen=True, slots=True)
class Source:
    """Where requests come from: a trace, or a generator at a rate."""

    trace: Path | None
    name: str
    speed: float
    requests: int | None

    def make(self, rate_per_s: float, seed: int) -> Workload:
        if self.trace is not None:
            return Trace(self.trace, speed=self.speed, requests=self.requests)
        return workload(self.name, rate_per_s, seed=seed, ends=Ends(requests=self.requests))

    @property
    def block_tokens(self) -> int:
        """Return as coarse blocks as the source can tell apart."""
        named = self.trace is not None and self.trace.suffix.lower() == ".jsonl" and not holds_records(self.trace)
        return BLOCK if named else _GENERATED_BLOCK


@dataclass(frozen=True, slots=True)
class Size:
    """Workers by role; None: as the file says, or the default."""

    workers: int | None
    prefill: int | None
    devices: int


def scenario_of(filename: Path | None, size: Size, profile: str, slo: tuple[float | None, float | None]) -> Scenario:
    """Make a scenario out of a manifest and what overrides it.  Raises InvalidError."""
    try:
        timing = profile_named(profile)
    except ValueError as error:
        raise InvalidError(f"--profile: {error}") from error
    if filename is None:
        return _scenario(size, timing, Slo(slo[0] or 2.0, slo[1] or 0.1), RoutingMode.AUTO)
    spec = read_manifest(filename, for_cluster=True).service.spec
    prefill = spec.prefill.replicas if spec.prefill is not None and spec.mode is not RoutingMode.AGGREGATED else 0
    sized = Size(size.workers or spec.decode.replicas, prefill if size.prefill is None else size.prefill, size.devices)
    limits = Slo(slo[0] or spec.slo.ttft_s or 2.0, slo[1] or spec.slo.tpot_s or 0.1)
    made = _scenario(sized, timing, limits, RoutingMode(spec.mode.value))
    routing = spec.routing
    return replace(
        made,
        policy=routing.policy.value,
        queue_limit=routing.queue_limit,
        queue_timeout_s=routing.queue_timeout_s,
    )


def _scenario(size: Size, timing: TimingProfile, slo: Slo, mode: RoutingMode) -> Scenario:
    pools = [PoolSpec(WorkerRole.DECODE, 8 if size.workers is None else size.workers, timing, devices=size.devices)]
    if size.prefill:
        pools.insert(0, PoolSpec(WorkerRole.PREFILL, size.prefill, timing, devices=size.devices))
    return Scenario(tuple(pools), slo=slo, mode=mode)


def rate_at_load(scenario: Scenario, source: Source, load: float, progress: "Progress") -> float:
    """Return the rate that is this share of the knee of the scenario's policy, found on a seed of its own."""

    def attainment(rate_per_s: float) -> float:
        progress.begin(f"looking for the knee: {rate_per_s:.3g}/s")
        tried = replace(scenario, seed=0)
        return Simulation(tried, source.make(rate_per_s, 0)).run(progress.show).attainment

    knee = find_knee(attainment, start_per_s=1.0).rate_per_s
    if knee <= 0:
        raise InvalidError("--load: no rate keeps the SLO, however low; raise the limits or choose a faster profile")
    return knee * load


class Progress:
    """Simulated and wall time of the run that goes on, on standard error."""

    def __init__(self, context: Context, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._terminal = context.terminal
        self._clock = clock
        self._name = ""
        self._began = self._told = clock()

    def begin(self, name: str) -> None:
        self._name, self._began = name, self._clock()
        self._told = self._began if self._terminal else self._began - _TOLD_EVERY_S

    def show(self, simulated_s: float) -> None:
        now = self._clock()
        if now - self._told < (0.2 if self._terminal else _TOLD_EVERY_S):
            return
        self._told = now
        wall_s = max(1e-6, now - self._began)
        text = f"{self._name}: {simulated_s:.0f} s simulated in {wall_s:.0f} s ({simulated_s / wall_s:.0f}x)"
        click.echo(f"\r\x1b[K{text}" if self._terminal else text, err=True, nl=not self._terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal:
            click.echo("\r\x1b[K", err=True, nl=False)
