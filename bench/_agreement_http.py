"""A real cache-aware router as a process, with workers on loopback that answer when they are told to.

`sglang_router` and `vllm_router` share their command line as far as it is used here.  A prompt is sent as text with a
letter a token, so that lengths and common beginnings are those of the tokens.
"""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32]
_LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-", np.uint8)
_START_S = 60.0
_OK, _UNKNOWN = b"200", b"404"
_ANSWER = json.dumps({"id": "1", "object": "text_completion", "choices": [{"index": 0, "text": "x"}]}).encode()
_ABOUT = json.dumps({"data": [{"id": "model"}], "model_path": "model", "version": "1", "is_generation": True}).encode()


@dataclass(slots=True)
class Got:
    """A request at a worker."""

    worker: int
    may_end: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class Peer:
    """Requests that a router has in its hands, by number."""

    port: int
    got: "asyncio.Queue[Got]"
    _open: dict[int, tuple[Got, "asyncio.Task[bytes]"]] = field(
        default_factory=dict[int, tuple[Got, "asyncio.Task[bytes]"]]
    )

    async def came(self, number: int, tokens: Tokens) -> int:
        """Send a request; return the number of the worker that got it."""
        text = _LETTERS[tokens % _LETTERS.shape[0]].tobytes().decode()
        body = json.dumps({"model": "model", "prompt": text, "max_tokens": 1}).encode()
        call = asyncio.create_task(_post(self.port, body), name=f"request {number}")
        got = await asyncio.wait_for(self.got.get(), _START_S)
        self._open[number] = got, call
        return got.worker

    async def prefilled(self, number: int) -> None:
        """Say nothing: such a router counts requests."""

    async def ended(self, number: int) -> None:
        got, call = self._open.pop(number)
        got.may_end.set()
        answer = await call
        if b" 200 " not in answer.partition(b"\r\n")[0]:
            raise RuntimeError(f"request {number} failed: {answer[:300]!r}")

    async def close(self) -> None:
        """End what the recorded run did not end."""
        for number in tuple(self._open):
            await self.ended(number)


@contextlib.asynccontextmanager
async def http_peer(python: Path, module: str, workers: int, extra: Sequence[str]) -> AsyncIterator[Peer]:
    """Start workers and a router before them; end both."""
    async with contextlib.AsyncExitStack() as stack:
        got: asyncio.Queue[Got] = asyncio.Queue()
        ports = [await _worker(stack, number, got) for number in range(workers)]
        port = _free_port()
        urls = [f"http://127.0.0.1:{each}" for each in ports]
        process = await asyncio.create_subprocess_exec(
            str(python), "-m", f"{module}.launch_router", "--host", "127.0.0.1", "--port", str(port),
            "--prometheus-port", str(_free_port()), "--policy", "cache_aware", "--log-level", "error",
            "--worker-urls", *urls, *extra,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        stack.push_async_callback(_end, process)
        await _until_ready(port, process)
        peer = Peer(port, got)
        yield peer
        await peer.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 10.0)
        except TimeoutError:
            process.kill()
            await process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


async def _until_ready(port: int, process: asyncio.subprocess.Process) -> None:
    """Wait until the router has its workers: it says so at /readiness, or at /health where it has no other."""
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        if process.returncode is not None:
            raise RuntimeError(f"the router ended with status {process.returncode} before it was ready")
        with contextlib.suppress(OSError):
            said = await _status(port, b"/readiness")
            if said == _OK or (said == _UNKNOWN and await _status(port, b"/health") == _OK):
                return
        await asyncio.sleep(0.2)
    raise TimeoutError(f"the router on port {port} was not ready within {_START_S:.0f} s")


async def _status(port: int, path: bytes) -> bytes:
    first = (await _call(port, b"GET %s HTTP/1.1" % path, b"")).partition(b"\r\n")[0]
    return first.split(b" ")[1] if first else b""


async def _worker(stack: contextlib.AsyncExitStack, number: int, got: "asyncio.Queue[Got]") -> int:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                start = await _request(reader)
                if start.startswith("POST /v1/completions "):
                    here = Got(number)
                    got.put_nowait(here)
                    await here.may_end.wait()
                    _write(writer, b"200 OK", _ANSWER)
                elif start.startswith("GET "):
                    _write(writer, b"200 OK", _ABOUT)
                else:  # to be given a prompt's tokens, for one: then text decides
                    _write(writer, b"404 Not Found", b"{}")
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    stack.callback(server.close)
    port: int = server.sockets[0].getsockname()[1]
    return port


async def _request(reader: asyncio.StreamReader) -> str:
    """Read one request and return its first line."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    lines = head.split("\r\n")
    lengths = [line.partition(":")[2] for line in lines if line.lower().startswith("content-length:")]
    await reader.readexactly(int(lengths[0]) if lengths else 0)
    return lines[0]


def _write(writer: asyncio.StreamWriter, status: bytes, body: bytes) -> None:
    writer.write(b"HTTP/1.1 %s\r\nContent-Type: application/json\r\n" % status)
    writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))


async def _post(port: int, body: bytes) -> bytes:
    return await _call(port, b"POST /v1/completions HTTP/1.1", body)


async def _call(port: int, start: bytes, body: bytes) -> bytes:
    """Return the whole answer, up to the end of its connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = (start, b"Host: router", b"Content-Type: application/json", b"Connection: close")
    writer.write(b"\r\n".join((*lines, b"Content-Length: %d" % len(body), b"", body)))
    try:
        await writer.drain()
        return await reader.read()
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
