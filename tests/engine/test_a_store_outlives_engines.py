"""Two vLLMs, one after the other, with a KV store: the same answers from every tier, and hits after `kill -9`."""

import json
import os
import random
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from bare_engine import ENGINE_PYTHON, PLUGIN, REPOSITORY, tied_to_parent
from inferplane_engine.identity import KeySpace, hash_blocks, seed
from inferplane_kv_connector.client import StoreClient
from inferplane_kvstore.app import running
from inferplane_kvstore.config import StoreConfig
from inferplane_kvstore.testing import SECRET, small_config
from store_connector import transfer_config

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]
LENGTHS = (70, 500, 1001)
BLOCK = 32
STORABLE = [(length - 1) // BLOCK * BLOCK for length in LENGTHS]
"""Tokens in whole blocks; the last one is always the engine's."""


def prompts() -> list[list[int]]:
    rng = random.Random(7)
    return [[rng.randrange(100, 400) for _ in range(length)] for length in LENGTHS]


def watch(config: StoreConfig) -> set[int]:
    """Return what a store tells routers of."""
    client = StoreClient(str(config.socket), deadline_s=20.0)
    said = client.ask({"op": "watch"})
    client.close()
    assert said is not None
    return {mark for packed in said["stored"].values() for mark in memoryview(bytes.fromhex(packed)).cast("Q")}


@dataclass(slots=True)
class OneEngine:
    process: subprocess.Popen[str]

    def ask(self) -> tuple[list[list[int]], list[int]]:
        """Return the answers to all prompts and how many tokens of each were not computed."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"prompts": prompts(), "output": 24}) + "\n")
        self.process.stdin.flush()
        said = json.loads(self.line())
        return said["answers"], said["cached"]

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the engine has ended; see its log"
        return line


@contextmanager
def engine(folder: Path, model: Path, config: StoreConfig) -> Generator[OneEngine]:
    transfer = transfer_config(config.socket, folder / "secret", lookup_deadline_s=20.0)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{PLUGIN}:{REPOSITORY / 'kvstore'}",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    }
    command = [*tied_to_parent("KILL"), str(ENGINE_PYTHON), str(REPOSITORY / "tools" / "one_engine.py")]
    command += ["--model", str(model), "--kv-transfer", json.dumps(transfer)]
    with (folder / "engine.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    started = OneEngine(process)
    try:
        assert started.line() == "ready\n"
        yield started
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.usefixtures("engine_here")
def test_answers_are_the_same_from_every_tier_and_a_killed_engine_finds_its_blocks(
    tmp_path: Path, model_folder: Path
) -> None:
    (tmp_path / "secret").write_bytes(SECRET)
    config = small_config(tmp_path, dram=64 << 20, ssd=64 << 20)
    with engine(tmp_path, model_folder, config) as first:
        with running(config) as store:
            cold, computed = first.ask()
            store.inspector.settle({})
            from_dram, in_dram = first.ask()
        config.dram.path.unlink()
        with running(config) as store:
            from_ssd, in_ssd = first.ask()
            ssd_hits = store.store.counters.tiers["ssd"].hits
            (told,) = store.store.told.values()
        assert (computed, in_dram, in_ssd) == ([0] * len(LENGTHS), STORABLE, STORABLE)
        assert from_dram == cold
        assert from_ssd == cold
        assert told["tokenS"] > 0
        assert set(told["blockS"]) == {"dram", "ssd"}
        assert ssd_hits * BLOCK >= sum(STORABLE)
    with running(config), engine(tmp_path, model_folder, config) as second:
        again, found = second.ask()
        watched = watch(config)

    assert again == cold
    assert sum(found) >= 0.95 * sum(STORABLE)
    for prompt in prompts():
        names = hash_blocks(np.array(prompt, np.int32), BLOCK, seed(KeySpace(str(model_folder), "", BLOCK)))
        assert set(names.tolist()) <= watched
