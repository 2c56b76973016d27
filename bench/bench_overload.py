"""More work than capacity: what is served, who is served, and who is told when to come back.

`python bench/bench_overload.py [--seconds S] [--workers N] [--loads ...]`: the production router before simulated
engines, in virtual time; with `--live gateway` or `--live envoy` real processes in real time, whose loads are shares
of the measured capacity.  Long and short prompts, a fifth of both of a high priority.  The knee is the highest rate at
which 95 % of all requests keep both limits; goodput is how many a second keep them.  The last line is JSON: goodput at
each load as a share of the knee's, attainment of each priority and length, and who was refused.
"""

import argparse
import json
import time
from dataclasses import dataclass, field, replace
from typing import Any, Final

import uvloop
from _overload_live import run_live

from inferplane_api.catalogue import WorkerRole
from inferplane_engine.profiles import PROFILES
from inferplane_planner.workload.arrivals import Constant, Poisson
from inferplane_planner.workload.lengths import LogNormal
from inferplane_planner.workload.open_loop import Ends, OpenLoop
from inferplane_planner.workload.prompts import Piece, Prompt, Request
from inferplane_planner.workload.shapes import OWN, named
from inferplane_runtime import logs
from inferplane_simulator import Outcome, PoolSpec, Scenario, Simulation, Slo
from inferplane_simulator.journey import End, Journey
from inferplane_simulator.knee import find_knee
from inferplane_simulator.measures import Measures

HIGH: Final = 10
SLO: Final = Slo(ttft_s=1.0, tpot_s=0.05)
LONG: Final = 3000
"""Prompts of more tokens are long ones."""
_HIGH_EVERY = 5
_LONG_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class ShortAndLong:
    """Two kinds of prompts that share nothing: three of four are questions, the others documents."""

    short: LogNormal = field(default_factory=lambda: LogNormal(400, 0.6, most=LONG - 1))
    long: LogNormal = field(default_factory=lambda: LogNormal(8000, 0.3))

    def prompt(self, rng: Any, *, number: int, at_s: float) -> Prompt:
        del at_s
        lengths = self.long if rng.random() < _LONG_SHARE else self.short
        return Prompt((Piece(named(OWN, number), lengths.draw(rng)),))


class WithPriorities:
    """Every fifth request of a workload is an important one."""

    def __init__(self, rest: OpenLoop) -> None:
        self._rest = rest

    def peek(self) -> float | None:
        return self._rest.peek()

    def take(self) -> Request:
        request = self._rest.take()
        return replace(request, priority=HIGH if request.number % _HIGH_EVERY == 0 else 0)

    def finished(self, request: Request, at_s: float) -> None:
        self._rest.finished(request, at_s)


class ByKind(Measures):
    """Measures that are kept once more for each priority and each length."""

    def __init__(self, slo: Slo, warm_up_s: float) -> None:
        super().__init__(slo, warm_up_s)
        self.kinds = {name: Measures(slo, warm_up_s) for name in ("high", "low", "short", "long")}

    def _of(self, journey: Journey) -> tuple[Measures, Measures]:
        priority = "high" if journey.request.priority else "low"
        return self.kinds[priority], self.kinds["long" if journey.prompt_tokens >= LONG else "short"]

    def begin(self, journey: Journey) -> None:
        super().begin(journey)
        for kind in self._of(journey):
            kind.begin(journey)

    def end(self, journey: Journey, how: End) -> None:
        super().end(journey, how)
        for kind in self._of(journey):
            kind.end(journey, how)

    def answered(self, journey: Journey, at_s: float, output_tokens: int) -> None:
        super().answered(journey, at_s, output_tokens)
        for kind in self._of(journey):
            kind.answered(journey, at_s, output_tokens)


class Bench:
    """Runs of one fleet."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.seconds: float = options.seconds
        self.warm_up_s: float = options.warm_up
        self.pool = PoolSpec(
            WorkerRole.DECODE, options.workers, PROFILES[options.profile], max_num_seqs=options.max_num_seqs
        )
        self.output = LogNormal(options.output, 0.5)

    def run(self, rate_per_s: float, seed: int) -> tuple[Outcome, ByKind]:
        scenario = Scenario((self.pool,), slo=SLO, seed=seed, warm_up_s=self.warm_up_s, drain_s=60.0, block_tokens=128)
        ends = Ends(after_s=self.warm_up_s + self.seconds)
        source = OpenLoop(Poisson(Constant(rate_per_s)), ShortAndLong(), self.output, seed=seed, ends=ends)
        simulation = Simulation(scenario, WithPriorities(source))
        measures = simulation.measures = ByKind(SLO, self.warm_up_s)
        return simulation.run(), measures

    def knee(self, start_per_s: float) -> float:
        return find_knee(lambda rate: self.run(rate, 0)[0].attainment, start_per_s=start_per_s, halvings=4).rate_per_s


def shown(outcome: Outcome, measures: ByKind) -> dict[str, Any]:
    kinds = {name: round(kind.met / max(1, kind.arrived), 3) for name, kind in measures.kinds.items()}
    ttft = {name: round(kind.ttft.percentile(0.95), 3) for name, kind in measures.kinds.items()}
    refused = {name: kind.ends[End.REFUSED] for name, kind in measures.kinds.items()}
    return {
        "requests": outcome.requests,
        "goodput_per_s": round(outcome.goodput_per_s, 2),
        "attainment": round(outcome.attainment, 3),
        "attainment_ttft": round(outcome.attainment_ttft, 3),
        "attainment_tpot": round(outcome.attainment_tpot, 3),
        "attained_by": kinds,
        "ttft_p95_s": ttft,
        "refused_of": {name: [refused[name], kind.arrived] for name, kind in measures.kinds.items()},
        "ended": outcome.ended,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="virtual time that is measured")
    parser.add_argument("--warm-up", type=float, default=20.0, help="virtual time before that")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--profile", default="h100-8b")
    parser.add_argument("--max-num-seqs", type=int, default=256)
    parser.add_argument("--output", type=int, default=200, help="median tokens of an answer")
    parser.add_argument("--loads", type=float, nargs="+", default=[1.0, 1.5, 2.0])
    parser.add_argument("--knee", type=float, help="requests a second; found where it is not given")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--live", choices=["gateway", "envoy"], help="real processes behind this front, in real time")
    options = parser.parse_args()
    if options.live:
        logs.configure(level=logs.LogLevel.ERROR, component="bench")
        settings = {"seconds": options.seconds, "warm_up_s": options.warm_up, "seed": options.seed}
        live = uvloop.run(run_live(options.live, loads=options.loads, **settings))
        print(json.dumps({"bench": "overload", **live}))
        return
    bench, began = Bench(options), time.process_time()
    knee = options.knee or bench.knee(16.0)
    print(json.dumps({"knee_per_s": knee}), flush=True)
    found: dict[str, dict[str, Any]] = {}
    for load in options.loads:
        found[f"{load:g}"] = value = shown(*bench.run(knee * load, options.seed))
        print(json.dumps({"load": load, **value}), flush=True)
    at_knee = next(iter(found.values()))["goodput_per_s"]
    shares = {load: round(value["goodput_per_s"] / at_knee, 3) for load, value in found.items()}
    result = {"bench": "overload", "knee_per_s": knee, "goodput_of_knee": shares, "loads": found}
    print(json.dumps({**result, "cpu_s": round(time.process_time() - began, 1)}))


if __name__ == "__main__":
    main()
