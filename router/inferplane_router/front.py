"""What clients talk to: HTTP gateway, Router service and endpoint picker, over one core.

HTTP and gRPC -> data plane -> core;  HTTP -> upstream pool -> agents
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from inferplane_api.catalogue import Catalogue
from inferplane_api.proto import router_pb2 as pb
from inferplane_api.proto import worker_pb2 as wire
from inferplane_router.chronicle.chronicle import Chronicle
from inferplane_router.config import Listen, RouterConfig
from inferplane_router.console.console import Console
from inferplane_router.console.console import Surroundings as Looking
from inferplane_router.core.router import RouterCore
from inferplane_router.core.values import Ask, ModelFacts, ResolvedModel
from inferplane_router.extproc.conversation import Surroundings
from inferplane_router.extproc.endpoints import Endpoints
from inferplane_router.extproc.picker import Picker
from inferplane_router.extproc.server import Certificate, PickerServer
from inferplane_router.gateway.data_plane import DataPlane
from inferplane_router.gateway.forward import ForwardContext
from inferplane_router.gateway.headers import HeaderWriter, id_source
from inferplane_router.gateway.http import Gateway
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_router.gateway.seams import Announcer, PromptEncoder
from inferplane_router.grpc.observations import Observations
from inferplane_router.grpc.server import GrpcServer
from inferplane_router.grpc.servicer import RouterServicer
from inferplane_router.grpc.siblings import NO_SIBLINGS, Siblings
from inferplane_runtime.certificates import CertificateFiles, ServedCertificate
from inferplane_runtime.clock import Clock
from inferplane_runtime.http.client import UpstreamPool, split_address
from inferplane_runtime.http.server import HttpServer
from inferplane_runtime.lifecycle import spawn
from inferplane_runtime.metrics.catalogue import router as names
from inferplane_runtime.metrics.catalogue.tracing import SPANS
from inferplane_runtime.metrics.instruments import Instruments
from inferplane_runtime.tracing.setup import make_traces

_HOUSEKEEPING_S: Final = 0.5


def _chronicle(config: RouterConfig, core: RouterCore, meters: GatewayMeters, clock: Clock) -> Chronicle | None:
    kept = config.records
    return Chronicle(core, meters, clock, kept.folder, most_bytes=kept.max_bytes) if kept.folder else None


def served_certificate(config: RouterConfig) -> ServedCertificate | None:
    """Read what clients are shown; files that are not a certificate and its key are an `OSError`."""
    if config.tls is None:
        return None
    return ServedCertificate(CertificateFiles(config.tls.certificate, config.tls.key), protocols=["http/1.1"])


@dataclass(frozen=True, slots=True)
class Outside:
    """What a front needs from the rest of its process, and of its router."""

    core: RouterCore
    epoch: int
    announcer: Announcer
    observations: Observations
    unready: Callable[[], str]
    """Say why no request should come here, or nothing; a drain is the front's own to tell."""
    generation: Callable[[], int]
    """Return the number of the catalogue in force."""
    draw: Callable[[int], bytes]
    siblings: Siblings = NO_SIBLINGS


