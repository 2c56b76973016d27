"""A snapshot of blocks over real gRPC: whole, or an error that says why there is none."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

import grpc
import numpy as np
import pytest

from inferplane_api.proto import worker_pb2 as wire
from inferplane_router.core.index_check import Held
from inferplane_router.core.index_kernels import DEVICE, HOST
from inferplane_router.streams.worker_blocks import NoSnapshotError, read_blocks


def blocks(
    *numbers: int, plane: wire.Plane = wire.PLANE_DEVICE, rank: int = 0, first: bool = True
) -> wire.WorkerMessage:
    packed = np.array(numbers, "<u8").tobytes()
    return wire.WorkerMessage(
        block_snapshot=wire.BlockSnapshot(dp_rank=rank, plane=plane, hashes=packed, first=first, last=True)
    )


END = wire.WorkerMessage(load_snapshot=wire.LoadSnapshot())


@dataclass
class Agent:
    """Says these messages, then nothing, or ends its stream."""

    says: Iterable[wire.WorkerMessage]
    stays: bool = True
    heard: list[wire.SubscriberMessage] = field(default_factory=list[wire.SubscriberMessage])

    async def subscribe(
        self, requests: AsyncIterator[wire.SubscriberMessage], _: object
    ) -> AsyncIterator[wire.WorkerMessage]:
        self.heard.append(await anext(requests))
        for message in self.says:
            yield message
        if self.stays:
            async for said in requests:
                self.heard.append(said)


async def read(agent: Agent) -> Held:
    server = grpc.aio.server()
    handler = grpc.stream_stream_rpc_method_handler(
        agent.subscribe,
        request_deserializer=wire.SubscriberMessage.FromString,
        response_serializer=wire.WorkerMessage.SerializeToString,
    )
    calls = grpc.method_handlers_generic_handler("inferplane.v1.WorkerStream", {"Subscribe": handler})
    server.add_generic_rpc_handlers((calls,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        return await read_blocks(f"127.0.0.1:{port}")
    finally:
        await server.stop(grace=None)


def test_all_messages_of_a_snapshot_make_one_set_for_each_rank_and_tier() -> None:
    store = blocks(9, plane=wire.PLANE_REMOTE)
    agent = Agent(
        [
            blocks(1, 2),
            blocks(3, first=False),
            blocks(4, plane=wire.PLANE_HOST),
            blocks(5, rank=1),
            store,
            END,
            blocks(7),
        ]
    )
    held = asyncio.run(read(agent))

    assert {place: keys.tolist() for place, keys in held.items()} == {
        (0, DEVICE): [1, 2, 3],
        (0, HOST): [4],
        (1, DEVICE): [5],
    }
    assert agent.heard[0].hello.want_blocks
    assert agent.heard[0].hello.component == "diagnose"


def test_a_stream_that_ends_before_is_no_snapshot() -> None:
    with pytest.raises(NoSnapshotError, match="ended its stream before the snapshot was whole"):
        asyncio.run(read(Agent([blocks(1)], stays=False)))
