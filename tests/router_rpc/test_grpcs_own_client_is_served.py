"""The server on a real socket, asked by gRPC's own client, plain and over TLS."""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import grpc
import pytest
import uvloop

from inferplane_router.rpc.call import Call, Listener
from inferplane_router.rpc.coroutines import streaming, unary
from inferplane_router.rpc.health import Health
from inferplane_router.rpc.server import RpcServer
from inferplane_router.rpc.status import CallError, Status
from inferplane_runtime.certificates import ServedCertificate
from inferplane_workers.testing import until
from self_signed import self_signed

# The library has no types.
health_messages: Any = import_module("grpc_health.v1.health_pb2")
health_calls: Any = import_module("grpc_health.v1.health_pb2_grpc")
SOON_S = 60.0


def duplex(channel: grpc.aio.Channel) -> Any:
    """Begin an echo."""
    untyped: Any = channel
    return untyped.stream_stream("/t/Echo")()


def unary_call(channel: grpc.aio.Channel, path: str) -> Any:
    untyped: Any = channel
    return untyped.unary_unary(path)


def answers_of(channel: grpc.aio.Channel, path: str) -> Any:
    untyped: Any = channel
    return untyped.unary_stream(path)


class Echo:
    def __init__(self, call: Call) -> None:
        self.call = call
        self.left = False

    def message(self, data: bytes) -> None:
        self.call.send(data)

    def said_all(self) -> None:
        self.call.finish()

    def gone(self) -> None:
        self.left = True


class World:
    def __init__(self) -> None:
        self.echoes: list[Echo] = []
        self.ended = asyncio.Event()
        self.health = Health()
        self.server = RpcServer(
            {
                b"/t/Echo": self._echo,
                b"/t/Reverse": unary(self._reverse),
                b"/t/Count": streaming(self._count),
                b"/t/Wait": unary(self._wait),
                **self.health.methods(),
            }
        )

    def _echo(self, call: Call) -> Listener:
        self.echoes.append(Echo(call))
        return self.echoes[-1]

    async def _reverse(self, data: bytes) -> bytes:
        if not data:
            raise CallError(Status.NOT_FOUND, "nothing to reverse")
        return data[::-1]

    async def _count(self, data: bytes) -> AsyncIterator[bytes]:
        for number in range(int(data)):
            yield b"%d" % number

    async def _wait(self, _: bytes) -> bytes:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        return b""


def run(scenario: Callable[[World, grpc.aio.Channel], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(SOON_S):
            world = World()
            port = await world.server.start("127.0.0.1", 0)
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                await scenario(world, channel)
            await world.server.stop(0)

    uvloop.run(main())


def test_messages_of_any_size_come_back_on_many_streams_at_once() -> None:
    async def scenario(_: World, channel: grpc.aio.Channel) -> None:
        async def talk(size: int) -> list[bytes]:
            stream = duplex(channel)
            for number in range(3):
                await stream.write(b"%d" % number * size)
            await stream.done_writing()
            return [answer async for answer in stream]

        sizes = (0, 1, 100, 70_000, 1_300_000)
        answers = await asyncio.gather(*(talk(size) for size in sizes))

        assert answers == [[b"0" * size, b"1" * size, b"2" * size] for size in sizes]

    run(scenario)


def test_coroutines_answer_once_often_or_with_an_error() -> None:
    async def scenario(_: World, channel: grpc.aio.Channel) -> None:
        reverse, count = unary_call(channel, "/t/Reverse"), answers_of(channel, "/t/Count")

        assert await reverse(b"abc") == b"cba"
        assert [each async for each in count(b"3")] == [b"0", b"1", b"2"]

        with pytest.raises(grpc.aio.AioRpcError, match="nothing to reverse") as caught:
            await reverse(b"")

        assert caught.value.code() is grpc.StatusCode.NOT_FOUND

        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await anext(aiter(count(b"many")))

        assert caught.value.code() is grpc.StatusCode.INTERNAL

    run(scenario)


def test_a_caller_that_leaves_is_noticed() -> None:
    async def scenario(it: World, channel: grpc.aio.Channel) -> None:
        stream = duplex(channel)
        await stream.write(b"here")
        await stream.read()
        stream.cancel()
        waits = unary_call(channel, "/t/Wait")
        with pytest.raises(grpc.aio.AioRpcError):
            await waits(b"", timeout=0.05)
        await it.ended.wait()
        await until(lambda: it.echoes[0].left)

    run(scenario)


def test_what_runs_when_the_server_stops_may_end() -> None:
    async def scenario(it: World, channel: grpc.aio.Channel) -> None:
        stream = duplex(channel)
        await stream.write(b"first")
        await stream.read()
        stopping = asyncio.create_task(it.server.stop(SOON_S))
        await stream.write(b"second")

        assert await stream.read() == b"second"

        await stream.done_writing()
        await stopping

        assert await stream.code() is grpc.StatusCode.OK

    run(scenario)


def test_who_watches_a_services_health_hears_every_change() -> None:
    async def scenario(it: World, channel: grpc.aio.Channel) -> None:
        stub = health_calls.HealthStub(channel)
        statuses = health_messages.HealthCheckResponse
        watching = stub.Watch(health_messages.HealthCheckRequest(service="s"))
        seen = [(await watching.read()).status]
        for serving in (False, True, True, False):
            it.health.set("s", serving=serving)
        seen += [(await watching.read()).status for _ in range(3)]

        assert seen == [statuses.SERVICE_UNKNOWN, statuses.NOT_SERVING, statuses.SERVING, statuses.NOT_SERVING]

        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Check(health_messages.HealthCheckRequest(service="other"))

        assert caught.value.code() is grpc.StatusCode.NOT_FOUND

    run(scenario)


def test_a_renewed_certificate_is_shown_to_the_next_caller(tmp_path: Path) -> None:
    async def main() -> None:
        server = World().server
        shown, newer = self_signed(tmp_path / "shown", "one"), self_signed(tmp_path / "newer", "two")
        served = ServedCertificate(shown, protocols=("h2",))
        port = await server.start("127.0.0.1", 0, certificate=served)
        for trusted in (shown, newer):
            trusted.chain.replace(shown.chain)
            trusted.key.replace(shown.key)
            credentials = grpc.ssl_channel_credentials(shown.chain.read_bytes())
            options = (("grpc.use_local_subchannel_pool", 1),)
            async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options=options) as channel:
                assert await unary_call(channel, "/t/Reverse")(b"ab") == b"ba"
        await server.stop(0)

    uvloop.run(main())


def test_a_caller_that_does_not_say_goodbye_keeps_no_socket_open(tmp_path: Path) -> None:
    async def main() -> None:
        server = World().server
        shown = self_signed(tmp_path / "shown", "one")
        port = await server.start("127.0.0.1", 0, certificate=ServedCertificate(shown, protocols=("h2",)))
        trust = ssl.create_default_context(cafile=shown.chain)
        trust.set_alpn_protocols(["h2"])

        def greet() -> ssl.SSLSocket:
            plain = socket.create_connection(("127.0.0.1", port), timeout=SOON_S)
            caller = trust.wrap_socket(plain, server_hostname="127.0.0.1")
            caller.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            caller.recv(1)
            return caller

        with await asyncio.to_thread(greet) as caller:
            await server.stop(0)
            # Below TLS, where only the end of the connection, not of the conversation, ends the reading.
            with socket.socket(fileno=os.dup(caller.fileno())) as below:
                below.settimeout(SOON_S)
                while await asyncio.to_thread(below.recv, 65_536):
                    pass

    uvloop.run(main())
