"""Many slow streams, and clients that leave, through one router process: `python bench/bench_streams.py`.

`--streams N --per-s R`: so many streams at once, each as fast as its engine steps, for `--seconds`; how many tokens a
second came to each, how long the gaps were, what the router's process took of a core and of memory.
`--disconnects N`: so many clients come and leave in the middle of everything; what is left behind afterwards.
`--soak S`: clients that come and leave for so long; what the router's process holds in each tenth of that time.
`--pests N`: the same streams beside N idle connections, bodies in drops and clients that never read.

The router, the workers (simulated engines with their agents) and the clients are three processes.  The last line is
JSON.
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import uvloop
from _processes import anonymous_mib, cpu_s, pss_mib
from bench_gateway import first_line, process

from inferplane_api.catalogue import Catalogue, CatalogueService, CatalogueWorker, RoutingMode, WorkerRole
from inferplane_runtime import logs
from inferplane_runtime.http.client import UpstreamPool
from inferplane_workers.agent.config import Role
from inferplane_workers.testing import MODEL, worker
from leaving_clients import crowd, spoken
from one_loop_service import call

_STEP_S: Final = 0.0098
"""What the simulated engine's step takes with some hundred short requests, before its speed is set."""
_LIMITS: Final = {"bodyTimeoutS": 10, "stallTimeoutS": 10, "idleTimeoutS": 30}
_AT_REST_S: Final = 90.0


# The workers, in a process of their own.


