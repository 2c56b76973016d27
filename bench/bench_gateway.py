"""CPU that the gateway adds to a request and to a stream's chunk: `python bench/bench_gateway.py [--seconds S]`.

A stand-in agent (an HTTP server that answers at once, serves a real tokenizer's files, and says on a worker stream that
it is ready) stands behind a real router process and behind the bare proxy; one client keeps connections busy with chats
of 1 KB, of which there are many.  CPU time of the process under test between two moments is divided by what passed
through it.  Quote the ratio: absolute times drift from run to run.  Without `.cache/tokenizers` (`make tokenizers`)
requests are placed by load alone: then `tokens` is false, and templates, tokens and hashes are not in the figures.
With `--processes N` a router of N gateway processes is one more side, whose CPU is that of all its processes together;
`cpu_us_per_request_vs_processes_N` below 1 says that they cost more than one.
Peers that are installed (`baselines/peers.py`) take the same load in the same run.  The last line is JSON.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from pathlib import Path
from typing import Any, cast

import grpc
import orjson
import uvloop
from _processes import cpu_s, pss_mib, split
from baselines.peers import Peer, running_peers

from inferplane_api.catalogue import Catalogue, CatalogueService, CatalogueWorker, WorkerRole
from inferplane_api.proto import worker_pb2 as wire
from inferplane_engine.tokens import ModelFiles
from inferplane_router.core.testing import FakeWorker

_BARE_PROXY = Path(__file__).parent / "baselines" / "bare_proxy.py"
_TOKENIZER = Path(__file__).resolve().parents[1] / ".cache" / "tokenizers" / "qwen3"
_PROMPTS = 256
_WORDS = ("engines", "compute", "attention", "for", "the", "quick", "tokens,", "blocks", "and", "lazy", "pages", "42")
_HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\nuser-agent: bench\r\naccept: */*\r\n"
    b"content-type: application/json\r\nauthorization: Bearer none\r\ncontent-length: %d\r\n\r\n"
)
_JSON = orjson.dumps({"id": "x", "object": "chat.completion", "choices": [{"message": {"content": "y" * 500}}]})


def _answer(body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


_ANSWER = _answer(_JSON)
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_EVENT = b'data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
_CHUNK = b"%x\r\n%b\r\n" % (len(_EVENT), _EVENT)
_LAST = b"0\r\n\r\n"
_PACE_S = 0.004
_END = b"\r\n\r\n"


def chat(number: int, *, stream: bool = False) -> bytes:
    """Write a whole request: a chat of 1 KB that begins like no other."""
    words = itertools.islice(itertools.cycle(_WORDS), number % len(_WORDS), 200)
    body: dict[str, Any] = {
        "model": "m",
        "messages": [{"role": "user", "content": f"{number} {' '.join(words)}"[:1000]}],
    }
    body |= {"max_tokens": 64, "temperature": 0.5} | ({"stream": True} if stream else {})
    encoded = orjson.dumps(body)
    return _HEAD % len(encoded) + encoded


# The stand-in agent, in a process of its own.


class Backend(asyncio.Protocol):
    """Answers a request at once, or with `chunks` paced chunks when its body asks for a stream."""

    transport: asyncio.Transport

    def __init__(self, chunks: int, files: ModelFiles | None, ended: "asyncio.Queue[bytes] | None" = None) -> None:
        self.ended = ended
        """Heads of finished requests, for whoever reports them."""
        self.chunks = chunks
        self.files = files
        self.buffer = b""
        self.pending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's signature
        if self.pending is not None:
            self.pending.cancel()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        at = self.buffer.find(_END)
        if at < 0:
            return
        if self.buffer.startswith(b"GET "):
            self.transport.write(_answer(self.file(self.buffer.split(b" ", 2)[1].decode())))
            self.buffer = b""
            return
        head = self.buffer[:at].lower()
        start = head.find(b"content-length: ") + 16
        if start < 16:  # noqa: PLR2004 - not found: in chunks, of which the last one ends what came
            length = len(self.buffer) - at - 4 + (not self.buffer.endswith(_LAST))
        else:
            length = int(head[start : (head.find(b"\r\n", start) + 1 or len(head) + 1) - 1])
        if len(self.buffer) < at + 4 + length:
            return
        if self.ended is not None:
            self.ended.put_nowait(head)
        stream = b'"stream":true' in self.buffer
        self.buffer = self.buffer[at + 4 + length :]
        if stream:
            self.transport.write(_STREAM_HEAD + _CHUNK)
            self.more(self.chunks - 1)
        else:
            self.transport.write(_ANSWER)

    def file(self, path: str) -> bytes:
        """Return what an agent answers below /model/files."""
        if self.files is None:
            return b"{}"
        if path == "/model/files":
            return orjson.dumps({"digest": self.files.digest, "files": self.files.sizes()})
        name = path.rpartition("/")[2]
        return (self.files.root / name).read_bytes() if name in self.files.sizes() else b"{}"

    def more(self, left: int) -> None:
        self.pending = asyncio.get_running_loop().call_later(_PACE_S, self.next, left)

    def next(self, left: int) -> None:
        if left:
            self.transport.write(_CHUNK)
            self.more(left - 1)
        else:
            self.transport.write(_LAST)


def header(head: bytes, name: bytes) -> str:
    """Return a header's value out of a whole head."""
    return head.partition(b"\r\n" + name + b": ")[2].partition(b"\r\n")[0].decode()


