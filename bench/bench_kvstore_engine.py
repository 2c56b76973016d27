"""One real vLLM and the KV store, tier by tier and fault by fault: are the answers the same, and what do they cost.

    python bench/bench_kvstore_engine.py [--model DIR] [--redis-server PROGRAM]

The engine is started once; between phases its own prefix cache is emptied, so that only the store can help.  Every
answer of every phase is compared token for token with the first one, in float32.  Seconds depend on the machine and on
what else it does: compare those of one run.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from bare_engine import PLUGIN, REPOSITORY, BareEngine, EngineSpec, free_port
from inferplane_kv_connector.client import RETRY_S, StoreClient
from inferplane_kvstore.space import PAGE
from real_redis import find_program

LENGTHS = (70, 500, 501, 900, 1000, 1500, 2000, 3000, 3900)
DRAM, SSD = 512 << 20, 512 << 20
START_LIMIT_S = 900.0
SECRET = b"only for this benchmark"


@dataclass
class Setting:
    """Files, the store's process and the engine."""

    folder: Path
    model: Path
    redis_port: int
    engine: BareEngine | None = None
    store: subprocess.Popen[bytes] | None = None
    answers: dict[int, list[int]] = field(default_factory=dict[int, list[int]])

    @property
    def socket(self) -> Path:
        return self.folder / "kv.sock"

    def start_store(self) -> None:
        config = {
            "socket": str(self.socket),
            "secretFile": str(self.folder / "secret"),
            "dram": {"path": str(self.folder / "arena"), "capacityBytes": DRAM},
            "ssd": {"path": str(self.folder / "slabs"), "capacityBytes": SSD},
            "redis": {"url": f"127.0.0.1:{self.redis_port}"},
            "minHits": 1,
        }
        (self.folder / "secret").write_bytes(SECRET)
        (self.folder / "store.json").write_text(json.dumps(config))
        command = [sys.executable, "-m", "inferplane_kvstore", "--config", str(self.folder / "store.json")]
        with (self.folder / "store.log").open("ab") as log:
            self.store = subprocess.Popen(command, stderr=log)
        client = self.client()
        while client.ask({"op": "stat"}) is None:
            assert self.store.poll() is None, (self.folder / "store.log").read_text()[-2000:]
            client.close()
            client = self.client()
            time.sleep(0.1)
        client.close()
        time.sleep(RETRY_S)  # until the engine asks again

    def stop_store(self, number: signal.Signals = signal.SIGTERM) -> None:
        assert self.store is not None
        self.store.send_signal(number)
        self.store.wait()

    def client(self) -> StoreClient:
        return StoreClient(str(self.socket), deadline_s=300.0)

    def ask_store(self, op: str) -> dict[str, Any]:
        client = self.client()
        try:
            return client.ask({"op": op}) or {}
        finally:
            client.close()

    def start_engine(self, name: str) -> None:
        extra: dict[str, Any] = {
            "socket": str(self.socket),
            "secret_file": str(self.folder / "secret"),
            "lookup_deadline_s": 5.0,
        }
        extra["always_fetch"] = True  # short prompts of a tiny model are faster computed
        transfer = {
            "kv_connector": "InferplaneConnector",
            "kv_connector_module_path": "inferplane_kv_connector.connector",
            "kv_role": "kv_both",
            "kv_load_failure_policy": "recompute",
            "kv_connector_extra_config": extra,
        }
        environment = (("PYTHONPATH", f"{PLUGIN}:{REPOSITORY / 'kvstore'}"), ("VLLM_SERVER_DEV_MODE", "1"))
        arguments = ("--kv-transfer-config", json.dumps(transfer))
        spec = EngineSpec(name, "decode", self.model, ("m",), 256 << 20, arguments=arguments, environment=environment)
        self.engine = BareEngine.start(spec, self.folder)
        print(f"{name} is ready after {self.engine.wait_ready(START_LIMIT_S):.0f} s", flush=True)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        assert self.engine is not None
        request = urllib.request.Request(  # noqa: S310 - a local address
            self.engine.url + path, json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=600) as answer:  # noqa: S310 - as above
            return json.loads(answer.read() or b"null")

    def phase(self, name: str, *, salt: str = "", lengths: tuple[int, ...] = LENGTHS) -> None:
        """Empty the engine's cache, ask all prompts, compare, print."""
        if name != "cold":
            self.post("/reset_prefix_cache", {})
        cached = wrong = prompt_tokens = 0
        took: dict[int, float] = {}
        for length in lengths:
            body = {"model": "m", "prompt": prompt(length), "temperature": 0, "ignore_eos": True}
            if salt:
                body["cache_salt"] = salt
            begun = time.monotonic()
            first = self.post("/v1/completions", {**body, "max_tokens": 1})
            took[length] = time.monotonic() - begun
            cached += first["usage"]["prompt_tokens_details"]["cached_tokens"] or 0
            prompt_tokens += length // 32 * 32
            whole = self.post("/v1/completions", {**body, "max_tokens": 32, "return_token_ids": True})
            tokens = whole["choices"][0]["token_ids"]
            wrong += tokens != self.answers.setdefault(length, tokens)
        times = " ".join(f"{length}:{seconds:.2f}s" for length, seconds in took.items())
        print(
            f"{name:34} wrong {wrong}/{len(lengths)}  cached {cached}/{prompt_tokens}  first token {times}", flush=True
        )
        self.ask_store("settle")
        counters = self.ask_store("stat").get("counters")
        if counters:
            corrupt = {tier: counts["corrupt"] for tier, counts in counters["tiers"].items()}
            hits = {tier: counts["hits"] for tier, counts in counters["tiers"].items()}
            print(f"{'':34} hits {hits} corrupt {corrupt}", flush=True)


