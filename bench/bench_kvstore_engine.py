"""One real vLLM and the KV store, fault by fault: are the answers the same, and is all damage found.

    python bench/bench_kvstore_engine.py [--model DIR] [--redis-server PROGRAM] [--short]

The last line is the result: wrong answers, failed requests, how many blocks were damaged and found out, and what share
of its former hits an engine has that was killed and started again.  The exit status is 1 where an answer was wrong, a
request failed, damage was not counted to the block, or less than 95 % of the hits came back.
`--short` asks fewer and shorter prompts.  What first tokens cost by tier is measured by `bench_kvstore_tiers.py`.
"""

import argparse
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _kvstore_setting import SECRET, TINY, Setting, free_bytes, setting, the_redis_server

from inferplane_kv_connector.envelope import HEADER_BYTES, check, unpack
from inferplane_kvstore.remote import Remote, RemoteSettings
from inferplane_kvstore.resp import RedisAddress, RedisConnection
from inferplane_kvstore.space import PAGE

LENGTHS = (70, 500, 501, 900, 1000, 1500, 2000, 3000, 3900)
SHORT = (70, 500, 1001)
SHARE = 0.01
"""Of the stored blocks, how many are damaged where there are enough of them."""
LEAST_DAMAGED = 3
KEPT = 0.95
DELAY_S = 3.0
KILLED_AFTER_S = 0.3
CAPACITY = 512 << 20
WRITABLE = 64 << 10
"""Bytes of each file that a full disk still takes: less than what is written in a phase."""
SALT = "ip-001122334455667{}-00"
_BATCH = 16


@dataclass
class Faults:
    """What was done to a setting, and what was noticed of it."""

    setting: Setting
    damaged: int = 0
    found: int = 0
    """Damaged blocks, and those of them that were counted."""
    came_back: float = 0.0
    """Of the tokens that an engine did not compute before it was killed, what share it did not compute after."""

    def damage(self, name: str, damaged: int) -> None:
        """Ask everything while blocks are bad, then let the rest of them be found."""
        before = self.corrupt()
        self.setting.phase(f"{name}, {damaged} blocks bad")
        self.setting.ask_store("verify")
        self.account(name, damaged, self.corrupt() - before)

    def account(self, name: str, damaged: int, found: int) -> None:
        self.damaged += damaged
        self.found += found
        print(f"{name:34} {found} of {damaged} bad blocks counted", flush=True)

    def read_as_engines_do(self, keys: Sequence[bytes]) -> None:
        """Read blocks and say which are bad: behind a bad one engines read none of a prompt, and write them anew."""
        client = self.setting.client()
        for start in range(0, len(keys), _BATCH):
            batch = keys[start : start + _BATCH]
            held = [each for each in client.get(batch) if each is not None]
            bad = [each.label.key for each in held if not check(each.label, each.tag, each.payload, SECRET)]
            client.release([each.label.key for each in held], bad=bad)
        client.close()

    def corrupt(self) -> int:
        """Count bad blocks in all tiers: one that came up from Redis is counted there."""
        counters = self.setting.ask_store("stat")["counters"]
        return sum(int(counts["corrupt"]) for counts in counters["tiers"].values())


def stored(path: Path) -> dict[int, int]:
    """Return where blocks stand in a file, and how many bytes each has."""
    found: dict[int, int] = {}
    with path.open("rb") as file:
        for offset in range(0, path.stat().st_size, PAGE):
            file.seek(offset)
            header = unpack(file.read(HEADER_BYTES))
            if header is not None:
                found[offset] = header.label.size
    return found


def flip(path: Path, rng: random.Random) -> int:
    """Flip a bit in a share of the stored blocks, somewhere in their bytes; return in how many."""
    blocks = stored(path)
    chosen = rng.sample(sorted(blocks), min(len(blocks), max(LEAST_DAMAGED, round(SHARE * len(blocks)))))
    with path.open("r+b") as file:
        for offset in chosen:
            at = offset + HEADER_BYTES + rng.randrange(blocks[offset])
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1 << rng.randrange(8)]))
    return len(chosen)


