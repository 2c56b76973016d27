"""The blocks that a worker has now, by its own word: a stream that ends with the first snapshot.

The snapshot of load comes behind those of blocks (`worker.proto`), so it says that nothing is missing.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import grpc
import numpy as np

from inferplane_api.proto import worker_pb2 as wire
from inferplane_router.core.index_check import Held, Place
from inferplane_router.core.roster import PLANES
from inferplane_router.core.values import Hashes
from inferplane_router.streams.worker_stream import METHOD, PROTOCOL_VERSION

_OPTIONS: Final = (("grpc.max_receive_message_length", 64 * 1024 * 1024), ("grpc.use_local_subchannel_pool", 1))
_HELLO: Final = wire.Hello(protocol_version=PROTOCOL_VERSION, component="diagnose", want_blocks=True)


class NoSnapshotError(Exception):
    """The worker did not say what it has; the message says why, for a person."""


async def read_blocks(address: str, *, deadline_s: float = 10.0) -> Held:
    """Ask the agent's stream at host:port; raises NoSnapshotError."""
    found: dict[Place, list[Hashes]] = {}
    try:
        async with (
            asyncio.timeout(deadline_s),
            grpc.aio.insecure_channel(address, options=_OPTIONS) as channel,
            aclosing(_messages(channel)) as messages,
        ):
            async for message in messages:
                if message.HasField("load_snapshot"):
                    return {place: np.concatenate(parts) for place, parts in found.items()}
                if message.HasField("block_snapshot"):
                    _note(found, message.block_snapshot)
    except TimeoutError:
        raise NoSnapshotError(f"the agent at {address} told no snapshot within {deadline_s:g} s") from None
    except grpc.aio.AioRpcError as error:
        raise NoSnapshotError(f"the agent at {address} does not answer ({error.code().name})") from error
    raise NoSnapshotError(f"the agent at {address} ended its stream before the snapshot was whole")


async def _messages(channel: grpc.aio.Channel) -> AsyncGenerator[wire.WorkerMessage]:
    subscribe: grpc.aio.StreamStreamMultiCallable[wire.SubscriberMessage, wire.WorkerMessage] = channel.stream_stream(
        METHOD,
        request_serializer=wire.SubscriberMessage.SerializeToString,
        response_deserializer=wire.WorkerMessage.FromString,
    )
    call = subscribe()
    await call.write(wire.SubscriberMessage(hello=_HELLO))
    while isinstance(message := await call.read(), wire.WorkerMessage):
        yield message


def _note(found: dict[Place, list[Hashes]], snapshot: wire.BlockSnapshot) -> None:
    """Keep what lies in the worker's own planes: a shared store is no worker's."""
    if (plane := PLANES.get(snapshot.plane)) is None:
        return
    if snapshot.first:
        found.pop((snapshot.dp_rank, plane), None)
    keys = np.frombuffer(snapshot.hashes, "<u8").astype(np.uint64, copy=False)
    found.setdefault((snapshot.dp_rank, plane), []).append(keys)
