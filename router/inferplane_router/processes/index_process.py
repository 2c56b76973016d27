"""The index process: it hears the catalogue and the agents, writes the index, and keeps the gateways informed.

Invariant: a gateway is told that it is `SYNCED` only when the streams have been tried and, behind a writer that died,
when its tables have been filled again: until then readers keep the tables that they have.
"""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Final

import structlog

from inferplane_api.catalogue import Catalogue
from inferplane_api.proto import worker_pb2 as wire
from inferplane_router.core.router import RouterCore
from inferplane_router.core_meters import CoreMeters
from inferplane_router.index_check import IndexCheck
from inferplane_router.processes.channel import Channel
from inferplane_router.processes.errors import ChannelLostError
from inferplane_router.processes.frames import Kind, Question, split_name
from inferplane_router.processes.pod_metrics import PodMetrics
from inferplane_router.processes.pod_state import Report, Whole, read_report, together, written
from inferplane_router.processes.relay import Relay
from inferplane_router.processes.shared import Shared
from inferplane_router.processes.written_tables import TableWriter
from inferplane_router.report import Ports, write_report
from inferplane_router.sources import Sources
from inferplane_runtime.clock import Clock
from inferplane_runtime.http.client import split_address
from inferplane_runtime.http.server import HttpServer
from inferplane_runtime.lifecycle import spawn
from inferplane_runtime.metrics.catalogue import router as names
from inferplane_runtime.metrics.exposition import register_process_metrics
from inferplane_runtime.metrics.instruments import Instruments

_LOOK_S: Final = 0.1
_TRY_S: Final = 2.0
"""How long gateways wait at most for a first word of the workers before they listen."""
_FILL_S: Final = 10.0
"""How long the tables of a writer that died are kept at most."""
_EXPIRE_S: Final = 0.5
_SHOW_S: Final = 1.0
"""How long a gateway may take to say what its console has to show."""
_log = structlog.get_logger("inferplane.processes")


