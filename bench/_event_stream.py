"""Block changes from agents to a router over real streams: who pays how much, and how fast a restarted router is whole.

The agents' half runs in a process of its own, so that each side's CPU time can be told apart.  It flushes as an agent
does, a few milliseconds apart; what is measured is CPU time, so neither the pace nor a busy machine counts.
"""

import asyncio
import logging
import multiprocessing
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from random import Random

import numpy as np
import structlog
import uvloop

from inferplane_api.catalogue import Catalogue, CatalogueService, CatalogueWorker, WorkerRole
from inferplane_api.proto import worker_pb2 as wire
from inferplane_router.core.router import RouterCore
from inferplane_router.core.values import Hashes, Resync
from inferplane_router.core.warming import warm
from inferplane_router.streams.stream_fleet import StreamFleet
from inferplane_router.streams.worker_stream import PROTOCOL_VERSION, StreamObserver, StreamSettings, WorkerStream
from inferplane_runtime.clock import SystemClock
from inferplane_workers.agent.ledger import Change
from inferplane_workers.agent.stream_hub import BLOCKS_FLUSH_S, StreamHub
from inferplane_workers.agent.stream_server import StreamServer
from inferplane_workers.agent.wire import Gauges, PlaneKey, identity_body, status_body

_DEVICE = PlaneKey(0)


@dataclass(frozen=True, slots=True)
class Load:
    """What agents do: hold `held` blocks each, then flush again and again with so many stored and as many removed."""

    agents: int
    held: int
    flushes: int = 0
    blocks: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    changes: int
    router_cpu_s: float
    agents_cpu_s: float
    wall_s: float


@dataclass(slots=True)
class _Engine:
    """One agent's state: a cache that is always full."""

    name: str
    held: Hashes

    def identity_body(self) -> bytes:
        identity = wire.Identity(worker_id=self.name, service="bench", engine_start="1", model="bench", block_size=16)
        return identity_body(identity)

    def status_body(self) -> bytes:
        return status_body(wire.WorkerStatus(phase=wire.PHASE_READY, kv_events=wire.KV_EVENTS_OK))

    def planes(self) -> Iterable[tuple[PlaneKey, bytes]]:
        yield _DEVICE, self.held.tobytes()

    def entries(self) -> Iterable[Change]:
        return ()

    def gauges(self) -> Iterable[Gauges]:
        return ()


def _hashes(count: int, seed: int) -> Hashes:
    return np.random.default_rng(seed).integers(1, 2**64 - 1, count, dtype=np.uint64)


# The agents' process ------------------------------------------------------------------------------------------------


def _serve(load: Load, pipe: Connection) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve_agents(load, pipe))


async def _serve_agents(load: Load, pipe: Connection) -> None:
    hubs: list[StreamHub] = []
    ports: list[int] = []
    servers: list[StreamServer] = []
    for number in range(load.agents):
        engine = _Engine(f"w{number}", _hashes(load.held, number))
        hub = StreamHub(state=engine, epoch=1, schedule=lambda _: None)
        server = StreamServer(hub, wall=time.time)
        hubs.append(hub)
        servers.append(server)
        ports.append(await server.start("127.0.0.1:0"))
    pipe.send(ports)
    await asyncio.to_thread(pipe.recv)  # every stream has its snapshot
    stores = [_hashes(load.blocks, 1000 + flush) for flush in range(load.flushes)]
    began = time.process_time()
    for flush, stored in enumerate(stores):
        removed = stores[flush - 1] if flush else stored[:0]
        for hub in hubs:
            hub.blocks(_DEVICE, removed=removed.tolist(), stored=stored.tolist())
            hub.flush()
        await asyncio.sleep(BLOCKS_FLUSH_S)
    await asyncio.to_thread(pipe.recv)  # all has arrived
    pipe.send((time.process_time() - began, sum(hub.overflows for hub in hubs)))
    for server in servers:
        await server.stop()


# The router's process -----------------------------------------------------------------------------------------------


class _Feed(RouterCore):
    """A core that counts what it has taken."""

    changes = 0
    held = 0
    arrived: asyncio.Event

    def on_worker_message(self, worker_id: str, message: wire.WorkerMessage, now: float) -> Resync | None:
        resync = super().on_worker_message(worker_id, message, now)
        if resync is not None:
            raise RuntimeError(f"{worker_id} lost something: {resync.reason}")
        self.changes += (len(message.block_delta.stored) + len(message.block_delta.removed)) // 8
        self.held += len(message.block_snapshot.hashes) // 8
        self.arrived.set()
        return None


@asynccontextmanager
async def _subscribed(ports: list[int]) -> AsyncGenerator[_Feed]:
    clock, rng = SystemClock(), Random(1)  # noqa: S311  # nothing here is secret
    feed = _Feed(epoch=1, rng=rng, wall_clock=clock.wall)
    feed.arrived = asyncio.Event()
    catalogue = Catalogue(
        services=(CatalogueService(name="bench", served_names=("bench",)),),
        workers=tuple(_worker(number, port) for number, port in enumerate(ports)),
    )
    feed.apply_catalogue(catalogue, clock.monotonic())
    hello = wire.Hello(protocol_version=PROTOCOL_VERSION, subscriber_epoch=1, component="router", want_blocks=True)

    def stream(worker: CatalogueWorker) -> WorkerStream:
        return WorkerStream(
            worker.worker_id,
            worker.stream_address,
            hello=hello,
            feed=feed,
            clock=clock,
            rng=rng,
            observer=StreamObserver(),
            settings=StreamSettings(),
        )

    fleet = StreamFleet(stream)
    async with asyncio.TaskGroup() as group:
        fleet.follow(catalogue.workers, group)
        yield feed
        fleet.stop()


def _worker(number: int, port: int) -> CatalogueWorker:
    return CatalogueWorker(
        worker_id=f"w{number}",
        service="bench",
        pool="bench",
        role=WorkerRole.DECODE,
        revision="1",
        http_address=f"127.0.0.1:{port}",
        stream_address=f"127.0.0.1:{port}",
    )


async def _follow(load: Load, pipe: Connection) -> tuple[Figures, Figures]:
    ports = await asyncio.to_thread(pipe.recv)
    wall, cpu = time.perf_counter(), time.process_time()
    async with _subscribed(ports) as feed:
        while feed.held < load.agents * load.held:
            feed.arrived.clear()
            await feed.arrived.wait()
        filled = Figures(feed.held, time.process_time() - cpu, 0.0, time.perf_counter() - wall)
        pipe.send("whole")
        wall, cpu = time.perf_counter(), time.process_time()
        expected = load.agents * load.blocks * max(0, 2 * load.flushes - 1)
        while feed.changes < expected:
            feed.arrived.clear()
            await feed.arrived.wait()
        router_cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        pipe.send("done")
        agents_cpu, overflows = await asyncio.to_thread(pipe.recv)
    if overflows:
        raise RuntimeError(f"{overflows} queues overflowed: the router did not keep up")
    return filled, Figures(expected, router_cpu, agents_cpu, wall)


def follow(load: Load) -> tuple[Figures, Figures]:
    """Return what it took to take the snapshots in, and then the changes."""
    warm()
    ours, theirs = multiprocessing.Pipe()
    agents = multiprocessing.get_context("spawn").Process(target=_serve, args=(load, theirs), daemon=True)
    agents.start()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(_follow(load, ours))
    agents.join(30)
    return figures
