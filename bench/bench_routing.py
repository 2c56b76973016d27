"""Routing policies against each other in virtual time: `python bench/bench_routing.py [--whole] [--out FILE]`.

Aggregated workers (H100, 8B model) serve generated workloads, and a recorded one with --trace.  The load is a share of
the knee of the `kv-aware` policy, found on seed 0; the runs that are judged have seeds from 1, and no setting was
chosen on those (see `tune_routing.py`).  All policies share index, filters, queue and admission.  The first quarter of
the requests warms the caches and is not counted.

A run is one line of JSON, into FILE as well; whatever FILE holds already for runs of the same size is not run again, so
an interrupted matrix goes on where it stopped.  `--tables` prints what FILE holds as Markdown.  The last line is a
summary: knees, and where another policy was better than `kv-aware` by more than the interval.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from _routing_runs import TRACE, Cell, Runs, Size
from _routing_table import losses, tables

from inferplane_simulator import Outcome
from inferplane_simulator.policies import POLICIES

SMALL = ("saas", "zipf-shift")
WHOLE = ("saas", "code", "reasoning", "agents", "zipf-shift")


class Results:
    """Lines of one size, those of earlier runs included."""

    def __init__(self, out: Path | None, size: Size) -> None:
        self._out = out
        self._size = size.document()
        kept = out.read_text(encoding="utf-8").splitlines() if out is not None and out.exists() else []
        documents = [json.loads(text) for text in kept]
        self.lines = [each for each in documents if each["size"] == self._size]

    def knee(self, workload: str) -> float | None:
        return next((each["knee_per_s"] for each in self.lines if each.get("knee_of") == workload), None)

    @property
    def runs(self) -> list[dict[str, Any]]:
        return [each for each in self.lines if "policy" in each]

    def cells(self) -> set[Cell]:
        return {Cell(each["workload"], each["load"], each["policy"], each["seed"]) for each in self.runs}

    def add(self, document: dict[str, Any]) -> None:
        line = {"size": self._size, **document}
        self.lines.append(line)
        print(json.dumps(document), flush=True)
        if self._out is not None:
            with self._out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def main() -> None:
    options = read_options()
    size = Size(options.requests, options.workers, options.profile, options.trace)
    results, began = Results(options.out, size), time.process_time()
    if options.tables:
        print("\n".join(tables(results.runs)))
        return
    knees = run_missing(Runs(size), results, list(wanted(options)))
    lost = [asdict(loss) for loss in losses(results.runs)]
    print(json.dumps({"bench": "routing", "knees": knees, "lost": lost, "cpu_s": time.process_time() - began}))


def run_missing(runs: Runs, results: Results, cells: Sequence[Cell]) -> dict[str, float]:
    """Run what is not there yet; return the knees."""
    knees = {name: results.knee(name) for name in dict.fromkeys(cell.workload for cell in cells)}
    found: dict[str, float] = {}
    for name, known in knees.items():
        found[name] = runs.knee(name) if known is None else known
        if known is None:
            results.add({"knee_of": name, "knee_per_s": found[name]})
    done = results.cells()
    for cell in cells:
        if cell not in done:
            rate = found[cell.workload] * cell.load
            results.add(line(cell, rate, runs.run(cell.workload, cell.policy, rate, cell.seed)))
    return found


def wanted(options: argparse.Namespace) -> Iterator[Cell]:
    """Name all runs, seed by seed, so that what is there at any time is balanced."""
    for seed in range(1, options.seeds + 1):
        for name in options.workloads:
            for load in options.loads:
                yield from (Cell(name, load, policy, seed) for policy in options.policies)


def line(cell: Cell, rate_per_s: float, outcome: Outcome) -> dict[str, Any]:
    return {
        **asdict(cell),
        "rate_per_s": round(rate_per_s, 3),
        "attainment": round(outcome.attainment, 4),
        "goodput_per_s": round(outcome.goodput_per_s, 3),
        "ttft_p50": round(outcome.ttft.p50, 5),
        "ttft_p95": round(outcome.ttft.p95, 5),
        "ttft_p99": round(outcome.ttft.p99, 5),
        "tpot_p95": round(outcome.tpot.p95, 5),
        "hit_share": round(outcome.hit_share, 4),
        "requests": outcome.requests,
        "ended": outcome.ended,
    }


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--whole", action="store_true", help="all workloads and loads, longer runs: hours")
    parser.add_argument("--workloads", nargs="+")
    parser.add_argument("--policies", nargs="+", default=list(POLICIES))
    parser.add_argument("--loads", nargs="+", type=float)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--requests", type=int)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--profile", default="h100-8b")
    parser.add_argument("--trace", type=Path, help="a recorded workload, in parts of --requests")
    parser.add_argument("--out", type=Path, help="JSON lines; runs that it holds are not repeated")
    parser.add_argument("--tables", action="store_true", help="run nothing: print what --out holds")
    options = parser.parse_args()
    whole = options.whole
    options.workloads = options.workloads or [*(WHOLE if whole else SMALL), *([TRACE] if options.trace else [])]
    options.loads = options.loads or ([0.5, 0.7, 0.9, 1.0, 1.1] if whole else [0.7, 1.0])
    options.requests = options.requests or (2000 if whole else 600)
    return options


if __name__ == "__main__":
    main()
