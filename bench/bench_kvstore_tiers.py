"""What a first token costs with real vLLM: computed, and from each tier of the KV store.

    python bench/bench_kvstore_tiers.py [--model DIR] [--lengths TOKENS ...] [--rounds N] [--lmcache PYTHON]

In each round new prompts are computed, then asked again with their blocks in memory, then on disk alone, then in Redis
alone.  The table has the median of the rounds; the last line is the same as JSON.  Every answer is compared token for
token with the computed one: the exit status is 1 where one is wrong, a request failed, or a block was not there.

With `--lmcache` two engines with an LMCache server each, over the same Redis, get the same prompts afterwards: the
first computes and finds them in its server's memory, the second finds them in Redis.  PYTHON is that of an environment
with vLLM 0.32 and LMCache 0.5.6.  LMCache keeps chunks of 256 tokens; how many were found, each line says.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _kvstore_setting import TINY, Setting, setting, the_redis_server
from _lmcache import lmcache

LENGTHS = (500, 1000, 2000, 3000, 3900)
BLOCK = 32
WRITTEN_S = 2.0
"""For how long LMCache may write to Redis after an answer; it says nowhere when it has."""
Times = dict[str, dict[int, list[float]]]
"""Seconds by tier and length."""


def nothing(_: Setting) -> None:
    """Leave the store as it is."""


TIERS: dict[str, Callable[[Setting], None]] = {
    "computed": nothing,
    "DRAM": nothing,
    "SSD": lambda it: it.start_anew(it.arena),
    "Redis": lambda it: it.start_anew(it.arena, it.slabs),
}
"""What is done before each phase."""


def measured(it: Setting, rounds: int) -> tuple[Times, int]:
    """Return the times, and how many tokens of whole blocks were not found."""
    times: Times = {tier: {length: [] for length in it.lengths} for tier in TIERS}
    missed = 0
    storable = sum((length - 1) // BLOCK * BLOCK for length in it.lengths)
    for number in range(1, rounds + 1):
        for tier, prepare in TIERS.items():
            prepare(it)
            phase = it.phase(f"{tier}, round {number}", variant=number)
            missed += abs(phase.cached - (0 if tier == "computed" else storable))
            for length, took in phase.first_token_s.items():
                times[tier][length].append(took)
    return times, missed


def measured_lmcache(it: Setting, rounds: int, python: Path) -> Times:
    ours, names = it.engine, ("LMCache: memory", "LMCache: Redis")
    times: Times = {name: {length: [] for length in it.lengths} for name in names}
    try:
        with lmcache(python, it, "lmcache-1") as first, lmcache(python, it, "lmcache-2") as second:
            for number in range(1, rounds + 1):
                it.engine = first
                it.phase(f"LMCache: computed, round {number}", variant=number)
                time.sleep(WRITTEN_S)
                for name, it.engine in zip(names, (first, second), strict=True):
                    for length, took in it.phase(f"{name}, round {number}", variant=number).first_token_s.items():
                        times[name][length].append(took)
    finally:
        it.engine = ours
    return times


def table(times: Times) -> str:
    rows = [" | ".join(["prompt tokens", *times]), "|".join(["---"] * (len(times) + 1))]
    for length in next(iter(times.values())):
        cells = [f"{1000 * statistics.median(times[tier][length]):.0f} ms" for tier in times]
        rows.append(" | ".join([str(length), *cells]))
    return "\n".join(f"| {row} |" for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=TINY)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--capacity", type=int, default=1 << 30, help="bytes of each tier")
    parser.add_argument("--redis-server", default=the_redis_server())
    parser.add_argument("--lmcache", type=Path, metavar="PYTHON")
    told = parser.parse_args()
    with setting(told.model, told.redis_server, told.lengths, told.capacity) as it:
        it.start_store()
        it.start_engine("engine")
        it.phase("warming up", lengths=(64,))
        times, missed = measured(it, told.rounds)
        if told.lmcache is not None:
            times |= measured_lmcache(it, told.rounds, told.lmcache.absolute())
    medians = {tier: {length: statistics.median(each) for length, each in of.items()} for tier, of in times.items()}
    print(table(times))
    print(f"{it.asked} requests, {it.wrong} wrong, {it.failed} failed, {missed} tokens not where they should be")
    print(json.dumps({"bench": "kvstore_tiers", "model": told.model.name, "first_token_s": medians}))
    return int(bool(it.wrong or it.failed or missed))


if __name__ == "__main__":
    sys.exit(main())
