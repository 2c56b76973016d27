"""How many blocks each eviction policy finds, beside a cache that knows the future.

    python bench/bench_kvstore_policies.py [--trace FILE] [--capacity BLOCKS ...]

Generated mixes: favourites by Zipf's law, favourites between scans, conversations, a loop larger than the cache.  A
trace is JSON lines with `hash_ids` (or `blocks`), the blocks of one request in order, as the Mooncake traces have them.
A cache here holds blocks of one size and takes in every block; seeds are fixed, so figures repeat to the digit.
"""

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from inferplane_kvstore.policies import DEFAULT_POLICY, POLICIES
from inferplane_kvstore.sketch import FrequencySketch
from tests.kvstore.mixes import block, conversations, favourites_between_scans, ideal_hits, zipf

MIXES: dict[str, Callable[[random.Random], list[int]]] = {
    "zipf 0.7": lambda rng: zipf(10_000, 0.7, 60_000, rng),
    "zipf 0.9": lambda rng: zipf(10_000, 0.9, 60_000, rng),
    "zipf 1.1": lambda rng: zipf(10_000, 1.1, 60_000, rng),
    "favourites and scans": lambda rng: favourites_between_scans(rng, 20),
    "conversations": lambda rng: conversations(rng, 8000),
    "loop": lambda _: list(range(2500)) * 24,
}
SEED = 7


def hits(policy: str, asked: Sequence[int], capacity: int) -> int:
    sketch = FrequencySketch(capacity)
    order, held, count = POLICIES[policy](sketch), set[bytes](), 0
    for key in map(block, asked):
        sketch.record(key)
        if key in held:
            count += 1
            order.touch(key)
            continue
        if len(held) >= capacity:
            held.discard(order.victim() or b"")
        held.add(key)
        order.insert(key)
    return count


def traced(path: Path) -> Iterable[int]:
    with path.open() as lines:
        for line in lines:
            row = json.loads(line)
            yield from row.get("hash_ids") or row.get("blocks") or ()


def compare(name: str, asked: Sequence[int], capacity: int) -> float:
    """Print a line; return how many points the default is behind the best."""
    ideal = ideal_hits(asked, capacity) / len(asked)
    reached = {policy: hits(policy, asked, capacity) / len(asked) for policy in POLICIES}
    behind = 100 * (max(reached.values()) - reached[DEFAULT_POLICY])
    cells = " | ".join(f"{100 * reached[policy]:.1f}" for policy in POLICIES)
    print(f"| {name} | {capacity} | {len(asked)} | {100 * ideal:.1f} | {cells} | {behind:.1f} |", flush=True)
    return behind


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, action="append", default=[])
    parser.add_argument("--capacity", type=int, nargs="+", default=[500, 2000])
    parser.add_argument("--trace-capacity", type=int, nargs="+", default=[2000, 10_000, 40_000])
    told = parser.parse_args()
    print(f"| requests | cache | asked | ideal | {' | '.join(POLICIES)} | behind |")
    print("|---|---|---|---|" + "---|" * (len(POLICIES) + 1))
    behind = [
        compare(name, made(random.Random(SEED)), capacity)  # noqa: S311 - repeatable
        for name, made in MIXES.items()
        for capacity in told.capacity
    ]
    for path in told.trace:
        asked = list(traced(path))
        behind += [compare(path.stem, asked, capacity) for capacity in told.trace_capacity]
    print(json.dumps({"bench": "kvstore_policies", "default": DEFAULT_POLICY, "most_behind_points": max(behind)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
