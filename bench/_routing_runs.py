"""One run of a routing policy under a workload, and the knee that loads are shares of."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from inferplane_api.catalogue import WorkerRole
from inferplane_engine.profiles import PROFILES
from inferplane_planner.workload import Request, Workload, workload
from inferplane_planner.workload.open_loop import Ends
from inferplane_planner.workload.traces import Trace
from inferplane_router.core.cost import CostSettings
from inferplane_simulator import Outcome, PoolSpec, Scenario, Simulation, Slo
from inferplane_simulator.knee import find_knee

SLO = Slo(ttft_s=1.0, tpot_s=0.05)
TRACE = "trace"
START_PER_S = {
    "saas": 2.0,
    "code": 0.5,
    "reasoning": 0.25,
    "agents": 0.15,
    "zipf-shift": 5.0,
    "flash-crowd": 2.0,
    TRACE: 0.5,
}
"""Requests (or sessions) a second and worker at which the search for a knee begins."""
_HALVINGS = 4


@dataclass(frozen=True, slots=True)
class Size:
    """What makes runs comparable."""

    requests: int
    workers: int
    profile: str
    trace: Path | None = None

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "trace": self.trace.name if self.trace else None}


@dataclass(frozen=True, slots=True)
class Cell:
    """One run; `load` is a share of the knee."""

    workload: str
    load: float
    policy: str
    seed: int


class Recorded:
    """A part of a trace, at another rate: its gaps keep their proportions."""

    def __init__(self, requests: Sequence[Request], rate_per_s: float) -> None:
        begin_s, end_s = requests[0].at_s, requests[-1].at_s
        scale = (len(requests) - 1) / rate_per_s / max(1e-9, end_s - begin_s)
        self._left = [replace(each, at_s=(each.at_s - begin_s) * scale) for each in reversed(requests)]

    def peek(self) -> float | None:
        return self._left[-1].at_s if self._left else None

    def take(self) -> Request:
        return self._left.pop()

    def finished(self, request: Request, at_s: float) -> None:
        """Change nothing: what was recorded waited for other answers."""


def part_of(path: Path, part: int, requests: int) -> list[Request]:
    """Return the `part`-th run of so many requests of a trace."""
    trace = Trace(path, requests=(part + 1) * requests)
    taken: list[Request] = []
    while trace.peek() is not None:
        taken.append(trace.take())
    if len(taken) < (part + 1) * requests:
        raise ValueError(f"{path} has {len(taken)} requests: too few for part {part} of {requests}; use fewer requests")
    return taken[-requests:]


class Runs:
    """Runs of one size."""

    def __init__(self, size: Size, cost: CostSettings | None = None) -> None:
        self._size = size
        self._cost = cost or CostSettings()
        self._pool = PoolSpec(WorkerRole.DECODE, size.workers, PROFILES[size.profile])

    def run(self, name: str, policy: str, rate_per_s: float, seed: int) -> Outcome:
        scenario = Scenario(
            (self._pool,),
            slo=SLO,
            policy=policy,
            seed=seed,
            cost=self._cost,
            warm_up_s=self._warm_up_s(name, rate_per_s),
            drain_s=600.0,
            block_tokens=128,
        )
        return Simulation(scenario, self._source(name, rate_per_s, seed, self._size.requests)).run()

    def knee(self, name: str, policy: str = "kv-aware") -> float:
        """Return the highest rate that the policy keeps on seed 0, to a sixteenth of where the search began."""

        def attainment(rate_per_s: float) -> float:
            return self.run(name, policy, rate_per_s, 0).attainment

        start_per_s = START_PER_S[name] * self._size.workers
        return find_knee(attainment, start_per_s=start_per_s, halvings=_HALVINGS).rate_per_s

    def _source(self, name: str, rate_per_s: float, seed: int, requests: int) -> Workload:
        if name != TRACE:
            return workload(name, rate_per_s, seed=seed, ends=Ends(requests=requests))
        if self._size.trace is None:
            raise ValueError("the workload `trace` needs a file: give --trace FILE")
        return Recorded(part_of(self._size.trace, seed, self._size.requests)[:requests], rate_per_s)

    def _warm_up_s(self, name: str, rate_per_s: float) -> float:
        """Return when a quarter of the requests has arrived."""
        source = self._source(name, rate_per_s, 0, self._size.requests // 4)
        at_s = 0.0
        while (due := source.peek()) is not None:
            request, at_s = source.take(), due
            source.finished(request, at_s + 1.0)
        return at_s
