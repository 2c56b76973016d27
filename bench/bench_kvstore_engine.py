"""One real vLLM and the KV store, tier by tier and fault by fault: are the answers the same, and what do they cost.

    python bench/bench_kvstore_engine.py [--model DIR] [--redis-server PROGRAM] [--short]

The last line is the result: wrong answers, failed requests, how many blocks were damaged and found out, and what share
of its former hits an engine has that was killed and started again.  The exit status is 1 where an answer was wrong, a
request failed, damage was not counted to the block, or less than 95 % of the hits came back.
`--short` asks fewer and shorter prompts.

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
import threading
import time
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from bare_engine import PLUGIN, REPOSITORY, BareEngine, EngineSpec, free_port
from inferplane_kv_connector.client import RETRY_S, StoreClient
from inferplane_kv_connector.envelope import HEADER_BYTES, check, unpack
from inferplane_kvstore.resp import RedisAddress, RedisConnection
from inferplane_kvstore.space import PAGE
from real_redis import find_program
from store_connector import transfer_config

LENGTHS = (70, 500, 501, 900, 1000, 1500, 2000, 3000, 3900)
SHORT = (70, 500, 1001)
SHARE = 0.01
"""Of the stored blocks, how many are damaged where there are enough of them."""
LEAST_DAMAGED = 3
KEPT = 0.95
DELAY_S = 3.0
KILLED_AFTER_S = 0.3
_BATCH = 16
DRAM, SSD = 512 << 20, 512 << 20
START_LIMIT_S = 900.0
SECRET = b"only for this benchmark"
SALT = "ip-001122334455667{}-00"


@dataclass
class Setting:
    """Files, the store's process and the engine."""

    folder: Path
    model: Path
    redis_port: int
    engine: BareEngine | None = None
    store: subprocess.Popen[bytes] | None = None
    lengths: tuple[int, ...] = LENGTHS
    answers: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    asked: int = 0
    wrong: int = 0
    failed: int = 0
    damaged: int = 0
    found: int = 0
    """Damaged blocks, and those of them that were counted."""
    came_back: float = 0.0
    """Of the tokens that an engine did not compute before it was killed, what share it did not compute after."""

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

    def start_anew(self, *without: Path) -> None:
        """Let the store end and begin again without these files."""
        self.stop_store()
        for path in without:
            path.unlink()
        self.start_store()

    @property
    def arena(self) -> Path:
        return self.folder / "arena"

    @property
    def slabs(self) -> Path:
        return self.folder / "slabs"

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

    def complete(self, body: dict[str, Any]) -> Any:
        """Ask for an answer; None, and counted, where the request fails."""
        self.asked += 1
        try:
            return self.post("/v1/completions", body)
        except (OSError, ValueError) as error:
            self.failed += 1
            print(f"a request failed: {error}", flush=True)
            return None

    def damage(self, name: str, damaged: int) -> None:
        """Ask everything while blocks are bad, then let the rest of them be found."""
        before = self.corrupt()
        self.phase(f"{name}, {damaged} blocks bad")
        self.ask_store("verify")
        self.account(name, damaged, self.corrupt() - before)

    def account(self, name: str, damaged: int, found: int) -> None:
        self.damaged += damaged
        self.found += found
        print(f"{name:34} {found} of {damaged} bad blocks counted", flush=True)

    def read_as_engines_do(self, keys: Sequence[bytes]) -> None:
        """Read blocks and say which are bad: behind a bad one engines read none of a prompt, and write them anew."""
        client = self.client()
        for start in range(0, len(keys), _BATCH):
            batch = keys[start : start + _BATCH]
            held = [each for each in client.get(batch) if each is not None]
            bad = [each.label.key for each in held if not check(each.label, each.tag, each.payload, SECRET)]
            client.release([each.label.key for each in held], bad=bad)
        client.close()

    def corrupt(self) -> int:
        """Count bad blocks in all tiers: one that came up from Redis is counted there."""
        return sum(int(counts["corrupt"]) for counts in self.ask_store("stat")["counters"]["tiers"].values())

    def phase(self, name: str, *, salt: str = "", lengths: tuple[int, ...] = ()) -> int:
        """Empty the engine's cache, ask all prompts, compare, print; return how many tokens were not computed."""
        lengths = lengths or self.lengths
        if name != "cold":
            self.post("/reset_prefix_cache", {})
        cached = wrong = prompt_tokens = 0
        failed_before = self.failed
        took: dict[int, float] = {}
        for length in lengths:
            body = {"model": "m", "prompt": prompt(length), "temperature": 0, "ignore_eos": True}
            if salt:
                body["cache_salt"] = salt
            begun = time.monotonic()
            first = self.complete({**body, "max_tokens": 1})
            took[length] = time.monotonic() - begun
            prompt_tokens += length // 32 * 32
            whole = self.complete({**body, "max_tokens": 32, "return_token_ids": True})
            if first is None or whole is None:
                continue
            cached += first["usage"]["prompt_tokens_details"]["cached_tokens"] or 0
            tokens = whole["choices"][0]["token_ids"]
            wrong += tokens != self.answers.setdefault(length, tokens)
        self.wrong += wrong
        failed = self.failed - failed_before
        times = " ".join(f"{length}:{seconds:.2f}s" for length, seconds in took.items())
        print(
            f"{name:34} wrong {wrong}/{len(lengths)}  failed {failed}  "
            f"cached {cached}/{prompt_tokens}  first token {times}",
            flush=True,
        )
        self.ask_store("settle")
        counters = self.ask_store("stat").get("counters")
        if counters:
            corrupt = {tier: counts["corrupt"] for tier, counts in counters["tiers"].items()}
            hits = {tier: counts["hits"] for tier, counts in counters["tiers"].items()}
            print(f"{'':34} hits {hits} corrupt {corrupt}", flush=True)
        return cached


