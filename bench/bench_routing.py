"""Routing policies against each other in virtual time: `python bench/bench_routing.py [--out FILE] [--workloads ...]`.

Aggregated workers (H100, 8B model).  The load is a share of the knee of the `kv-aware` policy, found on seed 0; the
runs that are judged have seeds from 1.  Nothing is tuned: every policy has its defaults.  The first quarter of the
requests warms the caches and is not counted.  One JSON line for each run, into FILE as well; the last line is a
summary.
"""

import argparse
import json
import statistics
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from inferplane_api.catalogue import WorkerRole
from inferplane_engine.profiles import PROFILES
from inferplane_planner.workload import workload
from inferplane_planner.workload.open_loop import Ends
from inferplane_simulator import Outcome, PoolSpec, Scenario, Simulation, Slo
from inferplane_simulator.knee import find_knee
from inferplane_simulator.policies import POLICIES

SLO = Slo(ttft_s=1.0, tpot_s=0.05)
START_PER_S = {"saas": 8.0, "code": 2.0, "reasoning": 4.0, "agents": 0.5, "zipf-shift": 20.0, "flash-crowd": 8.0}


class Bench:
    """Runs of one size."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.requests: int = options.requests
        self.pool = PoolSpec(WorkerRole.DECODE, options.workers, PROFILES[options.profile])

    def run(self, name: str, policy: str, rate_per_s: float, seed: int, warm_up_s: float) -> Outcome:
        scenario = Scenario(
            (self.pool,), slo=SLO, policy=policy, seed=seed, warm_up_s=warm_up_s, drain_s=60.0, block_tokens=128
        )
        source = workload(name, rate_per_s, seed=seed, ends=Ends(requests=self.requests))
        return Simulation(scenario, source).run()

    def warm_up_s(self, name: str, rate_per_s: float) -> float:
        """Return when a quarter of the requests has arrived."""
        source = workload(name, rate_per_s, seed=0, ends=Ends(requests=self.requests // 4))
        at_s = 0.0
        while (due := source.peek()) is not None:
            request, at_s = source.take(), due
            source.finished(request, at_s + 1.0)
        return at_s

    def knee(self, name: str, policy: str = "kv-aware") -> float:
        def attainment(rate_per_s: float) -> float:
            return self.run(name, policy, rate_per_s, 0, self.warm_up_s(name, rate_per_s)).attainment

        return find_knee(attainment, start_per_s=START_PER_S[name]).rate_per_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", nargs="+", default=["saas", "zipf-shift", "reasoning"])
    parser.add_argument("--policies", nargs="+", default=list(POLICIES))
    parser.add_argument("--loads", nargs="+", type=float, default=[0.5, 0.7, 0.9, 1.0, 1.1])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--profile", default="h100-8b")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    bench, began = Bench(options), time.process_time()
    knees = {name: bench.knee(name) for name in options.workloads}
    say(options.out, {"knees": knees})
    found: dict[str, list[float]] = defaultdict(list)
    for seed in range(1, options.seeds + 1):
        for name in options.workloads:
            for load in options.loads:
                for policy in options.policies:
                    rate = knees[name] * load
                    outcome = bench.run(name, policy, rate, seed, bench.warm_up_s(name, rate))
                    say(options.out, line(name, load, rate, outcome))
                    found[f"{name} {load:g} {policy}"].append(outcome.attainment)
    means = {key: round(statistics.mean(values), 4) for key, values in found.items()}
    print(json.dumps({"bench": "routing", "knees": knees, "attainment": means, "cpu_s": time.process_time() - began}))


def line(name: str, load: float, rate: float, outcome: Outcome) -> dict[str, Any]:
    return {
        "workload": name,
        "load": load,
        "rate_per_s": round(rate, 3),
        "policy": outcome.policy,
        "seed": outcome.seed,
        "attainment": round(outcome.attainment, 4),
        "goodput_per_s": round(outcome.goodput_per_s, 3),
        "ttft_p50": outcome.ttft.p50,
        "ttft_p95": outcome.ttft.p95,
        "ttft_p99": outcome.ttft.p99,
        "hit_share": round(outcome.hit_share, 4),
        "requests": outcome.requests,
        "ended": outcome.ended,
    }


def say(out: Path | None, value: dict[str, Any]) -> None:
    text = json.dumps(value)
    print(text, flush=True)
    if out is not None:
        with out.open("a", encoding="utf-8") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
