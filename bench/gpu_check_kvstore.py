"""Does the KV store work with the accelerator of this machine?  A few minutes, one engine, one line as the result.

    python bench/gpu_check_kvstore.py --model DIR --engine-python PYTHON [--cpu]

PYTHON is one that has vLLM and nothing of this project; DIR a small model's folder.  Prompts are answered with an empty
store, from its memory and from its disk; the engine's own cache is emptied in between.  Right is: the same tokens each
time, and every whole block found.  What a block costs by tier, and computing it, is what the engine measured itself.
The exit status is 1 where something is not right.  `--cpu` tries the script itself where there is no accelerator.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from bare_engine import ENGINE_PYTHON, PLUGIN, REPOSITORY, tied_to_parent
from inferplane_kvstore.app import running
from inferplane_kvstore.config import FileTier, StoreConfig
from inferplane_kvstore.testing import SECRET

LENGTHS: Final = (70, 500, 1001, 1900)
BLOCK: Final = 32
STORABLE: Final = [(length - 1) // BLOCK * BLOCK for length in LENGTHS]
TIER_BYTES: Final = 1 << 30
OUTPUT: Final = 32


@dataclass(slots=True)
class Engine:
    process: subprocess.Popen[str]

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the engine has ended; see engine.log in the folder named above")
        return line

    def ask(self, name: str) -> dict[str, Any]:
        """Have all prompts answered, and say how it went."""
        assert self.process.stdin is not None
        begun = time.perf_counter()
        self.process.stdin.write(json.dumps({"prompts": prompts(), "output": OUTPUT}) + "\n")
        self.process.stdin.flush()
        said: dict[str, Any] = json.loads(self.line())
        print(f"{name:8} {time.perf_counter() - begun:7.2f} s  found {said['cached']} of {STORABLE} tokens", flush=True)
        return said


def prompts() -> list[list[int]]:
    rng = random.Random(7)  # noqa: S311 - repeatable
    return [[rng.randrange(100, 400) for _ in range(length)] for length in LENGTHS]


@contextmanager
def engine(python: Path, model: Path, config: StoreConfig, folder: Path, *, cpu: bool) -> Generator[Engine]:
    extra = {
        "socket": str(config.socket),
        "secret_file": str(folder / "secret"),
        "lookup_deadline_s": 20.0,
        "always_fetch": True,
    }
    transfer = {
        "kv_connector": "InferplaneConnector",
        "kv_connector_module_path": "inferplane_kv_connector.connector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": extra,
    }
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
    started = Engine(process)
    try:
        started.line()
        yield started
    finally:
        process.kill()
        process.communicate()


def check(python: Path, model: Path, folder: Path, *, cpu: bool) -> bool:
    (folder / "secret").write_bytes(SECRET)
    tiers = FileTier(folder / "arena", TIER_BYTES), FileTier(folder / "slabs", TIER_BYTES)
    config = StoreConfig(folder / "kv.sock", SECRET, tiers[0], ssd=tiers[1], min_hits=1)
    begun = time.perf_counter()
    with engine(python, model, config, folder, cpu=cpu) as one:
        print(f"the engine is ready after {time.perf_counter() - begun:.0f} s", flush=True)
        with running(config) as store:
            cold = one.ask("cold")
            store.inspector.settle({})
            from_dram = one.ask("DRAM")
            blocks = store.inspector.listing({"limit": 1})["blocks"]
        config.dram.path.unlink()
        with running(config) as store:
            from_ssd = one.ask("SSD")
            told = next(iter(store.store.told.values()))
            corrupt = sum(counts.corrupt for counts in store.store.counters.tiers.values())
    same = [each["answers"] == cold["answers"] for each in (from_dram, from_ssd)]
    whole = [each["cached"] == STORABLE for each in (from_dram, from_ssd)]
    computed = (told["tokenS"] or 0.0) * told["blockTokens"]
    costs = ", ".join(f"{tier} {1000 * seconds:.2f} ms" for tier, seconds in told["blockS"].items())
    print(f"a block of {blocks[0]['bytes']} bytes: {costs}, computed {1000 * computed:.2f} ms")
    print(f"result: device {cold['device']}, same answers {same}, all blocks found {whole}, {corrupt} blocks corrupt")
    return all(same) and all(whole) and not corrupt


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=REPOSITORY / ".cache" / "models" / "tiny-llama")
    parser.add_argument("--engine-python", type=Path, default=ENGINE_PYTHON)
    parser.add_argument("--cpu", action="store_true")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kv-check-") as name:
        print(f"in {name}", flush=True)
        return int(not check(told.engine_python, told.model.resolve(), Path(name), cpu=told.cpu))


if __name__ == "__main__":
    sys.exit(main())