def prompt(length: int) -> list[int]:
    rng = random.Random(length)  # noqa: S311 - repeatable
    return [rng.randrange(100, 400) for _ in range(length)]


def flip(path: Path, rng: random.Random) -> int:
    """Flip a bit in a share of the stored blocks, somewhere in their bytes; return in how many."""
    stored: dict[int, int] = {}
    with path.open("r+b") as file:
        for offset in range(0, path.stat().st_size, PAGE):
            file.seek(offset)
            header = unpack(file.read(HEADER_BYTES))
            if header is not None:
                stored[offset] = header.label.size
        chosen = rng.sample(sorted(stored), min(len(stored), max(LEAST_DAMAGED, round(SHARE * len(stored)))))
        for offset in chosen:
            at = offset + HEADER_BYTES + rng.randrange(stored[offset])
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1 << rng.randrange(8)]))
    return len(chosen)


_FLIP_IN_REDIS = b"""
local keys = redis.call('KEYS', '*')
local step = math.max(1, math.floor(#keys / math.max(tonumber(ARGV[2]), #keys * tonumber(ARGV[1]))))
local flipped = 0
for i = 1, #keys, step do
  local at = math.floor(redis.call('STRLEN', keys[i]) / 2)
  local byte = string.byte(redis.call('GETRANGE', keys[i], at, at))
  redis.call('SETRANGE', keys[i], at, string.char(bit.bxor(byte, 1)))
  flipped = flipped + 1
end
return flipped
"""


def flip_in_redis(port: int) -> int:
    """Flip a bit in the middle of a share of the values; return in how many."""
    connection = RedisConnection(RedisAddress("127.0.0.1", port), deadline_s=60.0)
    try:
        share = [str(SHARE).encode(), str(LEAST_DAMAGED).encode()]
        return int(connection.ask([b"EVAL", _FLIP_IN_REDIS, b"0", *share]) or 0)
    finally:
        connection.close()


def keys_in_redis(port: int) -> list[bytes]:
    """Return the names of all blocks there."""
    connection = RedisConnection(RedisAddress("127.0.0.1", port), deadline_s=60.0)
    try:
        said = connection.ask([b"EVAL", b"return table.concat(redis.call('KEYS', '*'), ' ')", b"0"])
    finally:
        connection.close()
    assert isinstance(said, bytes)
    return [bytes.fromhex(name.rpartition(":")[2]) for name in said.decode().split()]


@contextmanager
def asleep(process: subprocess.Popen[bytes]) -> Generator[None]:
    """Let a process do nothing for some seconds, beginning now."""
    process.send_signal(signal.SIGSTOP)
    waker = threading.Timer(DELAY_S, process.send_signal, (signal.SIGCONT,))
    waker.start()
    try:
        yield
    finally:
        waker.join()


