"""A program that a loop of libuv starts while gRPC is at work is not lost between fork and exec."""

import asyncio
import itertools
from typing import Any

import grpc
import grpc.aio
import pytest
import uvloop

PROGRAMS = 100  # with gRPC's fork support one in twenty died


class Echo(grpc.GenericRpcHandler):
    """Answers any method with what it was sent."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        del handler_call_details
        return grpc.unary_unary_rpc_method_handler(self._answer)

    async def _answer(self, request: bytes, context: Any) -> bytes:
        del context
        return request


async def call_until(ended: asyncio.Event, port: int) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        echo: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/test/Echo")
        while not ended.is_set():
            await echo(b"a block of bytes" * 64)


async def started(count: int) -> list[int]:
    """Start and await programs one by one; return how each ended."""
    return [await (await asyncio.create_subprocess_exec("/bin/true")).wait() for _ in itertools.repeat(None, count)]


@pytest.mark.slow
def test_every_program_runs() -> None:
    async def main() -> list[int]:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((Echo(),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        ended = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(call_until(ended, port))
            codes = await started(PROGRAMS)
            ended.set()
        await server.stop(grace=None)
        return codes

    assert uvloop.run(main()) == [0] * PROGRAMS
