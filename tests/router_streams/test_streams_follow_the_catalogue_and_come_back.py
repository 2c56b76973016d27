"""Worker streams, the catalogue file and the configuration: what comes in, and what happens when it does not."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import grpc
import pytest

from inferplane_api.catalogue import Catalogue, CatalogueWorker, WorkerRole
from inferplane_api.proto import worker_pb2 as wire
from inferplane_router.__main__ import main
from inferplane_router.config import read_config
from inferplane_router.core.values import Resync
from inferplane_router.discovery.file import CatalogueFile
from inferplane_router.streams.stream_fleet import StreamFleet
from inferplane_router.streams.worker_stream import StreamObserver, StreamSettings, WorkerStream
from inferplane_runtime.clock import FakeClock
from inferplane_runtime.settings import SettingsError

HELLO = wire.Hello(protocol_version=1, subscriber_epoch=9, component="router", want_blocks=True)
EXPECTS = wire.Expects(expects=[wire.Expect(request_id="r", dp_rank=2, hashes=bytes(8))])


class NotedFeed:
    """A `WorkerFeed` that notes what it is told and asks for a snapshot after an odd sequence number above 1."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.changed = asyncio.Event()

    def apply_catalogue(self, catalogue: Catalogue, now: float) -> None:
        del catalogue, now

    def worker_connected(self, worker_id: str, now: float) -> None:
        del now
        self.note(f"connected {worker_id}")

    def worker_lost(self, worker_id: str, now: float) -> None:
        del now
        self.note(f"lost {worker_id}")

    def on_worker_message(self, worker_id: str, message: wire.WorkerMessage, now: float) -> Resync | None:
        del worker_id, now
        self.note(f"message {message.sequence}")
        return Resync(0, "gap") if message.sequence == 3 else None

    def note(self, event: str) -> None:
        self.events.append(event)
        self.changed.set()

    async def until(self, event: str) -> None:
        while event not in self.events:
            self.changed.clear()
            await self.changed.wait()


class Agent:
    """An agent that sends given sequences, one list a stream, then ends the stream (or stays silent)."""

    def __init__(self, *streams: list[int], stay: bool = False) -> None:
        self.streams = list(streams)
        self.stay = stay
        self.heard: list[wire.SubscriberMessage] = []
        self.told = asyncio.Event()
        self.server = grpc.aio.server()
        handler = grpc.stream_stream_rpc_method_handler(
            self.subscribe,
            request_deserializer=wire.SubscriberMessage.FromString,
            response_serializer=wire.WorkerMessage.SerializeToString,
        )
        calls = grpc.method_handlers_generic_handler("inferplane.v1.WorkerStream", {"Subscribe": handler})
        self.server.add_generic_rpc_handlers((calls,))

    async def start(self) -> str:
        port = self.server.add_insecure_port("127.0.0.1:0")
        await self.server.start()
        return f"127.0.0.1:{port}"

    async def subscribe(
        self, requests: AsyncIterator[wire.SubscriberMessage], _: object
    ) -> AsyncIterator[wire.WorkerMessage]:
        self.heard.append(await anext(requests))
        sequences = self.streams.pop(0) if self.streams else []
        for sequence in sequences:
            yield wire.WorkerMessage(sequence=sequence, epoch=1, heartbeat=wire.Heartbeat())
        if self.stay:
            async for message in requests:
                self.heard.append(message)
                self.told.set()


class NoSleep:
    """Notes delays and returns at once; stops the stream after `limit` of them."""

    def __init__(self, limit: int = 3) -> None:
        self.delays: list[float] = []
        self.limit = limit

    async def __call__(self, seconds: float) -> None:
        self.delays.append(seconds)
        if len(self.delays) >= self.limit:
            raise asyncio.CancelledError
        await asyncio.sleep(0)