class IndexProcess:
    """Use `running`."""

    def __init__(self, shared: Shared, *, clock: Clock) -> None:
        self._shared = shared
        self._clock = clock
        self._began = clock.monotonic()
        rng = Random(os.urandom(16))  # noqa: S311 - jitter, nothing secret
        self._instruments = instruments = Instruments()
        register_process_metrics(instruments.registry)
        self._tables = TableWriter(shared.arena, shared.seat_map)
        self.core = RouterCore(epoch=shared.epoch, rng=rng, wall_clock=clock.wall, tables_of=self._tables.tables_of)
        self._relay = Relay(self.core, self._tables)
        self._sources = Sources(
            shared.config,
            self._relay,
            epoch=shared.epoch,
            clock=clock,
            rng=rng,
            instruments=instruments,
            applied=self._applied,
            heard=self._heard,
        )
        self._core_meters = CoreMeters(instruments, self.core)
        self._processes = instruments.cells(names.PROCESSES)
        self._reports: dict[Channel, Report] = {}
        self._whole = Whole("no gateway process has reported yet")
        self._synced = False
        self._reported = False
        self._group: asyncio.TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["IndexProcess"]:
        """Hear agents and serve gateways until the context is left."""
        listen = self._shared.config.listen
        async with asyncio.TaskGroup() as group, self._sources.following(group) as watch:
            self._group = group
            self._shared.rendezvous.listen(lambda end: spawn(group, "gateway joins", self._join(end)))
            handler = PodMetrics(
                self._instruments.registry,
                refresh=self._refresh,
                gateways=lambda: tuple(self._reports),
                group=group,
            )
            check = IndexCheck(self.core, self._clock)
            metrics = HttpServer(check.beside(handler), limits=self._shared.config.limits.limits())
            await metrics.start(*split_address(listen.metrics), reuse_port=True)
            tasks = [watch(), spawn(group, "look after all", self._look_after())]
            try:
                yield self
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                self._shared.rendezvous.stop()
                self._sources.fleet.stop()
                metrics.close()
                check.close()
                for channel in tuple(self._reports):
                    channel.close()

    # What gateways say.

    def received(self, channel: Channel, kind: Kind, body: bytes) -> None:
        match kind:
            case Kind.HELLO:
                channel.name = body.decode()
                _log.info("gateway joined", gateway=channel.name)
            case Kind.STATE:
                self._reports[channel] = read_report(body)
                self._judge()
            case Kind.EXPECT:
                self._expect(channel, body)
            case Kind.OBSERVATION | Kind.COMPLETE | Kind.PLANNED:
                self._relay.pass_on(kind, body, but=channel)
            case _:
                pass  # gateways send nothing else

    def asked(self, channel: Channel, question: Question, body: bytes, answer: Callable[[bytes], None]) -> None:
        if question is Question.EXPLAIN and self._group is not None:
            self._group.create_task(self._explain(channel, body, answer), name="explain")
        elif question is Question.CONSOLE and self._group is not None:
            self._group.create_task(self._show(channel, answer), name="console")
        else:
            answer(b"")

    def lost(self, channel: Channel) -> None:
        _log.info("gateway left", gateway=channel.name)
        self._reports.pop(channel, None)
        self._relay.members.discard(channel)
        self._judge()

    # Inside.

    async def _join(self, end: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        _, channel = await loop.create_unix_connection(lambda: Channel(self), sock=end)
        self._reports[channel] = Report()
        channel.send(Kind.STATE, written(self._whole))
        self._relay.join(channel)
        if self._synced:
            self._relay.synced((channel,))

    def _applied(self, catalogue: Catalogue, group: asyncio.TaskGroup) -> None:
        del catalogue, group
        self._judge()

    def _heard(self, message: wire.WorkerMessage) -> None:
        if message.HasField("load_snapshot"):
            self._settle()

    def _expect(self, channel: Channel, body: bytes) -> None:
        """Let a worker's agent, which tells other routers, and the other gateways know of coming blocks."""
        worker_id, expects = split_name(body)
        self._sources.fleet.tell(worker_id, wire.Expects.FromString(expects))
        self._relay.pass_on(Kind.EXPECT, body, but=channel, hurry=False)

    async def _explain(self, asker: Channel, body: bytes, answer: Callable[[bytes], None]) -> None:
        others = [each for each in self._reports if each is not asker]
        for gateway in others:
            try:
                found = await gateway.ask(Question.EXPLAIN, body)
            except ChannelLostError:
                continue
            if found:
                answer(found)
                return
        answer(b"")

    async def _show(self, asker: Channel, answer: Callable[[bytes], None]) -> None:
        """Gather what the consoles of the other gateways have to show; who does not answer is left out."""
        others = [each for each in self._reports if each is not asker]
        asked = [each.ask(Question.CONSOLE, deadline_s=_SHOW_S) for each in others]
        found = await asyncio.gather(*asked, return_exceptions=True)
        answer(b"[" + b",".join(each for each in found if isinstance(each, bytes) and each) + b"]")

    async def _look_after(self) -> None:
        """Do what time brings."""
        expired = 0.0
        while True:
            now = self._clock.monotonic()
            self._settle()
            self._sync(now)
            if now - expired >= _EXPIRE_S:
                expired = now
                self.core.poll(now)
            await asyncio.sleep(_LOOK_S)

    def _settle(self) -> None:
        """Show the tables once all workers of the last writer are back, or have been waited for."""
        if self._tables.settled:
            return
        waited = self._clock.monotonic() - self._began >= _FILL_S
        known = self._sources.known
        missing = self._tables.awaited & known if known is not None else self._tables.awaited
        if waited or (known is not None and missing <= self._relay.filled):
            self._tables.settle()
            _log.info("index rebuilt", workers=len(self._relay.filled), missing=len(missing - self._relay.filled))

    def _sync(self, now: float) -> None:
        ready = not self._sources.unready() or now - self._began >= _TRY_S
        if not self._synced and self._tables.settled and ready:
            self._synced = True
            self._relay.synced(tuple(self._reports))
        self._judge()

    def _judge(self) -> None:
        """Tell the gateways what is so of all of them, when it has changed."""
        whole = together(
            self._reports.values(),
            expected=self._shared.config.processes,
            generation=self._sources.generation(),
            unready=self._sources.unready(),
        )
        if whole != self._whole:
            self._whole = whole
            self._relay.pass_on(Kind.STATE, written(whole))
        self._report_ports()

    def _report_ports(self) -> None:
        """Write down where the router listens, once all of it does."""
        listening = [report for report in self._reports.values() if report.listening]
        if self._reported or len(listening) < self._shared.config.processes:
            return
        self._reported = True
        http, grpc, ext_proc = listening[0].ports
        metrics = split_address(self._shared.config.listen.metrics)[1]
        ports = Ports(http, grpc, metrics, ext_proc)
        write_report(self._shared.config.listen, ports)
        _log.info("listening", processes=len(listening), **ports.shown())

    def _refresh(self) -> None:
        self._core_meters.refresh()
        self._processes.labels("index").set(1)
        self._processes.labels("gateway").set(sum(report.listening for report in self._reports.values()))