def cut(path: Path) -> None:
    """Leave half of the blocks, and of the last one the beginning."""
    offsets = sorted(stored(path))
    os.truncate(path, offsets[len(offsets) // 2] + 2 * HEADER_BYTES)


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


def bad_in_redis(port: int, keys: Sequence[bytes]) -> int:
    """Count the bad blocks there without the store."""
    remote = Remote(RemoteSettings(RedisAddress("127.0.0.1", port), deadline_s=60.0), time.monotonic)
    bad = 0
    for key, header in zip(keys, remote.headers(keys), strict=True):
        assert header is not None
        payload = memoryview(bytearray(header.label.size))
        remote.fetch([(key, payload)])
        bad += not check(header.label, header.tag, payload, SECRET)
    remote.close()
    return bad


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


def run(faults: Faults) -> None:
    setting = faults.setting
    setting.start_store()
    setting.start_engine("first")
    setting.phase("warming up", lengths=(64,))
    tier_by_tier(setting)
    with_damage(faults)
    with_delays_and_kills(faults)
    with_a_full_disk(setting)
    with_losses(faults)


def tier_by_tier(setting: Setting) -> None:
    setting.phase("cold")
    setting.phase("DRAM")
    setting.phase("another tenant (salt)", salt=SALT.format(0))
    setting.start_anew(setting.arena)
    setting.phase("SSD")
    setting.start_anew(setting.arena, setting.slabs)
    setting.phase("Redis")
    setting.phase("DRAM again")


def with_damage(faults: Faults) -> None:
    setting, rng = faults.setting, random.Random(1)  # noqa: S311 - repeatable
    faults.damage("DRAM", flip(setting.arena, rng))
    setting.stop_store(signal.SIGKILL)
    setting.arena.unlink()
    damaged = flip(setting.slabs, rng)
    setting.start_store()
    faults.damage("SSD", damaged)
    damaged = flip_in_redis(setting.redis.port)
    setting.start_anew(setting.arena, setting.slabs)
    setting.phase(f"Redis, {damaged} blocks bad")
    setting.start_anew(setting.arena, setting.slabs)
    before = faults.corrupt()
    flip_in_redis(setting.redis.port)
    keys = keys_in_redis(setting.redis.port)
    damaged = bad_in_redis(setting.redis.port, keys)  # with those of before that no engine came to
    faults.read_as_engines_do(keys)
    faults.account("Redis, read whole", damaged, faults.corrupt() - before)


def with_delays_and_kills(faults: Faults) -> None:
    setting = faults.setting
    with asleep(setting.redis.process):
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


def with_a_full_disk(setting: Setting) -> None:
    """Let no file grow while blocks are written, the store's log among them; then give the disk no room at all."""
    assert setting.store is not None
    _, most = resource.prlimit(setting.store.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(setting.store.pid, resource.RLIMIT_FSIZE, (WRITABLE, most))
    setting.phase("the disk takes no more", salt=SALT.format(3))
    failed = setting.ask_store("stat")["counters"]["tiers"]["ssd"]["failed"]
    print(f"{'':34} {failed} writes to the disk failed", flush=True)
    setting.stop_store()
    setting.slabs.unlink()
    setting.start_store(disk_bytes=free_bytes(setting.folder) + (1 << 30))
    setting.phase("no room on the disk", salt=SALT.format(3))
    setting.start_anew()
    setting.phase("DRAM, the disk has room again")  # which puts the blocks there, for what comes next


def with_losses(faults: Faults) -> None:
    setting = faults.setting
    setting.stop_store()
    setting.arena.unlink()
    cut(setting.slabs)
    setting.start_store()
    setting.phase("the disk's file cut in half")
    setting.redis.kill()
    setting.start_anew(setting.arena, setting.slabs)
    setting.phase("Redis killed")
    setting.phase("DRAM, Redis killed")
    setting.stop_store(signal.SIGKILL)
    setting.phase("the store killed")
    setting.start_store()
    former = setting.phase("before the engine is killed").cached
    assert setting.engine is not None
    os.killpg(setting.engine.process.pid, signal.SIGKILL)
    setting.engine.process.wait()
    setting.start_engine("second")
    faults.came_back = setting.phase("engine killed and restarted").cached / max(1, former)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=TINY)
    parser.add_argument("--redis-server", default=the_redis_server())
    parser.add_argument("--short", action="store_true", help="fewer and shorter prompts")
    told = parser.parse_args()
    with setting(told.model, told.redis_server, SHORT if told.short else LENGTHS, CAPACITY) as ours:
        faults = Faults(ours)
        run(faults)
    print(
        f"result: {ours.asked} requests, {ours.wrong} wrong, {ours.failed} failed; "
        f"{faults.found} of {faults.damaged} damaged blocks counted; "
        f"{faults.came_back:.0%} of the hits after an engine's kill"
    )
    missed = faults.came_back < KEPT or faults.found != faults.damaged
    return int(bool(ours.wrong or ours.failed or missed))


if __name__ == "__main__":
    sys.exit(main())