def stream(
    address: str, feed: NotedFeed, sleep: NoSleep, *, silence_s: float = 10.0, connect_timeout_s: float = 0.2
) -> WorkerStream:
    return WorkerStream(
        "w0",
        address,
        hello=HELLO,
        feed=feed,
        clock=FakeClock(),
        rng=Random(1),
        observer=StreamObserver(),
        settings=StreamSettings(connect_timeout_s=connect_timeout_s, silence_s=silence_s),
        sleep=sleep,
    )


def test_messages_come_in_order_and_a_stream_that_ends_is_opened_again() -> None:
    async def scenario() -> tuple[list[str], list[wire.SubscriberMessage]]:
        agent, feed = Agent([1, 2], [1]), NotedFeed()
        address = await agent.start()
        with pytest.raises(asyncio.CancelledError):
            await stream(address, feed, NoSleep(2)).run()
        await agent.server.stop(None)
        return feed.events, agent.heard

    events, heard = asyncio.run(scenario())

    assert events == [
        "connected w0", "message 1", "message 2", "lost w0", "connected w0", "message 1", "lost w0",
    ]  # fmt: skip
    assert [message.hello for message in heard] == [HELLO, HELLO]


def test_a_resync_and_expected_blocks_reach_the_agent() -> None:
    async def scenario() -> list[wire.SubscriberMessage]:
        agent, feed = Agent([3], stay=True), NotedFeed()
        address = await agent.start()
        entry = worker("w0", address)
        one = stream(address, feed, NoSleep())
        fleet = StreamFleet(lambda _: one)
        async with asyncio.TaskGroup() as group:
            fleet.follow([entry], group)
            await feed.until("message 3")
            fleet.tell("w0", EXPECTS)
            fleet.tell("unknown", EXPECTS)
            while len(agent.heard) < 3:
                agent.told.clear()
                await agent.told.wait()
            fleet.stop()
        await agent.server.stop(None)
        return agent.heard

    heard = asyncio.run(scenario())

    assert heard[1].resync == wire.Resync(dp_rank=0, reason="gap")
    assert heard[2].expects == EXPECTS


def test_a_silent_stream_is_given_up() -> None:
    async def scenario() -> list[str]:
        agent, feed = Agent([1], stay=True), NotedFeed()
        address = await agent.start()
        with pytest.raises(asyncio.CancelledError):
            await stream(address, feed, NoSleep(1), silence_s=0.05).run()
        await agent.server.stop(None)
        return feed.events

    assert asyncio.run(scenario()) == ["connected w0", "message 1", "lost w0"]


def test_an_agent_that_is_not_there_is_tried_with_growing_bounded_delays() -> None:
    async def scenario() -> tuple[NoSleep, bool, list[str]]:
        sleep, feed = NoSleep(4), NotedFeed()
        one = stream("127.0.0.1:1", feed, sleep)
        with pytest.raises(asyncio.CancelledError):
            await one.run()
        return sleep, one.tried, feed.events

    sleep, tried, events = asyncio.run(scenario())
    ceilings = [0.1, 0.2, 0.4, 0.8]

    assert all(0 <= delay <= ceiling for delay, ceiling in zip(sleep.delays, ceilings, strict=True))
    assert tried
    assert events == []


def test_an_agent_that_begins_to_listen_is_reached_within_the_attempt() -> None:
    async def scenario() -> tuple[list[str], list[float]]:
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{held.getsockname()[1]}"
        agent, feed, sleep = Agent([1]), NotedFeed(), NoSleep(1)
        running = asyncio.ensure_future(stream(address, feed, sleep, connect_timeout_s=30.0).run())
        await asyncio.sleep(0)
        agent.server.add_insecure_port(address)
        await agent.server.start()
        await asyncio.gather(running, return_exceptions=True)
        await agent.server.stop(None)
        return feed.events, sleep.delays

    events, delays = asyncio.run(scenario())

    assert events == ["connected w0", "message 1", "lost w0"]
    assert len(delays) == 1


