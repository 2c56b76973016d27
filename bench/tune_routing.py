"""Settings of the `kv-aware` cost against each other: `python bench/tune_routing.py --set own_latency=0.1,0.3`.

Runs every combination of the given values on seeds from 101, which `bench_routing.py` never judges on, and prints one
line of JSON for each: the goodput and the 95th percentile of TTFT, relative to the first combination and averaged
geometrically over workloads, loads and seeds.  Loads are requests (or sessions) a second, given with each workload.
"""

import argparse
import itertools
import json
import math
import statistics
from collections.abc import Iterator
from typing import Any

from _routing_runs import Runs, Size

from inferplane_router.core.cost import CostSettings
from inferplane_simulator import Outcome

FIRST_SEED = 101


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", nargs="+", required=True, metavar="FIELD=VALUE,...", help="fields of CostSettings")
    parser.add_argument("--at", nargs="+", default=["saas=12", "zipf-shift=32"], metavar="WORKLOAD=RATE")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=600)
    options = parser.parse_args()
    size = Size(options.requests, 4, "h100-8b")
    scenes = [(name, float(rate)) for name, _, rate in (each.partition("=") for each in options.at)]
    first: list[Outcome] = []
    for chosen in combinations(options.set):
        runs = Runs(size, CostSettings(**chosen))
        seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
        outcomes = [runs.run(name, "kv-aware", rate, seed) for name, rate in scenes for seed in seeds]
        first = first or outcomes
        print(json.dumps({"settings": chosen, **against(outcomes, first)}), flush=True)


def combinations(texts: list[str]) -> Iterator[dict[str, float]]:
    parts = [text.partition("=") for text in texts]
    fields = [(name, [float(value) for value in values.split(",")]) for name, _, values in parts]
    for values in itertools.product(*(each for _, each in fields)):
        yield dict(zip((name for name, _ in fields), values, strict=True))


def against(outcomes: list[Outcome], first: list[Outcome]) -> dict[str, Any]:
    pairs = list(zip(outcomes, first, strict=True))
    return {
        "goodput": round(_ratio([(one.goodput_per_s, other.goodput_per_s) for one, other in pairs]), 4),
        "ttft_p95": round(_ratio([(one.ttft.p95, other.ttft.p95) for one, other in pairs]), 4),
        "hit_share": round(statistics.mean(one.hit_share for one in outcomes), 4),
    }


def _ratio(pairs: list[tuple[float, float]]) -> float:
    return math.exp(statistics.mean(math.log(one / other) for one, other in pairs))


if __name__ == "__main__":
    main()
