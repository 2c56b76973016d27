"""The planner against other ways to scale, in virtual time: `python bench/bench_planner.py [--out FILE] [...]`.

Aggregated workers of an 8B model.  Cases: the conversation trace (H100) and the Azure code trace (L40S), where files
are given, and a generated day of an hour (L40S).  `static` is the smallest constant number of workers with which 95 %
of the requests keep the objective, found on seed 0; every other way begins with half of it and may have twice as many.
The engines' true coefficients are known to all.  A trace has one outcome; the day is drawn anew for each seed from 1
on.  One JSON line for each run, into FILE as well; the last line is a summary with the half widths of 95 % intervals.
`--full`: all four start-up times, five seeds, whole traces (about an hour and a half of one core).
"""

import argparse
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inferplane_api.catalogue import WorkerRole
from inferplane_engine.profiles import PROFILES
from inferplane_planner.core.engine_model import EngineModel
from inferplane_planner.core.solve import Objective
from inferplane_planner.core.times import EngineTimes
from inferplane_planner.workload import Day, OpenLoop, Poisson, Workload
from inferplane_planner.workload.lengths import LogNormal
from inferplane_planner.workload.open_loop import Ends
from inferplane_planner.workload.shapes import SharedPrefix
from inferplane_planner.workload.traces import Trace
from inferplane_simulator import Outcome, PoolSpec, Scenario, Simulation, Slo
from inferplane_simulator.load import listen, load_of
from inferplane_simulator.planning import planner_for
from inferplane_simulator.report.summary import Value
from inferplane_simulator.scalers import SCALERS, Setting
from inferplane_simulator.scalers.by_role import Span
from inferplane_simulator.scalers.capacity import capacity
from inferplane_simulator.scaling import Scaler

OURS = "planner"
ATTAINED = 0.95
START_UPS_S = (0.0, 30.0, 100.0, 300.0)
DAY_S = 3600.0
MOST = 256


@dataclass(frozen=True, slots=True)
class Case:
    """`source` makes the workload of a seed."""

    name: str
    profile: str
    slo: Slo
    source: Callable[[int], Workload]
    drawn: bool = False
    """Whether seeds differ."""


