"""What the KV store's tiers move a second, beside the machine's own limits in the same run.

    python bench/bench_kvstore.py [--redis-server PROGRAM --redis-benchmark PROGRAM] [--fio PROGRAM] [--folder DIR]

DRAM is compared with a copy in memory of the same sizes, with and without the checksum that an engine makes; the disk
with fio on the same file system, or plain writes and reads of one file where there is no fio; Redis with
redis-benchmark at the same value size.  Writing below memory is counted from the first byte until all is durable.
Memory is measured as it is in use, which is when all of it was written to before: a kernel clears a page at its first
use, and a store that has just started is slower by that.
Each figure is the best of some rounds; rates are bytes of blocks, in GB/s of wall time, the ratios are what counts.
"""

import argparse
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from inferplane_kv_connector.client import StoreClient
from inferplane_kv_connector.envelope import Label, check, seal
from inferplane_kv_connector.keys import NOBODY
from inferplane_kvstore.config import FileTier, StoreConfig
from inferplane_kvstore.resp import RedisAddress
from inferplane_kvstore.testing import SECRET, key_of, served
from real_redis import RealRedis, find_program

SIZE = (1 << 20) - 4096
COUNT = 96
ROUNDS = 3
DRAM_ROUNDS = 8
"""Enough to come around in the arena."""
ARENA = 384 << 20
DRAM_TARGET, SSD_TARGET, REDIS_TARGET = 0.6, 0.7, 0.6
BATCH = 16


def best(run: Callable[[], None], rounds: int = ROUNDS) -> float:
    """Return GB/s of the fastest round."""
    took: list[float] = []
    for _ in range(rounds):
        begun = time.perf_counter()
        run()
        took.append(time.perf_counter() - begun)
    return SIZE * COUNT / min(took) / 1e9


def say(name: str, rate: float, limit: float, target: float | None = None) -> None:
    """Print a rate beside the machine's own, and whether it is as near to that as it shall be."""
    kept = "" if target is None else f"  ({'ok' if rate >= target * limit else 'below'}, {target:.0%} wanted)"
    print(f"{name:42} {rate:7.2f} GB/s  {rate / limit:6.0%} of {limit:.2f}{kept}", flush=True)


def copy_in_memory() -> float:
    source, target = (np.ones(SIZE * COUNT, np.uint8) for _ in range(2))

    def run() -> None:
        for at in range(0, SIZE * COUNT, SIZE):
            np.copyto(target[at : at + SIZE], source[at : at + SIZE])

    return best(run)


def write_blocks(
    client: StoreClient, source: "np.ndarray[tuple[int], np.dtype[np.uint8]]", kind: str, *, sealed: bool
) -> None:
    for start in range(0, COUNT, BATCH):
        labels = [Label(key_of(number, kind=kind), NOBODY, SIZE) for number in range(start, start + BATCH)]
        done: list[tuple[bytes, bytes]] = []
        for space in client.put(labels):
            assert space is not None
            np.copyto(np.frombuffer(space.payload, np.uint8), source)
            done.append((space.label.key, seal(space.label, space.payload, SECRET) if sealed else bytes(32)))
        client.commit(done)


def read_blocks(
    client: StoreClient, target: "np.ndarray[tuple[int], np.dtype[np.uint8]]", kind: str, *, sealed: bool
) -> None:
    for start in range(0, COUNT, BATCH):
        keys = [key_of(number, kind=kind) for number in range(start, start + BATCH)]
        for held in client.get(keys):
            assert held is not None
            assert not sealed or check(held.label, held.tag, held.payload, SECRET)
            np.copyto(target, np.frombuffer(held.payload, np.uint8))
        client.release(keys)


def touch(arena: FileTier) -> None:
    """Have a store find memory that was used before and holds nothing."""
    with arena.path.open("wb") as file:
        for _ in range(arena.capacity >> 20):
            file.write(bytes(1 << 20))


def bench_dram(config: StoreConfig) -> None:
    limit = copy_in_memory()
    block, rounds = np.ones(SIZE, np.uint8), iter(range(1000))
    with served(config) as (_, client):
        for sealed in (False, True):
            how = "with checksum" if sealed else "moving alone"
            target = None if sealed else DRAM_TARGET
            kinds = [f"{sealed}{next(rounds)}" for _ in range(DRAM_ROUNDS)]
            waiting = iter(kinds)
            say(
                f"DRAM, writing, {how}",
                best(lambda w=waiting, s=sealed: write_blocks(client, block, next(w), sealed=s), DRAM_ROUNDS),
                limit,
                target,
            )
            say(
                f"DRAM, reading, {how}",
                best(lambda k=kinds[-1], s=sealed: read_blocks(client, block, k, sealed=s)),
                limit,
                target,
            )


