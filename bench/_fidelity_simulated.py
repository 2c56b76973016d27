"""The same requests through the product's simulator, with engines as they were calibrated."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from _fidelity_live import AIM_TPOT_S, AIM_TTFT_S, BLOCK, MOST_AT_ONCE, STEP_TOKENS, Fleet, Seen

from fidelity import figures
from inferplane_api.catalogue import RoutingMode, WorkerRole
from inferplane_engine.timing import Link, TimingProfile, decode_step_s, prefill_s
from inferplane_planner.workload import OpenLoop, Poisson, Request
from inferplane_planner.workload.arrivals import Constant
from inferplane_planner.workload.lengths import Fixed, LogNormal
from inferplane_planner.workload.open_loop import Ends
from inferplane_planner.workload.shapes import SharedPrefix
from inferplane_simulator import PoolSpec, Scenario, Simulation, Slo
from inferplane_simulator.journey import Journey
from inferplane_simulator.knee import find_knee
from inferplane_simulator.measures import Measures
from inferplane_simulator.scenario import Delays

KEPT: Final = Slo(ttft_s=1.0, tpot_s=0.08)
"""What 95 % of the requests keep up to the knee."""
KNEE_SECONDS: Final = 120.0
_SHAPE: Final = SharedPrefix(groups=8, prefix=Fixed(256), question=LogNormal(128, 0.5, most=512))
_OUTPUT: Final = LogNormal(24, 0.4, most=64)


@dataclass(frozen=True, slots=True)
class Known:
    """What calibration found: the engine, and the way there and back in seconds."""

    profile: TimingProfile
    way_s: float

    def with_link(self, latency_s: float, token_s: float) -> "Known":
        """Return the same with a link that takes so long for nothing, and so long for each token."""
        rate = self.profile.kv_bytes_per_token / token_s if token_s > 0 else 1e12
        return replace(self, profile=replace(self.profile, link=Link(latency_s, rate)))

    def alone_s(self, tokens: int) -> float:
        """Return what a hand-over of a prompt takes without its transfer: both engines, and the way."""
        prompt = prefill_s(self.profile, uncached_tokens=tokens, cached_tokens=0.0, chunk_tokens=STEP_TOKENS)
        return self.way_s + prompt + float(decode_step_s(self.profile, batch=1.0, kv_tokens=float(tokens)))


class Kept(Measures):
    """Measures that keep what each client saw."""

    def __init__(self) -> None:
        super().__init__(KEPT)
        self.seen: list[Seen] = []

    def answered(self, journey: Journey, at_s: float, output_tokens: int) -> None:
        super().answered(journey, at_s, output_tokens)
        ttft_s = journey.first_token_s - journey.request.at_s
        tpot_s = (at_s - journey.first_token_s) / max(1, output_tokens - 1)
        self.seen.append(Seen(journey.request.at_s, ttft_s, tpot_s))


@dataclass(slots=True)
class Taken:
    """A workload out of requests that were taken before."""

    requests: Sequence[Request]
    _next: int = field(default=0)

    def peek(self) -> float | None:
        return self.requests[self._next].at_s if self._next < len(self.requests) else None

    def take(self) -> Request:
        self._next += 1
        return self.requests[self._next - 1]

    def finished(self, request: Request, at_s: float) -> None:
        """Change nothing: nobody waits."""


def requests(rate_per_s: float, seconds: float, seed: int) -> list[Request]:
    """Draw what is asked in a run."""
    source = OpenLoop(Poisson(Constant(rate_per_s)), _SHAPE, _OUTPUT, seed=seed, ends=Ends(after_s=seconds))
    taken = list[Request]()
    while source.peek() is not None:
        taken.append(source.take())
    return taken


def scenario(fleet: Fleet, known: Known) -> Scenario:
    pools = [
        PoolSpec(role, workers, known.profile, max_num_seqs=MOST_AT_ONCE, max_num_batched_tokens=STEP_TOKENS)
        for role, workers in ((WorkerRole.PREFILL, fleet.prefill), (WorkerRole.DECODE, fleet.decode))
        if workers
    ]
    return Scenario(
        tuple(pools),
        slo=Slo(AIM_TTFT_S, AIM_TPOT_S),
        delays=Delays(route_s=known.way_s / 2),
        mode=RoutingMode.DISAGGREGATED if fleet.prefill else RoutingMode.AGGREGATED,
        block_tokens=BLOCK,
        max_model_len=2048,
    )


def simulate(fleet: Fleet, known: Known, asked: Sequence[Request]) -> Kept:
    """Run requests through the simulator."""
    run = Simulation(scenario(fleet, known), Taken(asked))
    kept = run.measures = Kept()
    run.run()
    return kept


def knee(fleet: Fleet, known: Known) -> float:
    """Return the highest rate that keeps the limits in the simulator."""

    def attainment(rate_per_s: float) -> float:
        kept = simulate(fleet, known, requests(rate_per_s, KNEE_SECONDS, 0))
        return kept.met / max(1, kept.arrived)

    return find_knee(attainment, start_per_s=2.0, halvings=4).rate_per_s


def figures_of(seen: Sequence[Seen], hit_rate: float, warm_up_s: float) -> dict[str, float]:
    """Return what is compared of the requests after the warm-up."""
    counted = [each for each in seen if each.at_s >= warm_up_s]
    return figures([each.ttft_s for each in counted], [each.tpot_s for each in counted], hit_rate)


def simulated_figures(fleet: Fleet, known: Known, asked: Sequence[Request], warm_up_s: float) -> dict[str, float]:
    kept = simulate(fleet, known, asked)
    return figures_of(kept.seen, kept.cached_tokens / max(1, kept.prompt_tokens), warm_up_s)


def line(samples: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return (what nothing takes, what one more takes) of (size, seconds) pairs, neither below 0."""
    sizes, seconds = (np.array(each) for each in zip(*samples, strict=True))
    slope, fixed = (float(it) for it in np.polyfit(sizes, seconds, 1))
    if slope < 0:
        return max(0.0, float(seconds.mean())), 0.0
    return (fixed, slope) if fixed >= 0 else (0.0, float((sizes @ seconds) / (sizes @ sizes)))
