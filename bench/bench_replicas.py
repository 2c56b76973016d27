"""Router Pods that share nothing: what that costs, and how soon one that starts anew is whole; one JSON line last.

    python bench/bench_replicas.py [--seeds N] [--requests N] [--agents N] [--held N]

Hits first, in virtual time (`core.testing_replicas`): the share of all prompts' tokens that were cached where the
routers sent them, with one router, with two, and with two of which one is killed and started anew.  `points_lost` is
by how much two hit less than one, in points of a hundred, at the worst seed.
Then real streams over loopback: how long a router that starts needs until it has `--held` blocks of each of `--agents`
agents, as a clock tells it and as CPU time of the router; the agents run on the same machine.
"""

import argparse
import json
from collections.abc import Sequence
from statistics import fmean

from _event_stream import Load, follow

from inferplane_router.core.testing_replicas import hit_rate

_POINTS = 100.0


def measure_hits(seeds: Sequence[int], requests: int) -> dict[str, float]:
    rows: list[tuple[float, float, float]] = []
    for seed in seeds:
        one, two = (hit_rate(routers=routers, requests=requests, seed=seed) for routers in (1, 2))
        rows.append((one, two, hit_rate(routers=2, killed=True, requests=requests, seed=seed)))
        print(json.dumps({"seed": seed, "one": one, "two": two, "two_one_killed": rows[-1][2]}), flush=True)
    names = ("hit_rate_one", "hit_rate_two", "hit_rate_two_one_killed")
    means = {name: round(fmean(row[at] for row in rows), 4) for at, name in enumerate(names)}
    lost = {
        "points_lost": max(one - two for one, two, _ in rows),
        "points_lost_one_killed": max(one - killed for one, _, killed in rows),
    }
    return means | {name: round(_POINTS * value, 2) for name, value in lost.items()}


def measure_refill(agents: int, held: int) -> dict[str, float]:
    refill, _ = follow(Load(agents=agents, held=held))
    return {
        "refill_blocks": refill.changes,
        "refill_s": round(refill.wall_s, 2),
        "refill_cpu_s": round(refill.router_cpu_s, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=900)
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--held", type=int, default=100_000)
    options = parser.parse_args()
    hits = measure_hits(range(3, 3 + options.seeds), options.requests)
    print(json.dumps({"bench": "replicas", **hits, **measure_refill(options.agents, options.held)}))


if __name__ == "__main__":
    main()