async def backend(chunks: int, *, reports: bool = False) -> None:
    """Serve HTTP and one worker stream; print both ports.

    A gateway sees a request's end itself; other fronts hear of it by `reports`, as agents make them.
    """
    ended: asyncio.Queue[bytes] | None = asyncio.Queue() if reports else None
    loop = asyncio.get_running_loop()
    files = ModelFiles.read(_TOKENIZER) if _TOKENIZER.is_dir() else None
    http = await loop.create_server(lambda: Backend(chunks, files, ended), "127.0.0.1", 0, backlog=1024)

    async def subscribe(requests: AsyncIterator[bytes], _: object) -> AsyncIterator[bytes]:
        del requests
        worker = FakeWorker("w0", service="s", can_prefill=True)
        identity = worker.identity()
        identity.identity.tokenizer_digest = files.digest if files else ""
        for message in (identity, worker.status()):
            message.sent_at = time.time()
            yield message.SerializeToString()
        while ended is not None:
            head = await ended.get()
            prompt_tokens = int(header(head, b"x-inferplane-prompt-tokens") or 0)
            # It answers at once and had nothing cached, and says so: requests wait for an engine of which nothing
            # is learned, or that takes its time.
            message = worker.report(
                header(head, b"x-request-id"),
                prompt_tokens=prompt_tokens,
                cached_tokens=0,
                prefill_s=0.0005,
                tpot_s=0.0005,
            )
            message.report.router_epoch = int(header(head, b"x-inferplane-router-epoch") or 0)
            yield message.SerializeToString()
        while True:
            await asyncio.sleep(1)
            yield worker.heartbeat().SerializeToString()

    server = grpc.aio.server()
    handler = grpc.stream_stream_rpc_method_handler(
        subscribe, request_deserializer=wire.SubscriberMessage.FromString, response_serializer=bytes
    )
    calls = grpc.method_handlers_generic_handler("inferplane.v1.WorkerStream", {"Subscribe": handler})
    server.add_generic_rpc_handlers((calls,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{http.sockets[0].getsockname()[1]} {port}\n")
    sys.stdout.flush()
    await http.serve_forever()


# The client.


class Load(asyncio.Protocol):
    """One connection that asks again as soon as it is answered."""

    transport: asyncio.Transport

    def __init__(self, tally: "Tally") -> None:
        self.tally = tally
        self.got = b""
        self.sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.ask()

    def ask(self) -> None:
        self.got = b""
        self.sent_at = time.perf_counter()
        self.transport.write(next(self.tally.requests))

    def data_received(self, data: bytes) -> None:
        self.tally.chunks += data.count(b"data: ")
        self.got = data if not self.got else (self.got + data)[-8192:]
        done = self.got.endswith(_LAST) if self.tally.stream else self.got.endswith(_JSON[-20:])
        if done:
            self.tally.latencies.append(time.perf_counter() - self.sent_at)
            self.ask()


class Tally:
    """What a run asked and got."""

    def __init__(self, *, stream: bool) -> None:
        self.stream = stream
        self.requests = itertools.cycle([chat(number, stream=stream) for number in range(_PROMPTS)])
        self.latencies: list[float] = []
        self.chunks = 0


async def load(port: int, pid: int, *, connections: int, seconds: float, stream: bool) -> dict[str, float]:
    """Keep `connections` busy; return CPU of `pid` per request and per chunk, and latency."""
    tally = Tally(stream=stream)
    loop = asyncio.get_running_loop()
    transports = [(await loop.create_connection(lambda: Load(tally), "127.0.0.1", port))[0] for _ in range(connections)]
    await asyncio.sleep(min(1.0, seconds / 3))
    tally.latencies.clear()
    tally.chunks = 0
    before, began = cpu_s(pid), time.perf_counter()
    await asyncio.sleep(seconds)
    spent, took = cpu_s(pid) - before, time.perf_counter() - began
    requests, chunks = len(tally.latencies), tally.chunks
    latencies = sorted(tally.latencies) or [float("nan")]
    for transport in transports:
        transport.abort()
    return {
        "requests": requests,
        "per_s": requests / took,
        "cpu_us_per_request": spent / max(1, requests) * 1e6,
        "cpu_us_per_chunk": spent / max(1, chunks) * 1e6,
        "p50_us": latencies[len(latencies) // 2] * 1e6,
        "p99_us": latencies[int(len(latencies) * 0.99)] * 1e6,
    }


# Processes.


@contextlib.contextmanager
def process(*argv: str) -> Generator[subprocess.Popen[str]]:
    child = subprocess.Popen([sys.executable, *argv], stdout=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        child.terminate()
        child.wait(10)


def first_line(child: subprocess.Popen[str]) -> list[int]:
    assert child.stdout is not None
    return [int(word) for word in child.stdout.readline().split()]


def write_files(folder: Path, http: int, stream: int, *, processes: int = 1) -> Path:
    folder.mkdir(exist_ok=True)
    worker = CatalogueWorker(
        worker_id="w0",
        service="s",
        pool="d",
        role=WorkerRole.DECODE,
        revision="r1",
        http_address=f"127.0.0.1:{http}",
        stream_address=f"127.0.0.1:{stream}",
    )
    service = CatalogueService(name="s", served_names=("m",))
    (folder / "catalogue.json").write_text(
        Catalogue(generation=1, services=(service,), workers=(worker,)).model_dump_json(by_alias=True)
    )
    listen = dict.fromkeys(("http", "grpc", "metrics"), "127.0.0.1:0") | {"report": str(folder / "report.json")}
    config: dict[str, Any] = {
        "listen": listen,
        "discovery": {"file": str(folder / "catalogue.json")},
        "cacheDir": str(folder),
    }
    config["processes"] = processes
    (folder / "router.json").write_text(json.dumps(config))
    return folder / "router.json"


async def wait_for_router(folder: Path, *, deadline_s: float = 180.0) -> int:
    """Return the router's port once a request is answered through it, with tokens where there is a tokenizer."""
    async with asyncio.timeout(deadline_s):
        while not (folder / "report.json").exists():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.1)
        ports = json.loads((folder / "report.json").read_text())
        port = int(ports["http"].rpartition(":")[2])
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(chat(0))
            status = await reader.readline()
            writer.close()
            if b" 200 " in status and (not _TOKENIZER.is_dir() or await has_tokens(ports["metrics"])):
                return port
            await asyncio.sleep(0.2)


async def has_tokens(metrics: str) -> bool:
    """Whether the router has counted the tokens of a prompt yet."""
    host, _, port = metrics.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /metrics HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n")
    shown = await reader.read(-1)
    writer.close()
    counts = [line for line in shown.splitlines() if b"gateway_prompt_tokens" in line and b"_count" in line]
    return any(float(line.rsplit(b" ", 1)[1]) > 0 for line in counts)


async def measure(port: int, pid: int, seconds: float) -> dict[str, dict[str, float]]:
    return {
        "busy": await load(port, pid, connections=32, seconds=seconds, stream=False),
        "alone": await load(port, pid, connections=1, seconds=seconds / 2, stream=False),
        "streams": await load(port, pid, connections=64, seconds=seconds, stream=True),
    }


def rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 1) for name, value in values.items()}


@contextlib.asynccontextmanager
async def running_router(
    folder: Path, backend: tuple[int, int], *, name: str = "ours", processes: int = 1
) -> AsyncGenerator[Peer]:
    """Run a router over the stand-in agent."""
    config = write_files(folder / name, *backend, processes=processes)
    with process("-m", "inferplane_router", "--config", str(config), "--log-level", "error") as router:
        yield Peer(name, await wait_for_router(folder / name), router.pid)


async def run(seconds: float, chunks: int, rounds: int, processes: int) -> dict[str, Any]:
    me = str(Path(__file__))
    shares: list[int] = []
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        agent = stack.enter_context(process(me, "--backend", str(chunks)))
        http, stream = first_line(agent)
        bare = stack.enter_context(process(str(_BARE_PROXY), "--upstream", f"127.0.0.1:{http}"))
        bare_port = first_line(bare)[0]
        ours = await stack.enter_async_context(running_router(folder, (http, stream)))
        peers, skipped = stack.enter_context(running_peers(folder, http))
        sides = [ours, Peer("bare_proxy", bare_port, bare.pid), *peers]
        if processes > 1:
            several = running_router(folder, (http, stream), name=f"processes_{processes}", processes=processes)
            sides.append(await stack.enter_async_context(several))
            shares = await split(sides[-1].port, sides[-1].pid)
        rows = [{side.name: await measure(side.port, side.pid, seconds) for side in sides} for _ in range(rounds)]
        direct = await load(http, agent.pid, connections=1, seconds=seconds / 2, stream=False)
        memory = {side.name: pss_mib(side.pid) for side in sides}
    split_over = {"connections_split": shares} if shares else {}
    return summary(rows, direct, memory, skipped) | split_over


Row = dict[str, dict[str, dict[str, float]]]
"""What each side gave in one round: part of the run, name of the figure."""


def summary(
    rows: list[Row], direct: dict[str, float], memory: dict[str, float], skipped: dict[str, str]
) -> dict[str, Any]:
    for row in rows:
        for name, parts in row.items():
            for part, seen in parts.items():
                print(f"{part:8} {name:24} {rounded(seen)}")

    def best(side: str, part: str, key: str) -> float:
        return min(row[side][part][key] for row in rows)

    def figures(side: str) -> dict[str, float]:
        return {
            "cpu_us_per_request": round(best(side, "busy", "cpu_us_per_request"), 1),
            "cpu_us_per_chunk": round(best(side, "streams", "cpu_us_per_chunk"), 1),
            "added_p50_us": round(best(side, "alone", "p50_us") - direct["p50_us"], 1),
            "pss_mib": round(memory[side], 1),
        }

    found = {side: figures(side) for side in memory}
    ours = found.pop("ours")
    ratios = {
        f"{key}_vs_{side}": round(ours[key] / theirs[key], 2)
        for side, theirs in found.items()
        for key in ("cpu_us_per_request", "cpu_us_per_chunk")
    }
    known: dict[str, Any] = {**found, **{name: {"skipped": why} for name, why in skipped.items()}}
    return {"bench": "gateway", **ours, **ratios, "tokens": _TOKENIZER.is_dir(), "vs": known}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--chunks", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--processes", type=int, default=1, help="above 1: also a router of so many gateway processes")
    parser.add_argument("--backend", type=int, metavar="CHUNKS", help=argparse.SUPPRESS)
    parser.add_argument("--reports", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.backend:
        uvloop.run(backend(given.backend, reports=given.reports))
        return
    print(json.dumps(uvloop.run(run(given.seconds, given.chunks, given.rounds, given.processes))))


if __name__ == "__main__":
    main()