class Front:
    """Servers and data plane of one process."""

    def __init__(
        self,
        config: RouterConfig,
        outside: Outside,
        *,
        prompts: PromptEncoder,
        prepare: Callable[[ModelFacts, str], object] | None,
        pool: UpstreamPool,
        clock: Clock,
        instruments: Instruments,
    ) -> None:
        self._config = config
        self._clock = clock
        self._prepare = prepare
        """Gets a model's encoder ready before its first request."""
        self._outside = outside
        self.draining = False
        self._core = outside.core
        self._observations = outside.observations
        self.meters = GatewayMeters(instruments)
        writer = HeaderWriter(subscriber_epoch=outside.epoch)
        self.plane = DataPlane(
            core=outside.core,
            prompts=prompts,
            announcer=outside.announcer,
            clock=clock,
            draw_id=id_source(outside.draw),
            meters=self.meters,
            on_ask=self._observe_ask,
            first_nonce=1 + int.from_bytes(outside.draw(7)),
        )
        self._traces = make_traces(
            config.tracing,
            upstream=pool,
            resource={"service.name": "inferplane-router", "service.instance.id": f"{outside.epoch:x}"},
            clock=clock,
            counted=instruments.cells(SPANS),
        )
        tracer = self._traces.tracer if self._traces is not None else None
        context = ForwardContext(self.plane, pool, writer, self.meters, tracer)
        self._chronicle = _chronicle(config, outside.core, self.meters, clock)
        looks_at = Looking(outside.core, self.meters, clock, self.unready, outside.siblings, config.processes)
        self._console = Console(looks_at) if config.console else None
        shown = {"console": self._console.answer} if self._console is not None else {}
        gateway = Gateway(context, unready=self.unready, catalogue=outside.generation, **shown)
        self.http = HttpServer(
            gateway, limits=config.limits.limits(), metrics=self.meters, certificate=served_certificate(config)
        )
        self._servicer = RouterServicer(
            plane=self.plane,
            writer=writer,
            observations=self._observations,
            siblings=outside.siblings,
            on_plan=self.planned,
        )
        self.grpc: GrpcServer | None = None
        self._endpoints = Endpoints(fallbacks=config.ext_proc.fallbacks)
        around = Surroundings(self.plane, gateway.local, writer, self._endpoints, config.limits.max_body_bytes)
        self._picks = Picker(plane=self.plane, surroundings=around, meters=self.meters, tracer=tracer)
        self._picker: PickerServer | None = None
        self._loop_delay = instruments.cells(names.LOOP_DELAY).labels()
        self.grpc_port = 0
        self.ext_proc_port = 0
        """0: nobody listens."""

    def unready(self) -> str:
        """Say why no request should come here, or nothing."""
        return "draining" if self.draining else self._outside.unready()

    async def listen(self, listen: Listen, *, reuse_port: bool = False) -> None:
        """Open every port; `reuse_port`: together with other processes."""
        await self.http.start(*split_address(listen.http), reuse_port=reuse_port)
        self.grpc = GrpcServer(self._servicer, reuse_port=reuse_port)
        self.grpc_port = await self.grpc.start(listen.grpc)
        if listen.ext_proc is not None:
            self._picker = PickerServer(self._picks, reuse_port=reuse_port)
            self.ext_proc_port = await self._picker.start(listen.ext_proc, self._certificate())
            if self._endpoints.known:
                await self._picker.serving(yes=not self.draining)

    def follow(self, catalogue: Catalogue, group: asyncio.TaskGroup) -> None:
        """Take a catalogue that the core has in force."""
        if not self._endpoints.known and self._picker is not None:
            spawn(group, "picker serves", self._picker.serving(yes=not self.draining))
        self._endpoints.follow(catalogue)
        self.plane.news()

    def observe(self, message: wire.WorkerMessage) -> None:
        """Take what the core has heard from a worker."""
        if message.HasField("report"):
            if self._chronicle is not None:
                self._chronicle.ended(message.report)
            self._observations.reported(message, self._core.explain)
            self._picks.reported(message.report)
        elif message.HasField("identity"):
            self._prepare_models()
        self.plane.news()

    def completed(self, request: pb.CompleteRequest) -> None:
        """End a request that was picked here, of whose end another process has been told."""
        self._servicer.completed(request)

    def planned(self, notice: pb.PlanNotice) -> None:
        """Show what a planner has decided."""
        if self._console is not None:
            self._console.planned(notice)

    def console_part(self) -> bytes:
        """Return what this process has to show on the router's console; nothing where it is off."""
        return self._console.part() if self._console is not None else b""

    async def keep_house(self) -> None:
        """Let the core expire what is due even when nothing happens, and see how late this loop runs."""
        while True:
            begun = self._clock.monotonic()
            await asyncio.sleep(_HOUSEKEEPING_S)
            self._loop_delay.set(max(0.0, self._clock.monotonic() - begun - _HOUSEKEEPING_S))
            self.plane.poll()
            if self._traces is not None:
                self._traces.exporter.flush()
            if self._chronicle is not None:
                self._chronicle.look()
            if self._console is not None:
                self._console.keep_sampling()

    async def drain(self) -> int:
        """Finish what runs; return how many connections had to be reset."""
        self.draining = True
        self.meters.draining.set(1)
        if self.grpc is not None:
            await self.grpc.serving(yes=False)
        if self._picker is not None:
            await self._picker.serving(yes=False)
        return await self.http.drain(self._config.drain_timeout_s, lame_duck_s=self._config.lame_duck_s)

    async def close(self) -> None:
        self.http.close()
        if self._console is not None:
            await self._console.close()
        if self.grpc is not None:
            await self.grpc.stop(0.5)
        if self._picker is not None:
            await self._picker.stop(0.5)
        await self.plane.close()
        if self._traces is not None:
            await self._traces.exporter.close()

    # Inside.

    def _certificate(self) -> Certificate | None:
        settings = self._config.ext_proc
        if settings.certificate is None or settings.key is None:
            return None
        return Certificate(settings.certificate, settings.key)

    def _observe_ask(self, ask: Ask) -> None:
        self._observations.arrived(ask)

    def _prepare_models(self) -> None:
        if self._prepare is None:
            return
        for name in self._core.model_names():
            model = self._core.resolve_model(name)
            if isinstance(model, ResolvedModel) and model.facts is not None and model.facts.tokenizer_digest:
                self._prepare(model.facts, model.model_name)
