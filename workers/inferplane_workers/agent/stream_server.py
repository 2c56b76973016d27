"""The worker stream over gRPC: one task reads a subscriber's messages, one writes what the hub has for it.

Messages leave as bytes, since the hub has serialised them already.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

import grpc
import structlog

from inferplane_api.proto import worker_pb2 as pb
from inferplane_workers.agent.stream_hub import Expected, StreamHub, Subscription
from inferplane_workers.agent.wire import HASH_BYTES

SERVICE: Final = "inferplane.v1.WorkerStream"
_HELLO_DEADLINE_S = 10.0
_MAX_SUBSCRIBERS = 256
_LONGEST_WORD = 128
"""Characters of a subscriber's own words that are logged."""
_MAX_EXPECTED_BYTES = 128 * 1024 * HASH_BYTES
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", 8 * 1024 * 1024),
    ("grpc.so_reuseport", 0),  # a port in use is an error, not two agents on one port
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
)
_log = structlog.get_logger("inferplane.agent.stream")

Requests = AsyncIterator[pb.SubscriberMessage]
Context = grpc.aio.ServicerContext[pb.SubscriberMessage, bytes]


class StreamServer:
    """Serves WorkerStream for one hub."""

    def __init__(self, hub: StreamHub, *, wall: Callable[[], float], heartbeat_s: float = 2.0) -> None:
        self._hub = hub
        self._wall = wall
        self._heartbeat_s = heartbeat_s
        self._server: grpc.aio.Server | None = None

    async def start(self, address: str) -> int:
        """Listen on host:port; return the port."""
        server = grpc.aio.server(options=_OPTIONS)
        handler = grpc.stream_stream_rpc_method_handler(
            self._subscribe,
            request_deserializer=pb.SubscriberMessage.FromString,
            response_serializer=_as_is,
        )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Subscribe": handler}),))
        port = server.add_insecure_port(address)
        await server.start()
        self._server = server
        return port

    async def stop(self) -> None:
        """End every stream; subscribers reconnect or forget this worker."""
        if self._server is not None:
            await self._server.stop(grace=0.5)

    async def _subscribe(self, requests: Requests, context: Context) -> AsyncIterator[bytes]:
        hello = await self._hello(requests, context)
        ready = asyncio.Event()
        ready.set()
        subscription = self._hub.join(epoch=hello.subscriber_epoch, wants_blocks=hello.want_blocks, wake=ready.set)
        component = hello.component[:_LONGEST_WORD]
        _log.info("subscriber joined", component=component, subscriber_epoch=hello.subscriber_epoch)
        reader = asyncio.create_task(self._read(requests, subscription), name="subscriber-reader")
        try:
            while not reader.done():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._heartbeat_s):
                        await ready.wait()
                if ready.is_set():
                    ready.clear()
                    for message in subscription.take(self._wall()):
                        yield message
                else:
                    yield subscription.heartbeat(self._wall())
        finally:
            subscription.close()
            reader.cancel()
            _log.info("subscriber left", component=component, overflows=subscription.overflows)

    async def _hello(self, requests: Requests, context: Context) -> pb.Hello:
        if self._hub.subscribers >= _MAX_SUBSCRIBERS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many subscribers")
        try:
            async with asyncio.timeout(_HELLO_DEADLINE_S):
                first = await anext(requests, None)
        except TimeoutError:
            first = None
        if first is None or first.WhichOneof("body") != "hello":
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first message must be Hello")
            raise AssertionError  # abort does not return
        return first.hello

    async def _read(self, requests: Requests, subscription: Subscription) -> None:
        async for message in requests:
            match message.WhichOneof("body"):
                case "resync":
                    _log.info("subscriber asks for a snapshot", reason=message.resync.reason[:_LONGEST_WORD])
                    subscription.fall_behind()
                case "expects":
                    for expect in message.expects.expects:
                        self._expect(expect, subscription)
                case _:
                    pass  # a newer subscriber's message

    def _expect(self, expect: pb.Expect, subscription: Subscription) -> None:
        if len(expect.hashes) <= _MAX_EXPECTED_BYTES:
            self._hub.expect(expect.request_id, Expected(expect.dp_rank, expect.hashes, subscription))


def _as_is(message: bytes) -> bytes:
    return message
