import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, cast

import grpc
import pytest
import structlog

from inferplane_api.proto import worker_pb2 as pb
from inferplane_api.proto import worker_pb2_grpc
from inferplane_workers.agent import wire
from inferplane_workers.agent.ledger import Change
from inferplane_workers.agent.stream_hub import StreamHub
from inferplane_workers.agent.stream_server import StreamServer
from inferplane_workers.agent.wire import Gauges, PlaneKey

HELLO = pb.SubscriberMessage(
    hello=pb.Hello(protocol_version=1, subscriber_epoch=5, component="router", want_blocks=True)
)


class State:
    """Two blocks, nothing running."""

    def identity_body(self) -> bytes:
        return wire.identity_body(pb.Identity(worker_id="w"))

    def status_body(self) -> bytes:
        return wire.status_body(pb.WorkerStatus(phase=pb.PHASE_READY))

    def planes(self) -> Iterable[tuple[PlaneKey, bytes]]:
        return [(PlaneKey(0), wire.pack([1, 2]))]

    def entries(self) -> Iterable[Change]:
        return ()

    def gauges(self) -> Iterable[Gauges]:
        return ()


class Served:
    def __init__(self) -> None:
        self.hub = StreamHub(state=State(), epoch=9, schedule=lambda _: None)
        self.server = StreamServer(self.hub, wall=lambda: 1.5, heartbeat_s=0.02)
        self.to_send: asyncio.Queue[pb.SubscriberMessage | None] = asyncio.Queue()

    async def requests(self) -> AsyncIterator[pb.SubscriberMessage]:
        while (message := await self.to_send.get()) is not None:
            yield message

    async def read(self, call: "Call", kind: str) -> pb.WorkerMessage:
        while True:
            message = await call.read()
            assert isinstance(message, pb.WorkerMessage), "the stream ended"
            if message.WhichOneof("body") == kind:
                return message


Call = grpc.aio.StreamStreamCall[pb.SubscriberMessage, pb.WorkerMessage]


def subscribe(channel: grpc.aio.Channel, requests: AsyncIterator[pb.SubscriberMessage]) -> Call:
    stub: Any = worker_pb2_grpc.WorkerStreamStub(channel)  # type: ignore[no-untyped-call]  # generated code
    return cast("Call", stub.Subscribe(requests))


async def talk() -> list[str]:
    served = Served()
    port = await served.server.start("127.0.0.1:0")
    seen: list[str] = []
    async with asyncio.timeout(30), grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = subscribe(channel, served.requests())
        await served.to_send.put(HELLO)
        for kind in ("identity", "status", "block_snapshot", "load_snapshot", "heartbeat"):
            message = await served.read(call, kind)
            assert (message.epoch, message.sent_at) == (9, 1.5)
            seen.append(kind)
        served.hub.blocks(PlaneKey(0), removed=[2], stored=[3])
        served.hub.flush()
        delta = (await served.read(call, "block_delta")).block_delta
        assert (wire.unpack(delta.removed), wire.unpack(delta.stored)) == ((2,), (3,))
        await served.to_send.put(pb.SubscriberMessage(resync=pb.Resync(reason="test")))
        await served.read(call, "block_snapshot")
        served.hub.accepted("r1")
        several = pb.Expects(expects=[pb.Expect(request_id=name, hashes=wire.pack([6])) for name in ("r1", "r2", "r3")])
        await served.to_send.put(pb.SubscriberMessage(expects=several))
        while any(served.hub.chain_of(name) is None for name in ("r1", "r2", "r3")):
            await served.read(call, "heartbeat")
        await served.to_send.put(None)
    await served.server.stop()
    seen.append(str(served.hub.subscribers))
    return seen


def test_a_subscriber_gets_snapshot_deltas_heartbeats_and_a_snapshot_on_demand() -> None:
    assert asyncio.run(talk()) == ["identity", "status", "block_snapshot", "load_snapshot", "heartbeat", "0"]


async def greet(first: pb.SubscriberMessage) -> grpc.StatusCode:
    served = Served()
    port = await served.server.start("127.0.0.1:0")
    async with asyncio.timeout(30), grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = subscribe(channel, served.requests())
        await served.to_send.put(first)
        with pytest.raises(grpc.aio.AioRpcError):
            await call.read()
        code: grpc.StatusCode = await call.code()
        await served.to_send.put(None)
    await served.server.stop()
    return code


def test_a_stream_without_a_greeting_is_refused() -> None:
    assert asyncio.run(greet(pb.SubscriberMessage(resync=pb.Resync()))) is grpc.StatusCode.INVALID_ARGUMENT


async def join_as(component: str) -> None:
    served = Served()
    port = await served.server.start("127.0.0.1:0")
    async with asyncio.timeout(30), grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = subscribe(channel, served.requests())
        await served.to_send.put(pb.SubscriberMessage(hello=pb.Hello(component=component)))
        await served.read(call, "identity")
        await served.to_send.put(None)
    await served.server.stop()


def test_a_subscribers_words_do_not_fill_the_log() -> None:
    with structlog.testing.capture_logs() as logged:
        asyncio.run(join_as("x" * 100_000))

    assert {"subscriber joined", "subscriber left"} <= {line["event"] for line in logged}
    assert all(len(str(line)) < 1000 for line in logged)