class Bench:
    """One case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        pool = PoolSpec(WorkerRole.DECODE, 1, PROFILES[case.profile])
        self.scenario = Scenario((pool,), slo=case.slo, block_tokens=512, drain_s=60.0)

    def run(self, workers: int, *, seed: int, scaler: Scaler | None, start_up_s: float = 0.0) -> Outcome:
        pools = tuple(replace(pool, workers=workers) for pool in self.scenario.pools)
        scenario = replace(self.scenario, pools=pools, seed=seed, start_up_s=start_up_s)
        return Simulation(scenario, self.case.source(seed), scaler=scaler).run()

    def least_static(self, guess: int) -> int:
        """Search from a guess, upwards or downwards, run by run."""
        count, kept = guess, self.keeps(guess)
        while not kept and count < MOST:
            count += 1
            kept = self.keeps(count)
            if kept:
                return count
        if not kept:
            raise SystemExit(f"{self.case.name}: no number of workers keeps the objective")
        while count > 1 and self.keeps(count - 1):
            count -= 1
        return count

    def keeps(self, workers: int) -> bool:
        return self.run(workers, seed=0, scaler=None).attainment >= ATTAINED

    def setting(self) -> Setting:
        """Find what one worker carries, and how many the peak takes."""
        scenario, role = self.scenario, WorkerRole.DECODE
        times = EngineTimes(scenario.pools[0].profile)
        heard = listen(self.case.source(0), block_tokens=scenario.block_tokens, answer_s=5.0)
        pair, objective = (
            EngineModel(times, times).pair(),
            Objective(scenario.slo.ttft_s, scenario.slo.tpot_s, ATTAINED),
        )
        demand = load_of(heard, hit_share=0.85).demand
        carried = capacity(pair, demand, objective, role, apart=False)
        peak = self.least_static(max(1, round(demand.rate_per_s / carried.rate_per_s)))
        return Setting(pair, objective, Span(1, 2 * peak), {role: carried}, {role: peak})

    def scaled(self, name: str, setting: Setting, seed: int, start_up_s: float) -> Outcome:
        peak = setting.peak[WorkerRole.DECODE]
        begin = peak if name == "static" else max(1, math.ceil(peak / 2))
        if name == OURS:
            scaler: Scaler = planner_for(replace(self.scenario, start_up_s=start_up_s), most=2 * peak)
        else:
            scaler = SCALERS[name](setting)
        return self.run(begin, seed=seed, scaler=scaler, start_up_s=start_up_s)


def day(seed: int) -> Workload:
    shape = SharedPrefix(groups=40, prefix=LogNormal(4000, 0.2), question=LogNormal(2500, 0.5))
    process = Poisson(Day(0.2, 2.5, DAY_S))
    return OpenLoop(process, shape, LogNormal(200, 0.6), seed=seed, ends=Ends(after_s=DAY_S))


def cases(options: argparse.Namespace) -> list[Case]:
    requests = None if options.full else options.requests
    found = list[Case]()
    if options.azure:
        found.append(Case("azure-code", "l40s-8b", Slo(2.0, 0.06), lambda _: Trace(options.azure, requests=requests)))
    if options.conversation:
        found.append(
            Case("conversation", "h100-8b", Slo(4.0, 0.06), lambda _: Trace(options.conversation, requests=requests))
        )
    found.append(Case("day", "l40s-8b", Slo(2.0, 0.06), day, drawn=True))
    return [case for case in found if options.cases is None or case.name in options.cases]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversation", type=Path, help="mooncake_conversation.jsonl")
    parser.add_argument("--azure", type=Path, help="azure_code_2023.csv")
    parser.add_argument("--cases", nargs="+")
    parser.add_argument("--scalers", nargs="+", default=[OURS, *SCALERS])
    parser.add_argument("--start-ups", nargs="+", type=float, default=[100.0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--requests", type=int, default=3000, help="of a trace")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    start_ups, seeds = (START_UPS_S, 5) if options.full else (options.start_ups, options.seeds)
    began, found = time.process_time(), defaultdict[str, list[Outcome]](list)
    for case in cases(options):
        bench = Bench(case)
        setting = bench.setting()
        say(
            options.out,
            {"case": case.name, "static": setting.peak[WorkerRole.DECODE], "target": setting.target(WorkerRole.DECODE)},
        )
        for start_up_s in start_ups:
            for name in options.scalers:
                for seed in range(1, (seeds if case.drawn else 1) + 1):
                    outcome = bench.scaled(name, setting, seed, start_up_s)
                    found[f"{case.name} {start_up_s:g} {name}"].append(outcome)
                    say(options.out, line(case, name, start_up_s, seed, outcome))
    summary = {key: summarised(outcomes) for key, outcomes in found.items()}
    print(json.dumps({"bench": "planner", "runs": summary, "cpu_s": round(time.process_time() - began)}))


def line(case: Case, name: str, start_up_s: float, seed: int, outcome: Outcome) -> dict[str, Any]:
    return {
        "case": case.name,
        "scaler": name,
        "start_up_s": start_up_s,
        "seed": seed,
        "attainment": round(outcome.attainment, 4),
        "gpu_hours": round(outcome.gpu_hours, 3),
        "scale_events": outcome.scale_events,
        "ttft_p95": round(outcome.ttft.p95, 3),
        "tpot_p95": round(outcome.tpot.p95, 4),
        "requests": outcome.requests,
    }


def summarised(outcomes: list[Outcome]) -> dict[str, list[float | None]]:
    """Return mean and half width of each."""
    values = {
        "attainment": [each.attainment for each in outcomes],
        "gpu_hours": [each.gpu_hours for each in outcomes],
        "scale_events": [float(each.scale_events) for each in outcomes],
    }
    found = {name: Value.of(each) for name, each in values.items()}
    return {
        name: [round(each.mean, 4), None if math.isnan(each.half) else round(each.half, 4)]
        for name, each in found.items()
    }


def say(out: Path | None, value: dict[str, Any]) -> None:
    text = json.dumps(value)
    print(text, flush=True)
    if out is not None:
        with out.open("a", encoding="utf-8") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
