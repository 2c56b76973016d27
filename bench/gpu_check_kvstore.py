"""Does the KV store work with the accelerator of this machine?  A few minutes, one engine, one line as the result.

    python bench/gpu_check_kvstore.py --model DIR --engine-python PYTHON [--limit SECONDS] [--cpu]

PYTHON is one that has vLLM and nothing of this project; DIR a small model's folder.  Prompts are answered with an empty
store, from its memory and from its disk; the engine's own cache is emptied in between.  Right is: the same tokens each
time, and every whole block found.  What a block costs by tier, and computing it, is what the engine measured itself.
The exit status is 1 where something is not right.  `--cpu` tries the script itself where there is no accelerator.

It never takes longer than `--limit` (eight minutes).  Of these the engine's start is the one part that nobody knows
before; each round takes seconds, and one for which too little is left is left out, which the result says (status 2).
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from bare_engine import ENGINE_PYTHON, PLUGIN, REPOSITORY, tied_to_parent
from inferplane_kvstore.app import Running, running
from inferplane_kvstore.config import FileTier, StoreConfig
from inferplane_kvstore.testing import SECRET
from store_connector import transfer_config

LENGTHS: Final = (70, 500, 1001, 1900)
BLOCK: Final = 32
STORABLE: Final = [(length - 1) // BLOCK * BLOCK for length in LENGTHS]
TIER_BYTES: Final = 1 << 30
OUTPUT: Final = 32


@dataclass(slots=True)
class Budget:
    """How long all of it may take."""

    limit_s: float
    began: float
    longest_round_s: float = 0.0

    @property
    def left_s(self) -> float:
        return self.limit_s - (time.perf_counter() - self.began)

    @property
    def allows_a_round(self) -> bool:
        return self.left_s > 2 * self.longest_round_s


@dataclass(slots=True)
class Engine:
    process: subprocess.Popen[str]
    budget: Budget

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the engine has ended or the time is over; see engine.log in the folder named above")
        return line

    def ask(self, name: str) -> dict[str, Any]:
        """Have all prompts answered, and say how it went."""
        assert self.process.stdin is not None
        begun = time.perf_counter()
        self.process.stdin.write(json.dumps({"prompts": prompts(), "output": OUTPUT}) + "\n")
        self.process.stdin.flush()
        said: dict[str, Any] = json.loads(self.line())
        took = time.perf_counter() - begun
        self.budget.longest_round_s = max(self.budget.longest_round_s, took)
        print(f"{name:8} {took:7.2f} s  found {said['cached']} of {STORABLE} tokens", flush=True)
        return said


def prompts() -> list[list[int]]:
    rng = random.Random(7)  # noqa: S311 - repeatable
    return [[rng.randrange(100, 400) for _ in range(length)] for length in LENGTHS]


@contextmanager
def engine(
    python: Path, model: Path, config: StoreConfig, folder: Path, budget: Budget, *, cpu: bool
) -> Generator[Engine]:
    """Run an engine, which ends when the time is over."""
    transfer = transfer_config(config.socket, folder / "secret", lookup_deadline_s=20.0)
    paths = [str(REPOSITORY / "kvstore"), *([str(PLUGIN)] if cpu else [])]
    more = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    command = [*tied_to_parent("KILL"), str(python), str(REPOSITORY / "tools" / "one_engine.py")]
    with (folder / "engine.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--model", str(model), "--kv-transfer", json.dumps(transfer)],
            env={**os.environ, **more, "PYTHONPATH": ":".join(paths)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    started = Engine(process, budget)
    watch = threading.Timer(budget.left_s, process.kill)
    watch.start()
    try:
        started.line()
        yield started
    finally:
        watch.cancel()
        process.kill()
        process.communicate()


def check(python: Path, model: Path, folder: Path, limit_s: float, *, cpu: bool) -> int:
    """Return the exit status."""
    (folder / "secret").write_bytes(SECRET)
    tiers = FileTier(folder / "arena", TIER_BYTES), FileTier(folder / "slabs", TIER_BYTES)
    config = StoreConfig(folder / "kv.sock", SECRET, tiers[0], ssd=tiers[1], min_hits=1)
    budget = Budget(limit_s, time.perf_counter())
    warm: dict[str, dict[str, Any]] = {}
    corrupt = 0
    with engine(python, model, config, folder, budget, cpu=cpu) as one:
        print(f"the engine is ready, {budget.left_s:.0f} of {limit_s:.0f} s are left", flush=True)
        with running(config) as store:
            cold = one.ask("cold")
            store.inspector.settle({})
            warm |= {"DRAM": one.ask("DRAM")} if budget.allows_a_round else {}
            (block,) = store.inspector.listing({"limit": 1})["blocks"]
            corrupt += _corrupt(store)
        config.dram.path.unlink()
        with running(config) as store:
            warm |= {"SSD": one.ask("SSD")} if budget.allows_a_round else {}
            corrupt += _corrupt(store)
            costs = _costs(store)
    same = {tier: said["answers"] == cold["answers"] for tier, said in warm.items()}
    whole = {tier: said["cached"] == STORABLE for tier, said in warm.items()}
    print(f"a block of {block['bytes']} bytes: {costs}")
    print(f"result: device {cold['device']}, same answers {same}, all blocks found {whole}, {corrupt} blocks corrupt")
    if len(warm) < len(tiers):
        print(f"left out for want of time: {', '.join({'DRAM', 'SSD'} - set(warm))}")
        return 2
    return int(not all([*same.values(), *whole.values(), not corrupt]))


def _corrupt(store: Running) -> int:
    return sum(counts.corrupt for counts in store.store.counters.tiers.values())


def _costs(store: Running) -> str:
    """Say what a block costs by tier, and computing it, as the engine measured it."""
    told = next(iter(store.store.told.values()), None)
    if told is None:
        return "not measured"
    computed = (told["tokenS"] or 0.0) * told["blockTokens"]
    tiers = [f"{tier} {1000 * seconds:.2f} ms" for tier, seconds in told["blockS"].items()]
    return ", ".join([*tiers, f"computed {1000 * computed:.2f} ms"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=REPOSITORY / ".cache" / "models" / "tiny-llama")
    parser.add_argument("--engine-python", type=Path, default=ENGINE_PYTHON)
    parser.add_argument("--limit", type=float, default=480.0, help="seconds for all of it")
    parser.add_argument("--cpu", action="store_true")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kv-check-") as name:
        print(f"in {name}", flush=True)
        return check(told.engine_python, told.model.resolve(), Path(name), told.limit, cpu=told.cpu)


if __name__ == "__main__":
    sys.exit(main())