def test_an_error_of_whoever_is_fed_is_no_lost_stream() -> None:
    class BrokenFeed(NotedFeed):
        def on_worker_message(self, worker_id: str, message: wire.WorkerMessage, now: float) -> Resync | None:
            raise LookupError(worker_id, message, now)

    async def scenario() -> None:
        agent = Agent([1], stay=True)
        address = await agent.start()
        try:
            with pytest.raises(LookupError):
                await stream(address, BrokenFeed(), NoSleep()).run()
        finally:
            await agent.server.stop(None)

    asyncio.run(scenario())


def worker(name: str, address: str) -> CatalogueWorker:
    return CatalogueWorker(
        worker_id=name, service="s", pool="p", role=WorkerRole.DECODE, revision="", http_address="h:1",
        stream_address=address,
    )  # fmt: skip


class Standing:
    """A stream that runs until it is cancelled."""

    def __init__(self, entry: CatalogueWorker, log: list[str]) -> None:
        self.name = f"{entry.worker_id}@{entry.stream_address}"
        self.log = log
        self.tried = False

    def tell(self, message: wire.SubscriberMessage) -> bool:
        del message
        return True

    async def run(self) -> None:
        self.log.append(f"+{self.name}")
        try:
            await asyncio.Event().wait()
        finally:
            self.log.append(f"-{self.name}")


def test_streams_follow_the_catalogue() -> None:
    async def scenario() -> list[str]:
        log: list[str] = []
        fleet = StreamFleet(lambda entry: Standing(entry, log))
        async with asyncio.TaskGroup() as group:
            for workers in ([("a", "1"), ("b", "1")], [("a", "1"), ("b", "2")], [("b", "2")]):
                fleet.follow([worker(*each) for each in workers], group)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                log.append("|")

            assert not fleet.any_tried

            fleet.stop()

            assert fleet.any_tried
        return log

    assert asyncio.run(scenario()) == ["+a@1", "+b@1", "|", "-b@1", "+b@2", "|", "-a@1", "|", "-b@2"]


def test_a_catalogue_that_cannot_be_read_leaves_the_last_one_in_force(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.json"
    applied: list[int] = []
    failures: list[int] = []
    file = CatalogueFile(path, apply=lambda c: applied.append(c.generation), failed=lambda: failures.append(1))
    file.look()

    assert not file.read_once

    for text in ('{"generation": 1}', '{"generation": 1}', "{", '{"nonsense": 1}', '{"generation": 2}'):
        part = tmp_path / "part"
        part.write_text(text)
        part.replace(path)
        file.look()
        file.look()

    assert applied == [1, 1, 2]
    assert len(failures) == 2


GOOD = "discovery: {file: /c.json}\ncacheDir: /cache\n"


def test_the_configuration_is_read_from_yaml_or_json(tmp_path: Path) -> None:
    path = tmp_path / "router.yaml"
    path.write_text(
        GOOD + 'listen: {http: "127.0.0.1:0", report: /r.json}\nlimits: {maxBodyBytes: 5}\ndrainTimeoutS: 3\n'
    )
    config = read_config(path)

    assert config.listen.http == "127.0.0.1:0"
    assert config.listen.grpc == "127.0.0.1:9000"
    assert config.limits.limits().max_body_bytes == 5
    assert config.drain_timeout_s == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cacheDir: /c\n", "discovery: is required"),
        (GOOD + "listen: {http: 8000}\n", "listen.http: '8000' is not an address"),
        (GOOD + "limits: {maxBodyByte: 1}\n", "limits.maxBodyByte: unknown key"),
        (GOOD + "drainTimeoutS: -1\n", "drainTimeoutS: -1.0 is too small"),
        ("a: [", "is neither YAML nor JSON"),
        ("- 1", "must be a mapping"),
    ],
)
def test_a_wrong_configuration_stops_the_start_and_names_the_field(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "router.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=message.replace("(", r"\(")):
        read_config(path)

    assert main(["--config", str(path)], {}) == 2
    assert message in capsys.readouterr().err