def plain_file(folder: Path) -> tuple[float, float]:
    block, path = bytes(SIZE), folder / "plain"

    def write() -> None:
        with path.open("wb") as file:
            for _ in range(COUNT):
                file.write(block)
            os.fsync(file.fileno())

    def read() -> None:
        with path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            for _ in range(COUNT):
                file.read(SIZE)

    rates = best(write), best(read)
    path.unlink()
    return rates


def fio(program: str, folder: Path) -> tuple[float, float]:
    """Return what fio writes until it is durable, and reads when nothing is cached."""
    rates = [max(_fio(program, folder, how) for _ in range(ROUNDS)) for how in ("write", "read")]
    (folder / "fio").unlink()
    return rates[0], rates[1]


def _fio(program: str, folder: Path, how: str) -> float:
    told = [program, "--name=fio", f"--filename={folder / 'fio'}", f"--rw={how}", f"--bs={SIZE}"]
    told += [f"--size={SIZE * COUNT}", "--ioengine=psync", "--end_fsync=1", "--output-format=json"]
    said = json.loads(subprocess.run(told, check=True, capture_output=True, text=True).stdout)
    return float(said["jobs"][0][how]["bw_bytes"]) / 1e9


def below(
    config: StoreConfig, name: str, limits: tuple[float, float], forget: Callable[[], None], target: float
) -> None:
    """Measure a tier below DRAM: writing until it is durable there, and reading it into DRAM."""
    block = np.ones(SIZE, np.uint8)
    wrote, read = list[float](), list[float]()
    for number in range(ROUNDS):
        with served(config) as (_, client):
            begun = time.perf_counter()
            write_blocks(client, block, f"{name}{number}", sealed=False)
            client.ask({"op": "settle"})
            wrote.append(time.perf_counter() - begun)
        touch(config.dram)
        forget()
        with served(config) as (_, client):
            begun = time.perf_counter()
            for start in range(0, COUNT, BATCH):
                keys = [key_of(index, kind=f"{name}{number}") for index in range(start, start + BATCH)]
                assert None not in client.get(keys)
                client.release(keys)
            read.append(time.perf_counter() - begun)
    say(f"{name}, writing (durable)", SIZE * COUNT / min(wrote) / 1e9, limits[0], target)
    say(f"{name}, reading into DRAM", SIZE * COUNT / min(read) / 1e9, limits[1], target)


def bench_disk(config: StoreConfig, folder: Path, program: str | None) -> None:
    path = folder / "slabs"

    def forget() -> None:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    limits = fio(program, folder) if program else plain_file(folder)
    below(replace(config, ssd=FileTier(path, 1 << 30)), "SSD", limits, forget, SSD_TARGET)


def bench_redis(config: StoreConfig, server: str, benchmark: str, folder: Path) -> None:
    started = RealRedis.start(Path(server), folder)
    try:
        limits = tuple(redis_limit(benchmark, started.port, command) for command in ("set", "get"))
        with_redis = replace(config, redis=RedisAddress("127.0.0.1", started.port), redis_deadline_s=30.0)
        below(with_redis, "Redis", (limits[0], limits[1]), lambda: None, REDIS_TARGET)
    finally:
        started.kill()


def redis_limit(program: str, port: int, command: str) -> float:
    """Return GB/s of redis-benchmark with one connection and as many requests on the way as the store has."""
    told = [
        program,
        "-p",
        str(port),
        "-d",
        str(SIZE),
        "-n",
        str(COUNT * 3),
        "-c",
        "1",
        "-P",
        str(BATCH),
        "-t",
        command,
        "-q",
    ]
    said = subprocess.run(told, check=True, capture_output=True, text=True).stdout
    found = re.findall(r"([\d.]+) requests per second", said)
    return float(found[-1]) * SIZE / 1e9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="on the disk to be measured")
    for program in ("redis-server", "redis-benchmark"):
        parser.add_argument(f"--{program}", default=str(find_program(program) or program))
    parser.add_argument("--fio", default=shutil.which("fio"))
    told = parser.parse_args()
    logging.getLogger().setLevel(logging.ERROR)
    folder = Path(tempfile.mkdtemp(prefix="kv-bench-", dir=told.folder))
    memory = Path(tempfile.mkdtemp(prefix="kv-bench-", dir="/dev/shm"))
    config = StoreConfig(folder / "s", SECRET, FileTier(memory / "arena", ARENA), min_hits=1)
    try:
        touch(config.dram)
        bench_dram(config)
        touch(config.dram)
        bench_disk(config, folder, told.fio)
        touch(config.dram)
        if shutil.which(told.redis_server):
            bench_redis(config, told.redis_server, told.redis_benchmark, folder)
        else:
            print("no redis-server here: Redis is not measured")
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(memory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
