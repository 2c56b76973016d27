"""Sockets of callers: accepts them, hands their bytes to connections, ends them in peace.

Invariant: a connection whose other end does not read is not read from either, so what it can make us keep is bounded.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from inferplane_router.rpc.call import Method
from inferplane_router.rpc.connection import Connection, RpcLimits
from inferplane_runtime.certificates import ServedCertificate

_BACKLOG = 1024
_PARTING_S = 1.0  # for last bytes, and TLS's goodbye, to reach the other end


class RpcServer:
    """Serves methods, by the path that names each: `/package.Service/Method`."""

    def __init__(self, methods: Mapping[bytes, Method], *, limits: RpcLimits | None = None) -> None:
        self._methods = methods
        self._limits = limits or RpcLimits()
        self._server: asyncio.Server | None = None
        self._sockets: set[_Socket] = set()
        self._empty = asyncio.Event()
        self._certificate: ServedCertificate | None = None
        self.stopping = False

    async def start(
        self, host: str, port: int, *, reuse_port: bool = False, certificate: ServedCertificate | None = None
    ) -> int:
        """Listen; return the port."""
        self._certificate = certificate
        ssl = None if certificate is None else certificate.context
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._accept, host, port, ssl=ssl, backlog=_BACKLOG, reuse_port=reuse_port or None
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self, grace_s: float) -> None:
        """Take no more calls, give those under way `grace_s` seconds to end, then end them."""
        if self._server is not None:
            self._server.close()
        self.stopping = True
        for each in tuple(self._sockets):
            each.connection.leave()
        await self._until_empty(grace_s)
        for each in tuple(self._sockets):
            each.end()
        # A loop that is closed under a socket that is still parting leaks the socket.
        await self._until_empty(_PARTING_S)
        for each in tuple(self._sockets):
            each.abort()
        await self._until_empty(_PARTING_S)

    async def _until_empty(self, patience_s: float) -> None:
        if not self._sockets:
            return
        self._empty.clear()
        # Not wait_for: in Python 3.11 it swallows a cancellation that comes with the last socket's end.
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._empty.wait()

    def joined(self, each: "_Socket") -> None:
        self._sockets.add(each)

    def left(self, each: "_Socket") -> None:
        self._sockets.discard(each)
        if not self._sockets:
            self._empty.set()

    def _accept(self) -> asyncio.Protocol:
        if self._certificate is not None:
            self._certificate.renew()
        return _Socket(self, self._methods, self._limits)


class _Socket(asyncio.Protocol):
    """One caller's socket."""

    __slots__ = ("_limits", "_methods", "_server", "_transport", "connection")

    _transport: asyncio.Transport
    connection: Connection

    def __init__(self, server: RpcServer, methods: Mapping[bytes, Method], limits: RpcLimits) -> None:
        self._server = server
        self._methods = methods
        self._limits = limits

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = made = cast("asyncio.Transport", transport)
        self.connection = Connection(self._methods, limits=self._limits, write=made.write, close=made.close)
        self._server.joined(self)
        self.connection.begin()
        if self._server.stopping:  # accepted before, made only now
            self.connection.leave()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's signature
        self._server.left(self)
        self.connection.lost()

    def data_received(self, data: bytes) -> None:
        self.connection.receive(data)

    def pause_writing(self) -> None:
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._transport.resume_reading()

    def end(self) -> None:
        """Write what is left to write, then close."""
        self.connection.lost()
        self._transport.close()

    def abort(self) -> None:
        """Close without a word."""
        self._transport.abort()