@contextmanager
def killed_meanwhile(process: subprocess.Popen[bytes], after_s: float) -> Generator[None]:
    """Kill a process while something else happens."""
    killer = threading.Timer(after_s, process.kill)
    killer.start()
    try:
        yield
    finally:
        killer.join()
        process.wait()


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
    setting.start_store()
    setting.start_engine("first")
    setting.phase("warming up", lengths=(64,))
    tier_by_tier(setting)
    with_damage(setting)
    with_delays_and_kills(setting, server)
    with_losses(setting, server)


def tier_by_tier(setting: Setting) -> None:
    setting.phase("cold")
    setting.phase("DRAM")
    setting.phase("another tenant (salt)", salt=SALT.format(0))
    setting.start_anew(setting.arena)
    setting.phase("SSD")
    setting.start_anew(setting.arena, setting.slabs)
    setting.phase("Redis")
    setting.phase("DRAM again")


def with_damage(setting: Setting) -> None:
    rng = random.Random(1)  # noqa: S311 - repeatable
    setting.damage("DRAM", flip(setting.arena, rng))
    setting.stop_store(signal.SIGKILL)
    setting.arena.unlink()
    damaged = flip(setting.slabs, rng)
    setting.start_store()
    setting.damage("SSD", damaged)
    damaged = flip_in_redis(setting.redis_port)
    setting.start_anew(setting.arena, setting.slabs)
    setting.phase(f"Redis, {damaged} blocks bad")
    setting.start_anew(setting.arena, setting.slabs)
    before = setting.corrupt()
    damaged = flip_in_redis(setting.redis_port)
    setting.read_as_engines_do(keys_in_redis(setting.redis_port))
    setting.account("Redis, read whole", damaged, setting.corrupt() - before)


def with_delays_and_kills(setting: Setting, server: subprocess.Popen[bytes]) -> None:
    with asleep(server):
        setting.phase(f"Redis says nothing for {DELAY_S:g} s", salt=SALT.format(1))
    assert setting.store is not None
    with asleep(setting.store):
        setting.phase(f"the store says nothing for {DELAY_S:g} s")
    with killed_meanwhile(setting.store, KILLED_AFTER_S):
        setting.phase("the store killed amid writes", salt=SALT.format(2))
    setting.start_store()
    bad = setting.ask_store("verify")["bad"]
    setting.wrong += bad
    print(f"{'':34} {bad} blocks bad after the kill", flush=True)
    setting.phase("what was written before the kill", salt=SALT.format(2))


def with_losses(setting: Setting, server: subprocess.Popen[bytes]) -> None:
    setting.stop_store()
    setting.arena.unlink()
    os.truncate(setting.slabs, setting.slabs.stat().st_size // 2)
    setting.start_store()
    setting.phase("SSD file cut in half")
    server.kill()
    setting.start_anew(setting.arena, setting.slabs)
    setting.phase("Redis killed")
    setting.phase("DRAM, Redis killed")
    setting.stop_store(signal.SIGKILL)
    setting.phase("the store killed")
    setting.start_store()
    former = setting.phase("before the engine is killed")
    assert setting.engine is not None
    os.killpg(setting.engine.process.pid, signal.SIGKILL)
    setting.engine.process.wait()
    setting.start_engine("second")
    setting.came_back = setting.phase("engine killed and restarted") / max(1, former)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=REPOSITORY / ".cache" / "models" / "tiny-llama")
    parser.add_argument("--redis-server", default=str(find_program("redis-server") or "redis-server"))
    parser.add_argument("--short", action="store_true", help="fewer and shorter prompts")
    told = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kv-"))
    setting = Setting(folder, told.model.resolve(), free_port(), lengths=SHORT if told.short else LENGTHS)
    try:
        with redis(told.redis_server, setting.redis_port) as server:
            run(setting, server)
    finally:
        if setting.engine is not None:
            setting.engine.stop()
        if setting.store is not None:
            setting.store.terminate()
        shutil.rmtree(folder, ignore_errors=True)
    print(
        f"result: {setting.asked} requests, {setting.wrong} wrong, {setting.failed} failed; "
        f"{setting.found} of {setting.damaged} damaged blocks counted; "
        f"{setting.came_back:.0%} of the hits after an engine's kill"
    )
    missed = setting.came_back < KEPT or setting.found != setting.damaged
    return int(bool(setting.wrong or setting.failed or missed))


if __name__ == "__main__":
    sys.exit(main())
