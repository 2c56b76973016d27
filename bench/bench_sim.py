"""How much faster than real time the simulated engine runs: stepping exactly, and skipping ahead.

CPU time of the one thread is compared with virtual time.  One H100 with an 8B model gets chats of 800 tokens in and
250 out, 6 a second (Poisson, seeded).  `times` is the planner's mode: times and blocks, without contents and events;
`contents` also computes every token and announces every block, as the server does.

    python bench/bench_sim.py [--seconds 120]
"""

import argparse
import gc
import json
import time
from random import Random

from inferplane_engine.profiles import PROFILES
from inferplane_engine.sim.config import EngineConfig
from inferplane_engine.sim.content import Vocabulary
from inferplane_engine.sim.engine import SimEngine
from inferplane_engine.sim.events import EngineRequest, Finished, Tokens

RATE = 6.0
PROMPT = 800
OUTPUT = 250


def workload(seconds: float) -> list[tuple[float, EngineRequest]]:
    rng = Random(1)  # noqa: S311  reproducible, not secret
    now = 0.0
    arrivals: list[tuple[float, EngineRequest]] = []
    while True:
        now += rng.expovariate(RATE)
        if now > seconds:
            return arrivals
        length = max(1, round(rng.gammavariate(4, PROMPT / 4)))
        shared = rng.randrange(20) * 100_000
        prompt = tuple(shared + index if index < length // 2 else rng.randrange(1000) for index in range(length))
        output = max(1, round(rng.gammavariate(4, OUTPUT / 4)))
        arrivals.append((now, EngineRequest(f"r{len(arrivals)}", prompt, output, ignore_eos=True)))


def simulate(arrivals: list[tuple[float, EngineRequest]], *, exact: bool, content: bool) -> dict[str, object]:
    """Run the workload as a simulator would: from event to event."""
    profile = PROFILES["h100-8b"]
    blocks = profile.kv_capacity_tokens // 16
    config = EngineConfig(
        blocks=blocks, max_num_batched_tokens=8192, exact=exact, content=content, cache_events=content
    )
    engine = SimEngine(config, profile, Vocabulary(tuple(range(100)), eos=1000))
    said = 0
    ends: list[float] = []
    gc.collect()
    begun = time.process_time()  # the pool is made: a simulation makes it once
    pending = iter(arrivals)
    following = next(pending, None)
    while True:
        due = engine.next_event_at()
        if following is not None and (due is None or following[0] <= due):
            events = engine.advance(following[0])
            engine.submit(following[1], following[0])
            following = next(pending, None)
        elif due is not None:
            events = engine.advance(due)
        else:
            break
        for event in events:
            if isinstance(event, Tokens):
                said += len(event.tokens)
            elif isinstance(event, Finished):
                ends.append(event.at)
    taken = time.process_time() - begun
    steps = engine.gauges().steps
    return {
        "x_real_time": round(ends[-1] / taken, 1),
        "steps_per_s": round(steps / taken),
        "tokens_per_s": round(said / taken),
        "mean_batch": round(said / steps, 1),
        "checksum": round(sum(ends), 6),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=120.0, help="virtual time during which requests arrive")
    arrivals = workload(parser.parse_args().seconds)
    result: dict[str, object] = {"bench": "sim", "requests": len(arrivals), "profile": "h100-8b"}
    for content in (False, True):
        name = "contents" if content else "times"
        exact = simulate(arrivals, exact=True, content=content)
        skipping = simulate(arrivals, exact=False, content=content)
        result[name] = {"exact": exact, "skipping": skipping, "equal": exact["checksum"] == skipping["checksum"]}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