async def serve_workers(folder: Path, count: int, streams: int, per_s: float) -> None:
    flags = ["--sim-speed", f"{_STEP_S * per_s:.4f}", "--max-num-seqs", str(2 * streams // count + 50)]
    flags += ["--num-gpu-blocks-override", "120000", "--max-num-batched-tokens", "16384"]
    async with contextlib.AsyncExitStack() as stack:
        ports = list[int]()
        for number in range(count):
            one = await stack.enter_async_context(worker(folder, Role.DECODE, f"d{number}", flags=flags))
            ports += [one.listening.http, one.listening.stream]
        print(*ports, flush=True)
        await asyncio.Event().wait()


def write_files(folder: Path, ports: list[int]) -> Path:
    """Write what the router is started with."""
    workers = tuple(
        CatalogueWorker(
            worker_id=f"d{number}",
            service="s",
            pool="decode",
            role=WorkerRole.DECODE,
            revision="",
            http_address=f"127.0.0.1:{ports[2 * number]}",
            stream_address=f"127.0.0.1:{ports[2 * number + 1]}",
        )
        for number in range(len(ports) // 2)
    )
    service = CatalogueService(
        name="s", served_names=(MODEL,), mode=RoutingMode.AGGREGATED, ttft_s=60.0, tpot_s=5.0, queue_limit=100_000
    )
    catalogue = Catalogue(generation=1, services=(service,), workers=workers)
    (folder / "catalogue.json").write_text(catalogue.model_dump_json(by_alias=True), "utf-8")
    listen = dict.fromkeys(("http", "grpc", "metrics"), "127.0.0.1:0") | {"report": str(folder / "listen.json")}
    config = {"listen": listen, "discovery": {"file": str(folder / "catalogue.json")}, "cacheDir": str(folder / "c")}
    (folder / "router.json").write_text(json.dumps(config | {"limits": _LIMITS}), "utf-8")
    return folder / "router.json"


# The clients.


class Stream(asyncio.Protocol):
    """One connection whose request's answer is counted as it comes."""

    transport: asyncio.Transport

    def __init__(self, say: bytes, *, silent: bool = False) -> None:
        self._say = say
        self._silent = silent
        """It reads nothing of its answer."""
        self.pieces = 0
        self.gaps = list[float]()
        self.last = 0.0
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self._silent:
            self.transport.pause_reading()
        self.transport.write(self._say)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        self.pieces += data.count(b"data: {")
        if self.last and len(self.gaps) < 1000:  # noqa: PLR2004 - enough of each
            self.gaps.append(now - self.last)
        self.last = now

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if not self.over.done():
            self.over.set_result(None)


async def open_stream(port: int, number: int, tokens: int) -> Stream:
    head, body = spoken(number, tokens=tokens)
    made = partial(Stream, head + body)
    return (await asyncio.get_running_loop().create_connection(made, "127.0.0.1", port))[1]


class Service:
    """The running router, as a client and `/proc` see it."""

    def __init__(self, pid: int, ports: dict[str, int], pool: UpstreamPool) -> None:
        self.pid, self.http = pid, ports["http"]
        self._metrics, self._pool = f"127.0.0.1:{ports['metrics']}", pool

    async def gauges(self) -> dict[str, float]:
        """Return what must be nothing when nobody is there, summed over labels."""
        answer = await call(self._pool, self._metrics, "/metrics", None)
        names = ("gateway_connections", "gateway_running_requests", "router_queued_requests")
        names += ("router_in_flight_requests", "router_worker_in_flight_requests")
        found = dict.fromkeys(names, 0.0)
        for line in answer.body.decode().splitlines():
            name = line.partition("{")[0].partition(" ")[0].removeprefix("inferplane_")
            if name in found:
                found[name] += float(line.rpartition(" ")[2])
        return found

    async def at_rest(self) -> dict[str, float]:
        """Wait until nothing is left; return what is left when that takes too long."""
        begun = time.monotonic()
        while any((left := await self.gauges()).values()) and time.monotonic() - begun < _AT_REST_S:  # noqa: ASYNC110 - looked at from outside
            await asyncio.sleep(0.5)  # another process comes to rest
        return {name: value for name, value in left.items() if value}

    @property
    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


async def measure_streams(service: Service, count: int, per_s: float, seconds: float) -> dict[str, Any]:
    tokens = int(per_s * (seconds + 60)) + 100
    streams = list[Stream]()
    for number in range(count):
        streams.append(await open_stream(service.http, number, tokens))
    async with asyncio.timeout(120):
        while not all(stream.pieces for stream in streams):  # noqa: ASYNC110 - counted by callbacks
            await asyncio.sleep(0.1)
    for stream in streams:
        stream.pieces = 0
        stream.gaps.clear()
    cpu, begun = cpu_s(service.pid), time.monotonic()
    await asyncio.sleep(seconds)
    took, cpu = time.monotonic() - begun, cpu_s(service.pid) - cpu
    pieces = [stream.pieces for stream in streams]
    gaps = sorted(gap for stream in streams for gap in stream.gaps[:100])
    broken = sum(stream.over.done() for stream in streams)
    found = {
        "streams": count,
        "broken": broken,
        "tokens_per_s_each": round(statistics.mean(pieces) / took, 2),
        "slowest_tokens_per_s": round(min(pieces) / took, 2),
        "gap_p50_s": round(gaps[len(gaps) // 2], 3),
        "gap_p99_s": round(gaps[len(gaps) * 99 // 100], 3),
        "router_cores": round(cpu / took, 3),
        "cpu_us_per_chunk": round(1e6 * cpu / max(1, sum(pieces)), 1),
        "pss_mib": round(pss_mib(service.pid), 1),
    }
    for stream in streams:
        stream.transport.abort()
    return found | {"left_behind": await service.at_rest()}


async def measure_leaving(service: Service, count: int, at_once: int) -> dict[str, Any]:
    await crowd(f"127.0.0.1:{service.http}", min(count, 500), at_once=at_once, seed=0)
    await service.at_rest()
    before, memory = service.descriptors, anonymous_mib(service.pid)
    left = await crowd(f"127.0.0.1:{service.http}", count, at_once=at_once, seed=1)
    rest = await service.at_rest()
    return {
        "left": {kind.value: number for kind, number in sorted(left.items())},
        "left_behind": rest,
        "descriptors_more": service.descriptors - before,
        "anonymous_mib_more": round(anonymous_mib(service.pid) - memory, 1),
        "anonymous_mib": round(anonymous_mib(service.pid), 1),
    }


async def soak(service: Service, seconds: float, at_once: int) -> dict[str, Any]:
    begun, memory, visits = time.monotonic(), list[tuple[float, float]](), 0
    while (at_s := time.monotonic() - begun) < seconds:
        visits += (await crowd(f"127.0.0.1:{service.http}", 200, at_once=at_once, seed=visits)).total()
        memory.append((at_s, anonymous_mib(service.pid)))
    tenths = [[mib for at_s, mib in memory if int(10 * at_s / seconds) == tenth] for tenth in range(10)]
    return {
        "seconds": seconds,
        "visits": visits,
        "anonymous_mib_by_tenth": [round(statistics.mean(each), 1) for each in tenths if each],
        "left_behind": await service.at_rest(),
    }


async def with_pests(service: Service, pests: int, count: int, per_s: float, seconds: float) -> dict[str, Any]:
    """Measure streams beside clients that hold connections for nothing."""
    loop, found = asyncio.get_running_loop(), list[Stream]()
    head, body = spoken(0, tokens=4000)
    says = ((b"", False), (head + body[:10], False), (head + body, True))
    for number in range(pests):
        say, silent = says[0 if number % 10 else 1 + number // 10 % 2]
        made = partial(Stream, say, silent=silent)
        found.append((await loop.create_connection(made, "127.0.0.1", service.http))[1])
    measured = await measure_streams(service, count, per_s, seconds)
    return {"pests": pests, "pests_let_go": sum(pest.over.done() for pest in found), **measured}


# All of it.


@contextlib.asynccontextmanager
async def running(options: argparse.Namespace, folder: Path) -> AsyncGenerator[Service]:
    spec = [str(options.workers), str(options.streams), str(options.per_s)]
    with process(__file__, "--as-workers", str(folder), *spec) as workers:
        ports = await asyncio.to_thread(first_line, workers)
        config = write_files(folder, ports)
        with process("-m", "inferplane_router", "--config", str(config), "--log-level", "error") as router:
            listen, pool = folder / "listen.json", UpstreamPool()
            while not listen.exists():  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.1)
            addresses = json.loads(listen.read_text())
            service = Service(router.pid, {n: int(a.rpartition(":")[2]) for n, a in addresses.items()}, pool)
            while not await served(pool, addresses["http"]):  # noqa: ASYNC110 - another process gets ready
                await asyncio.sleep(0.5)
            yield service
            await pool.close()


async def served(pool: UpstreamPool, address: str) -> bool:
    answer = await call(pool, address, "/v1/completions", {"model": MODEL, "prompt": "hello", "max_tokens": 1})
    return answer.head is not None and answer.head.status == 200  # noqa: PLR2004 - HTTP


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {"bench": "streams"}
    with tempfile.TemporaryDirectory() as name:
        async with running(options, Path(name)) as service:
            if options.seconds:
                found["streams"] = await measure_streams(service, options.streams, options.per_s, options.seconds)
            if options.pests:
                pests = (options.pests, options.streams, options.per_s, options.seconds or 30.0)
                found["pests"] = await with_pests(service, *pests)
            if options.disconnects:
                found["disconnects"] = await measure_leaving(service, options.disconnects, options.at_once)
            if options.soak:
                found["soak"] = await soak(service, options.soak, options.at_once)
    return found


def main() -> None:
    logs.configure(level=logs.LogLevel.ERROR, component="bench")
    if sys.argv[1:2] == ["--as-workers"]:
        folder, count, streams, per_s = sys.argv[2:]
        uvloop.run(serve_workers(Path(folder), int(count), int(streams), float(per_s)))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--per-s", type=float, default=10.0, help="tokens a second of each stream")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long streams are measured; 0: not at all")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--disconnects", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=50, help="leaving clients at a time")
    parser.add_argument("--soak", type=float, default=0.0, help="seconds")
    parser.add_argument("--pests", type=int, default=0, help="connections held for nothing")
    print(json.dumps(uvloop.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
