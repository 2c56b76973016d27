"""How much faster than real time a fleet is simulated, router and all: `python bench/bench_simulator.py --trace FILE`.

Eight workers (70B model, four H100 each) serve the conversation trace, in blocks of 512 tokens as it names them, once
skipping ahead and once stepping exactly.  Simulated time is compared with the CPU time of the one thread; peak memory
is read after half of the requests and at the end.  Without a trace file a generated workload stands in, which the
result says.
The last line is JSON.
"""

import argparse
import gc
import json
import resource
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from inferplane_api.catalogue import WorkerRole
from inferplane_engine.profiles import PROFILES
from inferplane_planner.workload import Workload, workload
from inferplane_planner.workload.open_loop import Ends
from inferplane_planner.workload.traces import Trace
from inferplane_simulator import Outcome, PoolSpec, Scenario, Simulation, Slo


def source(trace: Path | None, requests: int) -> Workload:
    if trace is not None:
        return Trace(trace, requests=requests)
    return workload("saas", 8.0, seed=1, ends=Ends(requests=requests))


def simulate(scenario: Scenario, trace: Path | None, requests: int) -> tuple[dict[str, Any], Outcome]:
    simulation = Simulation(scenario, source(trace, requests))
    gc.collect()
    began = time.process_time()
    outcome = simulation.run()
    cpu_s = time.process_time() - began
    return {
        "x_real_time": round(outcome.seconds / cpu_s, 1),
        "cpu_us_per_request": round(1e6 * cpu_s / outcome.requests),
        "cpu_us_per_step": round(1e6 * cpu_s / outcome.steps, 1),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }, outcome


def apart(one: Outcome, other: Outcome) -> float:
    """Return the largest relative difference of what people look at."""
    pairs = [
        (one.ttft.mean, other.ttft.mean),
        (one.ttft.p95, other.ttft.p95),
        (one.tpot.p95, other.tpot.p95),
        (one.hit_rate, other.hit_rate),
        (one.attainment, other.attainment),
    ]
    return max(abs(left - right) / max(1e-9, abs(right)) for left, right in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--requests", type=int, default=12_031)
    parser.add_argument("--profile", default="h100-70b-tp4")
    parser.add_argument("--block", type=int, default=512)
    options = parser.parse_args()
    pool = PoolSpec(WorkerRole.DECODE, 8, PROFILES[options.profile], devices=4)
    scenario = Scenario((pool,), slo=Slo(ttft_s=5.0, tpot_s=0.1), block_tokens=options.block)
    simulate(scenario, options.trace, 50)  # kernels are compiled or loaded here
    half, _ = simulate(scenario, options.trace, options.requests // 2)
    skipping, skipped = simulate(scenario, options.trace, options.requests)
    exact, stepped = simulate(replace(scenario, exact=True), options.trace, options.requests)
    result = {
        "bench": "simulator",
        "trace": None if options.trace is None else options.trace.name,
        "requests": skipped.requests,
        "simulated_s": round(skipped.seconds),
        "steps": skipped.steps,
        "peak_mib_at_half": half["peak_mib"],
        "skipping": skipping,
        "exact": exact,
        "largest_difference": round(apart(skipped, stepped), 6),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
