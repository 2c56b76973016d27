"""A gateway process: a front over a core of its own, which reads the index that another process writes.

It listens once it knows what there is to know, so that whoever connects to it gets what the others would say.
Invariant: without an index process it goes on with the table and the workers that it has, and joins the next one.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final

import orjson
import structlog

from inferplane_api.catalogue import Catalogue
from inferplane_api.proto import router_pb2 as pb
from inferplane_api.proto import worker_pb2 as wire
from inferplane_router.core.router import RouterCore
from inferplane_router.core_meters import CoreMeters
from inferplane_router.front import Front, Outside
from inferplane_router.gateway.announcing import Announcements
from inferplane_router.grpc.observations import Observations
from inferplane_router.processes.channel import Channel
from inferplane_router.processes.errors import ChannelLostError
from inferplane_router.processes.follower import Follower
from inferplane_router.processes.frames import Kind, Question, named
from inferplane_router.processes.merging import counted
from inferplane_router.processes.merging import written as written_metrics
from inferplane_router.processes.pod_state import Report, Whole, read_whole, written
from inferplane_router.processes.read_tables import TableReader
from inferplane_router.processes.shared import Shared
from inferplane_router.tokenization import PromptService
from inferplane_runtime.clock import SystemClock
from inferplane_runtime.http.client import UpstreamPool
from inferplane_runtime.lifecycle import spawn
from inferplane_runtime.metrics.catalogue import router as names
from inferplane_runtime.metrics.exposition import register_process_metrics
from inferplane_runtime.metrics.instruments import Instruments

_REJOIN_S: Final = 0.05
_TELL_S: Final = 0.2
_GATHER_S: Final = 0.01
"""How long expected blocks wait for more of them: each frame alone wakes up every process of the router."""
_log = structlog.get_logger("inferplane.processes")


class GatewayProcess:
    """Use `running_gateway`; also the front's `Siblings`."""

    def __init__(self, shared: Shared, name: str, *, prompts: PromptService, pool: UpstreamPool) -> None:
        self._shared = shared
        self._name = name
        clock = SystemClock()
        rng = Random(os.urandom(16))  # noqa: S311 - ties, nothing secret
        self._instruments = instruments = Instruments()
        register_process_metrics(instruments.registry)
        tables = TableReader(shared.arena)
        self.core = RouterCore(epoch=shared.epoch, rng=rng, wall_clock=clock.wall, tables_of=tables.tables_of)
        self._observations = Observations(wall=clock.wall, share=self._share)
        outside = Outside(
            core=self.core,
            epoch=shared.epoch,
            announcer=Announcements(self._announce, gather_s=_GATHER_S),
            observations=self._observations,
            unready=self._unready,
            generation=self._generation,
            draw=os.urandom,
            siblings=self,
        )
        self.front = Front(
            shared.config,
            outside,
            prompts=prompts,
            prepare=prompts.prepare,
            pool=pool,
            clock=clock,
            instruments=instruments,
        )
        self._follower = Follower(self.core, tables, clock=clock, applied=self._applied, heard=self.front.observe)
        self._core_meters = CoreMeters(instruments, self.core)
        self._catalogue_generation = instruments.cells(names.CATALOGUE_GENERATION).labels()
        self._channel: Channel | None = None
        self._group: asyncio.TaskGroup | None = None
        self._opening: asyncio.Task[None] | None = None
        self._synced = asyncio.Event()
        self._listening = False
        self._ports = (0, 0, 0)
        self._was_whole = False
        self._whole = Whole("the index process has not been heard yet")
        self._told = Report()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["GatewayProcess"]:
        """Follow the index process, and listen as soon as it has told everything, until the context is left."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._opening = spawn(group, "listen", self._listen())
            tasks = [
                self._opening,
                spawn(group, "follow", self._follow()),
                spawn(group, "tell", self._keep_told()),
                spawn(group, "housekeeping", self.front.keep_house()),
            ]
            try:
                yield self
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                if self._channel is not None:
                    self._channel.close()
                await self.front.close()

    async def drain(self) -> int:
        """Finish what runs; return how many connections had to be reset."""
        if self._opening is not None:
            self._opening.cancel()
        return await self.front.drain()

    # What the index process says.

    def received(self, channel: Channel, kind: Kind, body: bytes) -> None:
        del channel
        match kind:
            case Kind.STATE:
                self._take(read_whole(body))
            case Kind.OBSERVATION:
                self._observations.heard(pb.Observation.FromString(body))
            case Kind.COMPLETE:
                self.front.completed(pb.CompleteRequest.FromString(body))
            case Kind.PLANNED:
                self.front.planned(pb.PlanNotice.FromString(body))
            case _:
                self._follower.take(kind, body)
        if kind is Kind.SYNCED:
            self._synced.set()

    def asked(self, channel: Channel, question: Question, body: bytes, answer: Callable[[bytes], None]) -> None:
        del channel
        match question:
            case Question.METRICS:
                self._core_meters.refresh()
                answer(written_metrics(counted(self._instruments.registry)))
            case Question.EXPLAIN:
                record = self.core.explain(body.decode())
                answer(b"" if record is None else record.SerializeToString())
            case Question.CONSOLE:
                answer(self.front.console_part())

    def lost(self, channel: Channel) -> None:
        if channel is self._channel:
            self._channel = None
            self._follower.gone()
            self.front.plane.news()

    # What the front says.

    async def explain(self, request_id: str) -> pb.DecisionRecord | None:
        if self._channel is None:
            return None
        try:
            found = await self._channel.ask(Question.EXPLAIN, request_id.encode())
        except ChannelLostError:
            return None
        return pb.DecisionRecord.FromString(found) if found else None

    def complete(self, request: pb.CompleteRequest) -> None:
        if self._channel is not None:
            self._channel.send(Kind.COMPLETE, request.SerializeToString())

    def planned(self, notice: pb.PlanNotice) -> None:
        if self._channel is not None:
            self._channel.send(Kind.PLANNED, notice.SerializeToString())

    async def pictures(self) -> list[dict[str, Any]]:
        if self._channel is None:
            return []
        try:
            found: list[dict[str, Any]] = orjson.loads(await self._channel.ask(Question.CONSOLE) or b"[]")
        except ChannelLostError:
            return []
        return found

    # Inside.

    def _unready(self) -> str:
        return "" if self._was_whole else self._whole.unready

    def _generation(self) -> int:
        return self._whole.generation

    def _take(self, whole: Whole) -> None:
        self._whole = whole
        self._was_whole = self._was_whole or not whole.unready
        self._observations.elsewhere = max(0, whole.observers - self._observations.observers)
        self._tell()

    def _applied(self, catalogue: Catalogue) -> None:
        if self._group is not None:
            self.front.follow(catalogue, self._group)
        self._catalogue_generation.set(catalogue.generation)
        self._tell()

    def _announce(self, worker_id: str, expects: wire.Expects) -> None:
        if self._channel is not None:
            self._channel.send(Kind.EXPECT, named(worker_id, expects.SerializeToString()))

    def _share(self, observation: pb.Observation) -> None:
        if self._channel is not None:
            self._channel.send(Kind.OBSERVATION, observation.SerializeToString())

    def _tell(self) -> None:
        """Let the index process know how this one fares, when that has changed."""
        report = Report(
            generation=int(self._catalogue_generation.value),
            listening=self._listening,
            was_whole=self._was_whole and self._listening,
            observers=self._observations.observers,
            ports=self._ports,
        )
        if report != self._told and self._channel is not None:
            self._told = report
            self._channel.send(Kind.STATE, written(report))

    async def _keep_told(self) -> None:
        while True:
            self._tell()
            await asyncio.sleep(_TELL_S)

    async def _follow(self) -> None:
        """Stay with the index process that there is."""
        loop = asyncio.get_running_loop()
        while True:
            end = await self._shared.rendezvous.connect()
            _, channel = await loop.create_unix_connection(lambda: Channel(self), sock=end)
            self._channel = channel
            self._told = Report()
            channel.send(Kind.HELLO, self._name.encode())
            self._tell()
            await channel.closed
            _log.warning("the index process is gone; requests go on with what is known")
            await asyncio.sleep(_REJOIN_S)

    async def _listen(self) -> None:
        await self._synced.wait()
        await self.front.listen(self._shared.config.listen, reuse_port=True)
        self._listening = True
        self._ports = self.front.http.port, self.front.grpc_port, self.front.ext_proc_port
        self._tell()
        _log.info("serving", http=self._ports[0], grpc=self._ports[1], ext_proc=self._ports[2])


@asynccontextmanager
async def running_gateway(shared: Shared, name: str) -> AsyncGenerator[GatewayProcess]:
    """Put a gateway process together on the machine's clock, and run it until the context is left."""
    clock, pool = SystemClock(), UpstreamPool()
    prompts = PromptService(upstream=pool, cache=shared.config.cache_dir, clock=clock)
    process = GatewayProcess(shared, name, prompts=prompts, pool=pool)
    try:
        async with process.running():
            yield process
    finally:
        await prompts.close()
        await pool.close()