def prompt(length: int) -> list[int]:
    rng = random.Random(length)  # noqa: S311 - repeatable
    return [rng.randrange(100, 400) for _ in range(length)]


def flip(path: Path, rng: random.Random, share: float) -> int:
    """Flip a bit in a share of the stored blocks, somewhere in their bytes; return in how many."""
    from inferplane_kv_connector.envelope import HEADER_BYTES, unpack  # noqa: PLC0415  only here

    flipped = 0
    with path.open("r+b") as file:
        for offset in range(0, path.stat().st_size, PAGE):
            file.seek(offset)
            header = unpack(file.read(HEADER_BYTES))
            if header is not None and rng.random() < share:
                at = offset + HEADER_BYTES + rng.randrange(header.label.size)
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 1 << rng.randrange(8)]))
                flipped += 1
    return flipped


@contextmanager
def redis(program: str, port: int) -> Generator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--maxmemory", "1gb"],
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def run(setting: Setting, server: subprocess.Popen[bytes]) -> None:
    rng = random.Random(1)  # noqa: S311 - repeatable
    arena, slabs = setting.folder / "arena", setting.folder / "slabs"
    setting.start_store()
    setting.start_engine("first")
    setting.phase("warming up", lengths=(64,))
    setting.phase("cold")
    setting.phase("DRAM")
    setting.phase("another tenant (salt)", salt="ip-0011223344556677-00")
    setting.stop_store()
    arena.unlink()
    setting.start_store()
    setting.phase("SSD")
    setting.stop_store()
    arena.unlink()
    slabs.unlink()
    setting.start_store()
    setting.phase("Redis")
    setting.phase("DRAM again")
    print(f"bits flipped in {flip(arena, rng, 0.05)} blocks in DRAM")
    setting.phase("DRAM, 5 % of the blocks corrupt")
    setting.stop_store(signal.SIGKILL)
    arena.unlink()
    print(f"bits flipped in {flip(slabs, rng, 0.05)} blocks on SSD")
    setting.start_store()
    setting.phase("SSD, 5 % of the blocks corrupt")
    setting.stop_store()
    arena.unlink()
    os.truncate(slabs, slabs.stat().st_size // 2)
    setting.start_store()
    setting.phase("SSD file cut in half")
    setting.stop_store()
    arena.unlink()
    slabs.unlink()
    server.kill()
    setting.start_store()
    setting.phase("Redis killed")
    setting.phase("DRAM, Redis killed")
    setting.stop_store(signal.SIGKILL)
    setting.phase("the store killed")
    setting.start_store()
    assert setting.engine is not None
    os.killpg(setting.engine.process.pid, signal.SIGKILL)
    setting.engine.process.wait()
    setting.start_engine("second")
    setting.phase("engine killed and restarted")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=REPOSITORY / ".cache" / "models" / "tiny-llama")
    parser.add_argument("--redis-server", default=str(find_program("redis-server") or "redis-server"))
    told = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kv-"))
    setting = Setting(folder, told.model.resolve(), free_port())
    try:
        with redis(told.redis_server, setting.redis_port) as server:
            run(setting, server)
    finally:
        if setting.engine is not None:
            setting.engine.stop()
        if setting.store is not None:
            setting.store.terminate()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
