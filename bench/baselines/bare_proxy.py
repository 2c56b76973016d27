"""The least that a proxy in Python could do: `python bench/baselines/bare_proxy.py --port N --upstream HOST:PORT...`.

What the gateway and the agent are compared with in the same run.  It keeps upstream connections, reads a whole request
and parses its body (so that something could look at it), and relays answers byte for byte.  It checks nothing, limits
nothing and survives nothing: whatever a real proxy adds is the price of that.
"""

import argparse
import asyncio
import itertools
import sys
from typing import cast

import orjson
import uvloop

_END = b"\r\n\r\n"
_LENGTH = b"content-length:"
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_UNKNOWN, _CHUNKED = -1, -2


def body_length(head: bytes) -> int:
    """Return the content-length of a head, `_CHUNKED` when it has none."""
    lower = head.lower()
    at = lower.find(_LENGTH)
    if at < 0:
        return _CHUNKED
    end = lower.find(b"\r\n", at)
    return int(lower[at + len(_LENGTH) : end if end > 0 else len(lower)])


class Upstream(asyncio.Protocol):
    """One kept connection to a backend."""

    transport: asyncio.Transport

    def __init__(self, pool: "list[Upstream]") -> None:
        self.pool = pool
        self.client: Client | None = None
        self.head = b""
        self.left = _UNKNOWN
        self.tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's signature
        if self in self.pool:
            self.pool.remove(self)
        if self.client is not None:
            self.client.transport.close()

    def carry(self, client: "Client", data: bytes) -> None:
        self.client, self.head, self.left, self.tail = client, b"", _UNKNOWN, b""
        self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        client = self.client
        if client is None:
            return
        client.transport.write(data)
        if self.left == _UNKNOWN:
            self.head += data
            at = self.head.find(_END)
            if at < 0:
                return
            length = body_length(self.head[:at])
            got = len(self.head) - at - len(_END)
            self.left = _CHUNKED if length == _CHUNKED else length - got
            data = self.head[at:] if length == _CHUNKED else data
        elif self.left >= 0:
            self.left -= len(data)
        if self.left == _CHUNKED:
            # Framing is not followed: the last chunk at the end of a read ends the answer.
            self.tail = (self.tail + data)[-len(_LAST_CHUNK) :]
            if self.tail == _LAST_CHUNK:
                self.done(client)
        elif self.left == 0:
            self.done(client)

    def done(self, client: "Client") -> None:
        self.client = None
        self.pool.append(self)
        client.finished()


class Client(asyncio.Protocol):
    """One client connection."""

    transport: asyncio.Transport

    def __init__(self, proxy: "Proxy") -> None:
        self.proxy = proxy
        self.buffer = b""
        self.upstream: Upstream | None = None
        self.dialing: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's signature
        if self.upstream is not None:
            self.upstream.client = None
            self.upstream.transport.abort()

    def data_received(self, data: bytes) -> None:
        self.buffer = self.buffer + data if self.buffer else data
        if self.upstream is None and self.dialing is None:
            self.feed()

    def feed(self) -> None:
        data = self.buffer
        at = data.find(_END)
        if at < 0:
            return
        length = max(0, body_length(data[:at]))
        end = at + len(_END) + length
        if len(data) < end:
            return
        if length:
            orjson.loads(data[at + len(_END) : end])
        self.buffer = data[end:]
        whole = data[:end] if len(data) != end else data
        backend = next(self.proxy.turns)
        pool = self.proxy.pools[backend]
        if pool:
            self.upstream = pool.pop()
            self.upstream.carry(self, whole)
        else:
            self.dialing = asyncio.get_running_loop().create_task(self.dial(backend, whole), name="dial")

    async def dial(self, backend: tuple[str, int], data: bytes) -> None:
        pool = self.proxy.pools[backend]
        loop = asyncio.get_running_loop()
        _, self.upstream = await loop.create_connection(lambda: Upstream(pool), *backend)
        self.dialing = None
        self.upstream.carry(self, data)

    def finished(self) -> None:
        self.upstream = None
        if self.buffer:
            self.feed()


class Proxy:
    """Takes turns among backends."""

    def __init__(self, backends: list[tuple[str, int]]) -> None:
        self.pools: dict[tuple[str, int], list[Upstream]] = {address: [] for address in backends}
        self.turns = itertools.cycle(backends)


async def serve(port: int, backends: list[tuple[str, int]]) -> None:
    proxy = Proxy(backends)
    server = await asyncio.get_running_loop().create_server(lambda: Client(proxy), "127.0.0.1", port, backlog=1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description="the least that a proxy could do")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--upstream", action="append", required=True, metavar="HOST:PORT")
    given = parser.parse_args()
    addresses = [address.rpartition(":") for address in given.upstream]
    uvloop.run(serve(given.port, [(host, int(port)) for host, _, port in addresses]))


if __name__ == "__main__":
    main()
