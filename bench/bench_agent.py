"""CPU that the agent adds to a request and to a stream's chunk: `python bench/bench_agent.py [--requests N]`.

A stand-in engine answers at once, a client keeps 32 connections busy, and the CPU time of the agent's process between
two moments is divided by what passed through it.  A bare proxy, where there is one, takes the same load in the same
run, and so do peers that are installed (`baselines/peers.py`): quote the ratio, absolute times drift from run to run.
The last line is JSON.
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import orjson
import uvloop
from baselines.peers import running_peers

from inferplane_runtime.http.api import (
    Exchange,
    Headers,
    Limits,
    Request,
    Response,
    ResponseHead,
    UpstreamFailure,
)
from inferplane_runtime.http.client import UpstreamPool
from inferplane_runtime.http.server import HttpServer

_JSON = Headers(((b"content-type", b"application/json"),))
_STREAM = Headers(((b"content-type", b"text/event-stream; charset=utf-8"),))
_USAGE = {
    "prompt_tokens": 200,
    "total_tokens": 260,
    "completion_tokens": 60,
    "prompt_tokens_details": {"cached_tokens": 192},
}
_ANSWER = orjson.dumps({"id": "x", "choices": [{"index": 0, "text": "word " * 60}], "usage": _USAGE})
_CONNECTIONS = 32
_BARE_PROXY = Path(__file__).parent / "baselines" / "bare_proxy.py"
_TICKS = os.sysconf("SC_CLK_TCK")


# The stand-in engine.


class Engine:
    """Answers what an agent asks at its start, and completions without delay."""

    def __init__(self, chunks: int) -> None:
        self._chunks = chunks

    def __call__(self, request: Request, exchange: Exchange) -> None:
        if request.method == b"GET":
            body = {"version": "0", "data": [{"id": "m", "max_model_len": 4096}]}
            exchange.respond(Response(200, _JSON, orjson.dumps(body)))
        elif b'"stream":true' in request.body:
            exchange.start(ResponseHead(200, _STREAM))
            self._next(exchange, 1, counted=b'"include_usage":true' in request.body)
        else:
            exchange.respond(Response(200, _JSON, _ANSWER))

    def _next(self, exchange: Exchange, number: int, *, counted: bool) -> None:
        """Write one chunk a loop turn, as an engine writes one a step."""
        if exchange.closed:
            return
        if number > self._chunks:
            exchange.write(b"data: [DONE]\n\n")
            exchange.end()
            return
        chunk: dict[str, Any] = {
            "id": "cmpl-0123456789abcdef",
            "object": "text_completion",
            "created": 1_800_000_000,
            "model": "m",
            "choices": [{"index": 0, "text": " word", "logprobs": None, "finish_reason": None, "stop_reason": None}],
        }
        if counted:
            chunk["usage"] = {"prompt_tokens": 200, "total_tokens": 200 + number, "completion_tokens": number}
        exchange.write(b"data: " + orjson.dumps(chunk) + b"\n\n")
        asyncio.get_running_loop().call_later(0.001, lambda: self._next(exchange, number + 1, counted=counted))


async def serve_engine(port: int, chunks: int) -> None:
    server = HttpServer(Engine(chunks), limits=Limits())
    await server.start("127.0.0.1", port)
    await asyncio.Event().wait()


# The client.


class Reader:
    """Reads one answer; counts its pieces."""

    def __init__(self, done: "asyncio.Future[int]") -> None:
        self._done = done
        self._pieces = 0
        self._status = 0

    def on_head(self, head: ResponseHead) -> None:
        self._status = head.status

    def on_body(self, data: bytes) -> None:
        self._pieces += data.count(b"data: ") or 1

    def on_end(self) -> None:
        if self._status != HTTPStatus.OK:
            self._done.set_exception(RuntimeError(f"status {self._status}"))
        else:
            self._done.set_result(self._pieces)

    def on_failure(self, failure: UpstreamFailure, detail: str) -> None:
        self._done.set_exception(RuntimeError(f"{failure}: {detail}"))


async def load(
    port: int, requests: int, *, stream: bool, connections: int = _CONNECTIONS, latencies: list[float] | None = None
) -> int:
    """Send `requests` over some connections; return how many pieces came."""
    pool = UpstreamPool()
    body: dict[str, Any] = {"model": "m", "prompt": "word " * 200, "max_tokens": 60}
    if stream:
        body["stream"] = True
    raw = orjson.dumps(body)
    left = iter(range(requests))

    async def connection() -> int:
        pieces = 0
        for number in left:
            done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            headers = _JSON.plus((b"x-request-id", b"r%d" % number))
            request = Request(b"POST", b"/v1/completions", b"", headers, raw)
            began = time.perf_counter()
            pool.send(f"127.0.0.1:{port}", request, Reader(done), silence_s=30.0)
            pieces += await done
            if latencies is not None:
                latencies.append(time.perf_counter() - began)
        return pieces

    pieces = sum(await asyncio.gather(*(connection() for _ in range(connections))))
    await pool.close()
    return pieces


# The measurement.


def cpu_s(pid: int) -> float:
    """Return the user and system time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


