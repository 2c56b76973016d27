"""What happens to a fleet over time, recorded from a simulated run: the states that routers are asked in.

A run is listened to from both of its sides: as its workload (who came, whose answer ended) and as its scaler (when the
first token came).  What is kept is the order of three kinds of moments; how long they took does not matter to routers
that count.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from _routing_runs import SLO

from inferplane_api.catalogue import WorkerRole
from inferplane_engine.profiles import PROFILES
from inferplane_planner.workload import Request, Workload, workload
from inferplane_planner.workload.open_loop import Ends
from inferplane_planner.workload.prompts import Tokens
from inferplane_simulator import PoolSpec, Scenario, Simulation
from inferplane_simulator.scaling import Served, Staff


class Kind(Enum):
    """In the order in which things of one time happen."""

    ENDED = 0
    PREFILLED = 1
    CAME = 2


@dataclass(frozen=True, slots=True)
class Moment:
    at_s: float
    kind: Kind
    request: Request

    @property
    def tokens(self) -> Tokens:
        return self.request.prompt.token_ids()


class Recorder:
    """Hands on a workload and writes down what becomes of it; a scaler that changes nothing."""

    def __init__(self, source: Workload) -> None:
        self.moments: list[Moment] = []
        self.period_s = 1e6
        self._source = source
        self._ended: Request | None = None

    def peek(self) -> float | None:
        return self._source.peek()

    def take(self) -> Request:
        request = self._source.take()
        self.moments.append(Moment(request.at_s, Kind.CAME, request))
        return request

    def finished(self, request: Request, at_s: float) -> None:
        self._source.finished(request, at_s)
        self.moments.append(Moment(at_s, Kind.ENDED, request))
        self._ended = request

    def arrived(self, at_s: float) -> None:
        """Know it already."""

    def served(self, answer: Served) -> None:
        """Learn when the answer that has just ended had begun."""
        if self._ended is not None:
            self.moments.append(Moment(self._ended.at_s + answer.ttft_s, Kind.PREFILLED, self._ended))

    def plan(self, staff: Mapping[WorkerRole, Staff], now: float) -> Mapping[WorkerRole, int]:
        del staff, now
        return {}


def record(name: str, rate_per_s: float, *, requests: int, workers: int, seed: int) -> list[Moment]:
    """Return the moments of a run of `requests` requests, in order of time."""
    recorder = Recorder(workload(name, rate_per_s, seed=seed, ends=Ends(requests=requests)))
    scenario = Scenario(
        (PoolSpec(WorkerRole.DECODE, workers, PROFILES["h100-8b"]),), slo=SLO, policy="round-robin", block_tokens=64
    )
    Simulation(scenario, recorder, scaler=recorder).run()
    return sorted(recorder.moments, key=lambda each: (each.at_s, each.kind.value))
