import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.asyncio

from inferplane_engine.identity import Adapter, KeySpace
from inferplane_engine.kv_events import BlockStored, EventBatch, PlaneChange, encode_batch
from inferplane_workers.agent.errors import ConfigError
from inferplane_workers.agent.kv_listener import END, KvListener, endpoint_of_rank
from inferplane_workers.agent.rank_blocks import RankBlocks
from inferplane_workers.testing import until


class Publisher:
    """vLLM's two sockets: a publisher, and a router that repeats batches."""

    def __init__(self, folder: Path) -> None:
        self.context = zmq.asyncio.Context.instance()
        self.events, self.replay = f"ipc://{folder}/events", f"ipc://{folder}/replay"
        self.pub = self.context.socket(zmq.PUB)
        self.pub.set(zmq.LINGER, 0)
        self.pub.bind(self.events)
        self.router = self.context.socket(zmq.ROUTER)
        self.router.set(zmq.LINGER, 0)
        self.router.bind(self.replay)
        self.log: list[bytes] = []
        self.asked: list[int] = []

    async def publish(self, name: int, *, dropped: bool = False) -> None:
        parent = name - 1 or None
        event = BlockStored((name,), parent, (name, name), 2, medium="GPU")
        self.log.append(encode_batch(EventBatch(float(name), (event,), 0)))
        if not dropped:
            await self.pub.send_multipart([b"topic", (len(self.log) - 1).to_bytes(8, "big"), self.log[-1]])  # pyright: ignore[reportUnknownMemberType]  # untyped in pyzmq

    async def serve_replays(self) -> None:
        while True:
            client, _, raw = await self.router.recv_multipart()
            start = int.from_bytes(raw, "big")
            self.asked.append(start)
            for number in range(start, len(self.log)):
                frames = [client, b"", b"topic", number.to_bytes(8, "big"), self.log[number]]
                await self.router.send_multipart(frames)  # pyright: ignore[reportUnknownMemberType]  # untyped in pyzmq
            await self.router.send_multipart([client, b"", b"", END, b""])  # pyright: ignore[reportUnknownMemberType]  # untyped in pyzmq

    def close(self) -> None:
        self.pub.close()
        self.router.close()


class Silent:
    def changed(self, dp_rank: int, changes: Iterable[PlaneChange]) -> None: ...

    def voided(self, dp_rank: int, reason: str) -> None: ...

    def trusted(self, dp_rank: int, *, trusted: bool, reason: str) -> None: ...

    def lost(self, dp_rank: int, batches: int) -> None: ...

    def problem(self, dp_rank: int, name: str, count: int) -> None: ...


Scenario = Callable[[Publisher, RankBlocks, KvListener], Coroutine[Any, Any, None]]


async def listen(folder: Path, scenario: Scenario) -> None:
    publisher = Publisher(folder)
    blocks = RankBlocks(0, KeySpace("m", "r", 2), adapters=Adapter, listener=Silent())
    listener = KvListener(
        blocks, events=publisher.events, replay=publisher.replay, progress=lambda: None, silence_s=0.05
    )
    tasks = [asyncio.create_task(listener.run()), asyncio.create_task(publisher.serve_replays())]
    try:
        await scenario(publisher, blocks, listener)
    finally:
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        publisher.close()


def test_what_was_published_before_is_replayed_and_what_follows_is_live(tmp_path: Path) -> None:
    async def scenario(publisher: Publisher, blocks: RankBlocks, listener: KvListener) -> None:
        for name in (1, 2, 3):
            await publisher.publish(name)
        listener.begin()
        await until(lambda: blocks.expected == 3)
        await publisher.publish(4)
        await until(lambda: blocks.expected == 4)

        assert blocks.blocks == 4

    asyncio.run(listen(tmp_path, scenario))


def test_a_dropped_last_batch_is_found_without_another_event(tmp_path: Path) -> None:
    async def scenario(publisher: Publisher, blocks: RankBlocks, listener: KvListener) -> None:
        listener.begin()
        await until(lambda: publisher.asked == [0] or len(publisher.asked) > 1)
        await publisher.publish(1, dropped=True)
        await until(lambda: blocks.expected == 1)

        assert blocks.blocks == 1

    asyncio.run(listen(tmp_path, scenario))


def test_a_gap_in_the_live_batches_is_asked_for(tmp_path: Path) -> None:
    async def scenario(publisher: Publisher, blocks: RankBlocks, listener: KvListener) -> None:
        await publisher.publish(1)
        listener.begin()
        await until(lambda: blocks.expected == 1)
        for name in (2, 3):
            await publisher.publish(name, dropped=True)
        await publisher.publish(4)
        await until(lambda: blocks.expected == 4)

        assert blocks.blocks == 4

    asyncio.run(listen(tmp_path, scenario))


@pytest.mark.parametrize(
    ("endpoint", "rank", "expected"),
    [
        ("tcp://127.0.0.1:5557", 0, "tcp://127.0.0.1:5557"),
        ("tcp://127.0.0.1:5557", 3, "tcp://127.0.0.1:5560"),
        ("ipc:///x/kv", 2, "ipc:///x/kv_dp2"),
    ],
)
def test_each_rank_has_its_own_endpoint(endpoint: str, rank: int, expected: str) -> None:
    assert endpoint_of_rank(endpoint, rank) == expected


def test_an_endpoint_that_cannot_be_shared_by_ranks_is_an_error() -> None:
    with pytest.raises(ConfigError, match="tcp:// or ipc://"):
        endpoint_of_rank("inproc://x", 1)