@contextmanager
def process(command: Sequence[str], port: int) -> Generator[int]:
    """Run a server until the block ends; the block begins when it listens."""
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until_ready(port)
        yield running.pid
    finally:
        running.terminate()
        running.wait(timeout=30)


def wait_until_ready(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as probe:
                probe.sendall(b"GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
                if b" 200 " in probe.recv(64):
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise TimeoutError(f"nothing ready on port {port}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def pss_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def alone_p50_us(port: int, requests: int) -> float:
    """Return the median time of a request that is alone."""
    latencies: list[float] = []
    uvloop.run(load(port, requests, stream=False, connections=1, latencies=latencies))
    return statistics.median(latencies) * 1e6


def measure(pid: int, port: int, options: argparse.Namespace, direct_p50_us: float) -> dict[str, float]:
    """Return CPU microseconds a request and a chunk, latency added and memory."""
    uvloop.run(load(port, _CONNECTIONS * 10, stream=False))
    began = cpu_s(pid)
    uvloop.run(load(port, options.requests, stream=False))
    middle = cpu_s(pid)
    pieces = uvloop.run(load(port, options.streams, stream=True))
    ended = cpu_s(pid)
    found = {
        "cpu_us_per_request": (middle - began) * 1e6 / options.requests,
        "cpu_us_per_chunk": (ended - middle) * 1e6 / pieces,
        "added_p50_us": alone_p50_us(port, options.alone) - direct_p50_us,
        "pss_mib": pss_mib(pid),
    }
    return {name: round(value, 2) for name, value in found.items()}


def agent_command(port: int, engine_port: int, folder: str) -> list[str]:
    return [
        *(sys.executable, "-m", "inferplane_workers.agent", "--worker-id", "w", "--service", "s", "--pool", "p"),
        *("--role", "decode", "--model", "m", "--engine", "vllm", "--engine-url", f"http://127.0.0.1:{engine_port}"),
        *("--listen-http", f"127.0.0.1:{port}", "--listen-stream", "127.0.0.1:0", "--listen-metrics", "127.0.0.1:0"),
        *("--canary", "off", "--state-dir", folder, "--log-level", "error", "--drain-timeout", "1s"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--streams", type=int, default=320)
    parser.add_argument("--chunks", type=int, default=100)
    parser.add_argument("--alone", type=int, default=1000, help="requests of which each is alone")
    parser.add_argument("--serve-engine", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve_engine:
        uvloop.run(serve_engine(options.serve_engine, options.chunks))
        return
    engine_port, port = free_port(), free_port()
    engine = [sys.executable, __file__, "--serve-engine", str(engine_port), "--chunks", str(options.chunks)]
    bare = [sys.executable, str(_BARE_PROXY), "--port", str(port), "--upstream", f"127.0.0.1:{engine_port}"]
    with tempfile.TemporaryDirectory() as folder, process(engine, engine_port):
        direct = alone_p50_us(engine_port, options.alone)
        with process(agent_command(port, engine_port, folder), port) as pid:
            ours = measure(pid, port, options, direct)
        with process(bare, port) as pid:
            known: dict[str, Any] = {"bare_proxy": measure(pid, port, options, direct)}
        with running_peers(Path(folder), engine_port) as (peers, skipped):
            known |= {peer.name: measure(peer.pid, peer.port, options, direct) for peer in peers}
    ratios = {
        f"{key}_vs_{name}": round(ours[key] / theirs[key], 2)
        for name, theirs in known.items()
        for key in ("cpu_us_per_request", "cpu_us_per_chunk")
    }
    known |= {name: {"skipped": why} for name, why in skipped.items()}
    print(json.dumps({"bench": "agent", **ours, **ratios, "vs": known}))


if __name__ == "__main__":
    main()
