"""A KV store, a Redis and one real vLLM, as the benches of the store use them.

The engine is started once; before each phase its own prefix cache is emptied, so that only the store can help.  Every
answer is compared token for token with the first one to the same prompt, in float32.
"""

import contextlib
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from bare_engine import ENGINE_PYTHON, PLUGIN, REPOSITORY, BareEngine, EngineSpec, tied_to_parent
from inferplane_kv_connector.client import RETRY_S, StoreClient
from real_redis import RealRedis, find_program
from store_connector import transfer_config

TINY = REPOSITORY / ".cache" / "models" / "tiny-llama"
START_LIMIT_S = 900.0
SECRET = b"only for this benchmark"
logging.getLogger("vllm.inferplane_kv").setLevel(logging.ERROR)  # that a store which starts does not answer yet
_BLOCK = 32
_OUTPUT = 32
_CACHE_BYTES = 256 << 20
"""Of the engine's own."""


@dataclass(frozen=True, slots=True)
class Phase:
    """What came of asking all prompts once."""

    cached: int
    """Tokens that the engine did not compute."""
    first_token_s: dict[int, float]
    """By length of the prompt."""


@dataclass
class Setting:
    """Files, the store's process and the engine."""

    folder: Path
    model: Path
    redis: RealRedis
    lengths: Sequence[int]
    capacity: int
    """Bytes of memory, and as many on disk."""
    engine: BareEngine | None = None
    store: subprocess.Popen[bytes] | None = None
    answers: dict[tuple[int, int], list[int]] = field(default_factory=dict[tuple[int, int], list[int]])
    asked: int = 0
    wrong: int = 0
    failed: int = 0

    @property
    def socket(self) -> Path:
        return self.folder / "kv.sock"

    @property
    def arena(self) -> Path:
        # on a tmpfs, as it is in use: elsewhere each look-up would wait for a disk that the store is not measured by
        return Path("/dev/shm") / self.folder.name  # noqa: S108 - memory is wanted; the name is this run's

    @property
    def slabs(self) -> Path:
        return self.folder / "slabs"

    def start_store(self, *, disk_bytes: int | None = None) -> None:
        config = {
            "socket": str(self.socket),
            "secretFile": str(self.folder / "secret"),
            "dram": {"path": str(self.arena), "capacityBytes": self.capacity},
            "ssd": {"path": str(self.slabs), "capacityBytes": disk_bytes or self.capacity},
            "redis": {"url": f"127.0.0.1:{self.redis.port}"},
            "minHits": 1,
        }
        (self.folder / "secret").write_bytes(SECRET)
        (self.folder / "store.json").write_text(json.dumps(config))
        command = [sys.executable, "-m", "inferplane_kvstore", "--config", str(self.folder / "store.json")]
        with (self.folder / "store.log").open("ab") as log:
            self.store = subprocess.Popen([*tied_to_parent("TERM"), *command], stderr=log)
        while not self.ask_store("stat"):
            assert self.store.poll() is None, (self.folder / "store.log").read_text()[-2000:]
            time.sleep(0.1)
        time.sleep(RETRY_S)  # until the engine asks again

    def stop_store(self, number: signal.Signals = signal.SIGTERM) -> None:
        assert self.store is not None
        self.store.send_signal(number)
        self.store.wait()

    def start_anew(self, *without: Path) -> None:
        """Let the store end and begin again without these files."""
        self.stop_store()
        for path in without:
            path.unlink()
        self.start_store()

    def client(self) -> StoreClient:
        return StoreClient(str(self.socket), deadline_s=300.0)

    def ask_store(self, op: str) -> dict[str, Any]:
        client = self.client()
        try:
            return client.ask({"op": op}) or {}
        finally:
            client.close()

    def start_engine(self, name: str) -> None:
        transfer = transfer_config(self.socket, self.folder / "secret", lookup_deadline_s=5.0)
        environment = (("PYTHONPATH", f"{PLUGIN}:{REPOSITORY / 'kvstore'}"), ("VLLM_SERVER_DEV_MODE", "1"))
        self.engine = started(name, self.model, self.folder, transfer, environment)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        assert self.engine is not None
        request = urllib.request.Request(  # noqa: S310 - a local address
            self.engine.url + path, json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=600) as answer:  # noqa: S310 - as above
            return json.loads(answer.read() or b"null")

    def complete(self, body: dict[str, Any]) -> Any:
        """Ask for an answer; None, and counted, where the request fails."""
        self.asked += 1
        try:
            return self.post("/v1/completions", body)
        except (OSError, ValueError) as error:
            self.failed += 1
            print(f"a request failed: {error}", flush=True)
            return None

    def phase(self, name: str, *, salt: str = "", lengths: Sequence[int] = (), variant: int = 0) -> Phase:
        """Empty the engine's cache, ask all prompts, compare, print; `variant` tells sets of prompts apart."""
        lengths = lengths or self.lengths
        self.post("/reset_prefix_cache", {})
        wrong, failed, cached = self.wrong, self.failed, 0
        took: dict[int, float] = {}
        for length in lengths:
            body = {"model": "m", "prompt": prompt(length, variant), "temperature": 0, "ignore_eos": True}
            found, took[length] = self._asked({**body, **({"cache_salt": salt} if salt else {})}, (length, variant))
            cached += found
        whole = sum(length // _BLOCK * _BLOCK for length in lengths)
        print(
            f"{name:34} wrong {self.wrong - wrong}/{len(lengths)}  failed {self.failed - failed}  "
            f"cached {cached}/{whole}  first token {_spelt(took)}",
            flush=True,
        )
        self._tell_counters()
        return Phase(cached, took)

    def _asked(self, body: dict[str, Any], which: tuple[int, int]) -> tuple[int, float]:
        """Return how many tokens were not computed, and the seconds until the first one."""
        begun = time.monotonic()
        first = self.complete({**body, "max_tokens": 1})
        took = time.monotonic() - begun
        whole = self.complete({**body, "max_tokens": _OUTPUT, "return_token_ids": True})
        if first is None or whole is None:
            return 0, took
        tokens = whole["choices"][0]["token_ids"]
        self.wrong += tokens != self.answers.setdefault(which, tokens)
        return first["usage"]["prompt_tokens_details"]["cached_tokens"] or 0, took

    def _tell_counters(self) -> None:
        self.ask_store("settle")
        counters = self.ask_store("stat").get("counters")
        if counters:
            corrupt = {tier: counts["corrupt"] for tier, counts in counters["tiers"].items()}
            hits = {tier: counts["hits"] for tier, counts in counters["tiers"].items()}
            print(f"{'':34} hits {hits} corrupt {corrupt}", flush=True)


def started(
    name: str,
    model: Path,
    folder: Path,
    transfer: dict[str, Any],
    environment: tuple[tuple[str, str], ...],
    *,
    python: Path = ENGINE_PYTHON,
) -> BareEngine:
    """Start an engine with this connector, and wait until it is ready."""
    arguments = ("--kv-transfer-config", json.dumps(transfer))
    spec = EngineSpec(
        name, "decode", model, ("m",), _CACHE_BYTES, arguments=arguments, environment=environment, python=python
    )
    engine = BareEngine.start(spec, folder)
    try:
        print(f"{name} is ready after {engine.wait_ready(START_LIMIT_S):.0f} s", flush=True)
    except BaseException:
        engine.stop()
        raise
    return engine


def prompt(length: int, variant: int = 0) -> list[int]:
    rng = random.Random(f"{length} {variant}")  # noqa: S311 - repeatable
    return [rng.randrange(100, 400) for _ in range(length)]


@contextlib.contextmanager
def setting(model: Path, redis_server: str, lengths: Sequence[int], capacity: int) -> Generator[Setting]:
    """Give a running Redis and a folder; whatever is started in it ends with it."""
    folder = Path(tempfile.mkdtemp(prefix="kv-"))
    server = RealRedis.start(Path(redis_server), folder, "--maxmemory", str(2 * capacity))
    made = Setting(folder, model.resolve(), server, lengths, capacity)
    try:
        yield made
    finally:
        if made.engine is not None:
            made.engine.stop()
        if made.store is not None:
            made.store.kill()
            made.store.wait()
        server.kill()
        made.arena.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


def the_redis_server() -> str:
    return str(find_program("redis-server") or "redis-server")


def free_bytes(folder: Path) -> int:
    system = os.statvfs(folder)
    return system.f_bavail * system.f_frsize


def _spelt(took: dict[int, float]) -> str:
    return " ".join(f"{length}:{seconds:.2f}s" for length, seconds in took.items())
