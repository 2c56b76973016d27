"""The router process put together: every object is made here and handed to those that need it.

discovery -> core <- worker streams;  HTTP and gRPC -> data plane -> core;  HTTP -> upstream pool -> agents
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from random import Random

import structlog

from inferplane_api.catalogue import Catalogue, CatalogueWorker
from inferplane_api.proto import worker_pb2 as wire
from inferplane_router.config import RouterConfig
from inferplane_router.core.router import RouterCore
from inferplane_router.core.values import Ask, ModelFacts, ResolvedModel
from inferplane_router.core_meters import CoreMeters, StreamMeters
from inferplane_router.discovery.api import Discovery
from inferplane_router.discovery.sources import open_discovery
from inferplane_router.extproc.conversation import Surroundings
from inferplane_router.extproc.endpoints import Endpoints
from inferplane_router.extproc.picker import Picker
from inferplane_router.extproc.server import Certificate, PickerServer
from inferplane_router.gateway.data_plane import DataPlane
from inferplane_router.gateway.forward import ForwardContext
from inferplane_router.gateway.headers import HeaderWriter, id_source
from inferplane_router.gateway.http import Gateway
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_router.gateway.seams import PromptEncoder
from inferplane_router.grpc.observations import Observations
from inferplane_router.grpc.server import GrpcServer
from inferplane_router.grpc.servicer import RouterServicer
from inferplane_router.streams.stream_fleet import StreamFleet
from inferplane_router.streams.worker_stream import PROTOCOL_VERSION, StreamSettings, WorkerStream
from inferplane_router.tokenization import PromptService
from inferplane_runtime.clock import Clock, SystemClock
from inferplane_runtime.http.client import UpstreamPool, split_address
from inferplane_runtime.http.server import HttpServer
from inferplane_runtime.lifecycle import spawn
from inferplane_runtime.metrics.catalogue import router as names
from inferplane_runtime.metrics.exposition import exposition_handler, register_process_metrics
from inferplane_runtime.metrics.instruments import Instruments

_HOUSEKEEPING_S = 0.5
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
        self._prepare = prepare
        """Gets a model's encoder ready before its first request."""
        self._clock = clock
        self._rng = Random(os.urandom(16))  # noqa: S311 - jitter and ties, nothing secret
        self._draining = False
        self._catalogue: Catalogue | None = None
        """What is in force."""
        instruments = Instruments()
        register_process_metrics(instruments.registry)
        epoch = int.from_bytes(os.urandom(8), "little") or 1
        self._hello = wire.Hello(
            protocol_version=PROTOCOL_VERSION, subscriber_epoch=epoch, component="router", want_blocks=True
        )
        self.core = RouterCore(epoch=epoch, rng=self._rng, wall_clock=clock.wall)
        self._observations = Observations(wall=clock.wall)
        self._streams = StreamMeters(instruments, clock, heard=self._observe_message)
        self.fleet = StreamFleet(self._open_stream)
        self._meters = GatewayMeters(instruments)
        writer = HeaderWriter(subscriber_epoch=epoch)
        self.plane = DataPlane(
            core=self.core,
            prompts=prompts,
            announcer=self.fleet,
            clock=clock,
            draw_id=id_source(os.urandom),
            meters=self._meters,
            on_ask=self._observe_ask,
        )
        context = ForwardContext(self.plane, pool, writer, self._meters)
        limits = config.limits.limits()
        gateway = Gateway(context, unready=self.unready, catalogue=self.catalogue_generation)
        self.http = HttpServer(gateway, limits=limits, metrics=self._meters)
        core_meters = CoreMeters(instruments, self.core)
        scrape = exposition_handler(instruments.registry, refresh=core_meters.refresh)
        self.metrics = HttpServer(scrape, limits=limits)
        self.grpc = GrpcServer(RouterServicer(plane=self.plane, writer=writer, observations=self._observations))
        self._endpoints = Endpoints(fallbacks=config.ext_proc.fallbacks)
        around = Surroundings(self.plane, gateway.local, writer, self._endpoints, config.limits.max_body_bytes)
        self._picker = PickerServer(Picker(plane=self.plane, surroundings=around, meters=self._meters))
        self._catalogue_failures = instruments.cells(names.CATALOGUE_FAILURES).labels()
        self._catalogue_ignored = instruments.cells(names.CATALOGUE_IGNORED)
        self._generation = instruments.cells(names.CATALOGUE_GENERATION).labels()
        self._loop_delay = instruments.cells(names.LOOP_DELAY).labels()
        self.grpc_port = 0
        self.ext_proc_port = 0
        """0: nobody listens."""

    def unready(self) -> str:
        """Say why no request should come here, or nothing."""
        if self._draining:
            return "draining"
        if self._catalogue is None:
            return "no catalogue has been read yet"
        return "" if self.fleet.any_tried else "no worker stream has been tried yet"

    def catalogue_generation(self) -> int:
        """Return the number of the catalogue in force; 0 before the first."""
        return self._catalogue.generation if self._catalogue else 0

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["RouterApp"]:
        """Listen and follow the catalogue until the context is left."""
        listen = self._config.listen
        async with asyncio.TaskGroup() as group, self._discovery(group) as discovery:
            await self.http.start(*split_address(listen.http))
            await self.metrics.start(*split_address(listen.metrics))
            self.grpc_port = await self.grpc.start(listen.grpc)
            if listen.ext_proc is not None:
                self.ext_proc_port = await self._picker.start(listen.ext_proc, self._certificate())
            if listen.report is not None:
                self._report(listen.report)
            tasks = [
                spawn(group, "catalogue", discovery.watch()),
                spawn(group, "housekeeping", self._keep_house()),
            ]
            _log.info(
                "listening",
                http=self.http.port,
                grpc=self.grpc_port,
                metrics=self.metrics.port,
                ext_proc=self.ext_proc_port,
            )
            try:
                yield self
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                self.fleet.stop()
                await self._close()

    async def drain(self) -> int:
        """Finish what runs; return how many connections had to be reset."""
        self._draining = True
        self._meters.draining.set(1)
        await self.grpc.serving(yes=False)
        await self._picker.serving(yes=False)
        return await self.http.drain(self._config.drain_timeout_s, lame_duck_s=self._config.lame_duck_s)

    # Inside.

    async def _close(self) -> None:
        self.http.close()
        self.metrics.close()
        await self.grpc.stop(0.5)
        await self._picker.stop(0.5)
        await self.plane.close()

    def _certificate(self) -> Certificate | None:
        settings = self._config.ext_proc
        if settings.certificate is None or settings.key is None:
            return None
        return Certificate(settings.certificate, settings.key)

    def _discovery(self, group: asyncio.TaskGroup) -> AbstractAsyncContextManager[Discovery]:
        return open_discovery(
            self._config.discovery,
            apply=lambda found: self._apply(found, group),
            failed=self._catalogue_failures.inc,
            ignored=self._note_ignored,
            rng=self._rng,
        )

    def _note_ignored(self, counts: Mapping[str, int]) -> None:
        for reason, count in counts.items():
            self._catalogue_ignored.labels(reason).set(count)

    def _apply(self, catalogue: Catalogue, group: asyncio.TaskGroup) -> None:
        self.core.apply_catalogue(catalogue, self._clock.monotonic())
        self.fleet.follow(catalogue.workers, group)
        self._generation.set(catalogue.generation)
        self._catalogue = catalogue
        if not self._endpoints.known and self.ext_proc_port:
            spawn(group, "picker serves", self._picker.serving(yes=not self._draining))
        self._endpoints.follow(catalogue)
        self.plane.news()
        _log.info(
            "catalogue",
            generation=catalogue.generation,
            services=len(catalogue.services),
            workers=len(catalogue.workers),
        )

    def _open_stream(self, worker: CatalogueWorker) -> WorkerStream:
        return WorkerStream(
            worker.worker_id,
            worker.stream_address,
            hello=self._hello,
            feed=self.core,
            clock=self._clock,
            rng=self._rng,
            observer=self._streams,
            settings=StreamSettings(),
        )

    def _observe_ask(self, ask: Ask) -> None:
        self._observations.arrived(ask)

    def _observe_message(self, message: wire.WorkerMessage) -> None:
        if message.HasField("report"):
            self._observations.reported(message, self.core.explain)
        elif message.HasField("identity"):
            self._prepare_models()
        self.plane.news()

    def _prepare_models(self) -> None:
        if self._prepare is None:
            return
        for name in self.core.model_names():
            model = self.core.resolve_model(name)
            if isinstance(model, ResolvedModel) and model.facts is not None and model.facts.tokenizer_digest:
                self._prepare(model.facts, model.model_name)

    def _report(self, path: Path) -> None:
        """Write the addresses that were got, so that whoever waits for them sees a whole file."""
        listen = self._config.listen
        ports = {"http": self.http.port, "grpc": self.grpc_port, "metrics": self.metrics.port}
        if listen.ext_proc is not None:
            ports["ext_proc"] = self.ext_proc_port
        addresses = {name: f"{getattr(listen, name).rpartition(':')[0]}:{port}" for name, port in ports.items()}
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(addresses) + "\n", "utf-8")
        part.replace(path)

    async def _keep_house(self) -> None:
        """Let the core expire what is due even when nothing happens, and see how late this loop runs."""
        while True:
            begun = self._clock.monotonic()
            await asyncio.sleep(_HOUSEKEEPING_S)
            self._loop_delay.set(max(0.0, self._clock.monotonic() - begun - _HOUSEKEEPING_S))
            self.plane.poll()


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
