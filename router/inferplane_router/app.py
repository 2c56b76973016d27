"""A router of one process put together: every object is made here and handed to those that need it.

discovery -> core <- worker streams;  clients -> front -> core
`processes` has routers of several processes, made of the same parts.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from random import Random

import structlog

from inferplane_api.catalogue import Catalogue
from inferplane_api.proto import worker_pb2 as wire
from inferplane_router.config import RouterConfig
from inferplane_router.core.router import RouterCore
from inferplane_router.core.values import ModelFacts
from inferplane_router.core_meters import CoreMeters
from inferplane_router.front import Front, Outside
from inferplane_router.gateway.announcing import Announcements
from inferplane_router.gateway.seams import PromptEncoder
from inferplane_router.grpc.observations import Observations
from inferplane_router.index_check import IndexCheck
from inferplane_router.report import Ports, write_report
from inferplane_router.sources import Sources
from inferplane_router.tokenization import PromptService
from inferplane_runtime.clock import Clock, SystemClock
from inferplane_runtime.http.client import UpstreamPool, split_address
from inferplane_runtime.http.server import HttpServer
from inferplane_runtime.lifecycle import spawn
from inferplane_runtime.metrics.exposition import exposition_handler, register_process_metrics
from inferplane_runtime.metrics.instruments import Instruments

_log = structlog.get_logger("inferplane.router")


class RouterApp:
    """One router process; use `running`."""

    def __init__(
        self,
        config: RouterConfig,
        *,
        prompts: PromptEncoder,
        prepare: Callable[[ModelFacts, str], object] | None,
        pool: UpstreamPool,
        clock: Clock,
    ) -> None:
        self._config = config
        rng = Random(os.urandom(16))  # noqa: S311 - jitter and ties, nothing secret
        instruments = Instruments()
        register_process_metrics(instruments.registry)
        epoch = draw_epoch()
        self.core = RouterCore(epoch=epoch, rng=rng, wall_clock=clock.wall)
        self._sources = Sources(
            config,
            self.core,
            epoch=epoch,
            clock=clock,
            rng=rng,
            instruments=instruments,
            applied=self._applied,
            heard=self._heard,
        )
        self.fleet = self._sources.fleet
        outside = Outside(
            core=self.core,
            epoch=epoch,
            announcer=Announcements(self.fleet.tell),
            observations=Observations(wall=clock.wall),
            unready=self._sources.unready,
            generation=self._sources.generation,
            draw=os.urandom,
        )
        self.front = Front(
            config, outside, prompts=prompts, prepare=prepare, pool=pool, clock=clock, instruments=instruments
        )
        self.http, self.plane = self.front.http, self.front.plane
        core_meters = CoreMeters(instruments, self.core)
        self._index_check = IndexCheck(self.core, clock)
        scrape = exposition_handler(instruments.registry, refresh=core_meters.refresh)
        self.metrics = HttpServer(self._index_check.beside(scrape), limits=config.limits.limits())

    @property
    def grpc_port(self) -> int:
        return self.front.grpc_port

    @property
    def ext_proc_port(self) -> int:
        """The endpoint picker's port; 0 when nobody listens."""
        return self.front.ext_proc_port

    def unready(self) -> str:
        """Say why no request should come here, or nothing."""
        return self.front.unready()

    def catalogue_generation(self) -> int:
        """Return the number of the catalogue in force; 0 before the first."""
        return self._sources.generation()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["RouterApp"]:
        """Listen and follow the catalogue until the context is left."""
        async with asyncio.TaskGroup() as group, self._sources.following(group) as watch:
            await self.front.listen(self._config.listen)
            await self.metrics.start(*split_address(self._config.listen.metrics))
            ports = Ports(self.http.port, self.grpc_port, self.metrics.port, self.ext_proc_port)
            write_report(self._config.listen, ports)
            tasks = [watch(), spawn(group, "housekeeping", self.front.keep_house())]
            _log.info("listening", **ports.shown())
            try:
                yield self
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                self.fleet.stop()
                self.metrics.close()
                self._index_check.close()
                await self.front.close()

    async def drain(self) -> int:
        """Finish what runs; return how many connections had to be reset."""
        return await self.front.drain()

    def _heard(self, message: wire.WorkerMessage) -> None:
        self.front.observe(message)

    def _applied(self, catalogue: Catalogue, group: asyncio.TaskGroup) -> None:
        self.front.follow(catalogue, group)


def draw_epoch() -> int:
    """Return a number by which a router knows its own requests."""
    return int.from_bytes(os.urandom(8), "little") or 1


@asynccontextmanager
async def running_router(config: RouterConfig) -> AsyncGenerator[RouterApp]:
    """Put a router together on the machine's clock, and run it until the context is left."""
    clock, pool = SystemClock(), UpstreamPool()
    prompts = PromptService(upstream=pool, cache=config.cache_dir, clock=clock)
    app = RouterApp(config, prompts=prompts, prepare=prompts.prepare, pool=pool, clock=clock)
    try:
        async with app.running():
            yield app
    finally:
        await prompts.close()
        await pool.close()
