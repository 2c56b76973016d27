"""The composition root: makes every object of the agent, starts and stops them in one place."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import structlog

from inferplane_api.proto import worker_pb2 as pb
from inferplane_api.v1alpha1.engine_names import EngineType
from inferplane_engine.capabilities import capabilities_of
from inferplane_runtime.clock import Clock, SystemClock
from inferplane_runtime.http.api import Limits
from inferplane_runtime.http.client import UpstreamPool, split_address
from inferplane_runtime.http.server import HttpServer
from inferplane_runtime.tracing.config import Tracing
from inferplane_runtime.tracing.setup import Traces, make_traces
from inferplane_workers.agent import engine_facts
from inferplane_workers.agent.adapter_dialect import ADAPTER_DIALECTS
from inferplane_workers.agent.adapter_loader import AdapterLoader
from inferplane_workers.agent.adapter_routes import AdapterRoutes
from inferplane_workers.agent.adapter_source import AdapterSource, DownloadingHub
from inferplane_workers.agent.adapters import Adapters
from inferplane_workers.agent.announcer import Announcer
from inferplane_workers.agent.blocks import Blocks
from inferplane_workers.agent.canary import CanaryMemory
from inferplane_workers.agent.config import AgentConfig, Role
from inferplane_workers.agent.data_path import DataPath
from inferplane_workers.agent.drain import Drain, Left
from inferplane_workers.agent.engine_adapter import ADAPTERS
from inferplane_workers.agent.engine_client import EngineClient
from inferplane_workers.agent.engine_facts import Facts
from inferplane_workers.agent.engine_watch import EngineWatch, Periods
from inferplane_workers.agent.errors import ConfigError
from inferplane_workers.agent.gate import Gate
from inferplane_workers.agent.metrics import AgentMetrics
from inferplane_workers.agent.model_files import ServedFiles
from inferplane_workers.agent.peers import Peers
from inferplane_workers.agent.routes import Routes
from inferplane_workers.agent.seams import DataPathSettings
from inferplane_workers.agent.store_watch import StoreWatch
from inferplane_workers.agent.stream_server import StreamServer
from inferplane_workers.agent.timeline import Side
from inferplane_workers.agent.transfer_watch import TransferWatch
from inferplane_workers.agent.transfers import Transfers
from inferplane_workers.agent.wire import PROTOCOL_VERSION

if TYPE_CHECKING:
    from inferplane_runtime.tracing.exporter import SpanExporter
    from inferplane_workers.agent.job_context import JobContext

T = TypeVar("T")

AGENT_VERSION = "0.1.0"
_EXPORT_S = 1.0
_log = structlog.get_logger("inferplane.agent")


@dataclass(frozen=True, slots=True)
class Listening:
    """The ports that were got (0 in the configuration asks for any)."""

    http: int
    stream: int
    metrics: int
    control: int = 0
    """0 where adapters are off."""


class Agent:
    """One running agent."""

    def __init__(self, config: AgentConfig, *, clock: Clock | None = None, periods: Periods | None = None) -> None:
        clock = clock or SystemClock()
        self._config = config
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._pool = UpstreamPool()
        self.metrics = AgentMetrics()
        self.files = ServedFiles(config)
        self.announcer = self._make_announcer()
        self.gate = Gate(now=clock.monotonic, grace_s=config.drain_grace, on_change=self.announcer.phase_changed)
        self.adapters = Adapters(limit=config.max_adapters, reserved=config.names, on_change=self._adapters_changed)
        self._loader = _adapter_loader(config, self.adapters, self._pool)
        self.transfers = Transfers(lease_s=ADAPTERS[config.engine].traits.lease_s)
        self.data_path = self._make_data_path()
        self.jobs: JobContext = self.data_path.context
        self.jobs.peers = Peers(interval_s=config.canary_interval)
        self._traces = self._make_traces()
        self.jobs.tracer = self._traces.tracer if self._traces is not None else None
        self.blocks = Blocks(config, self.announcer, self._progress, adapters=self.adapters.meaning)
        self._drain = Drain(
            gate=self.gate,
            requests=lambda: len(self.jobs.live),
            transfers=lambda: self.transfers.outstanding(clock.monotonic()),
            now=clock.monotonic,
            timeout_s=config.drain_timeout,
        )
        self._http = HttpServer(self._routes(), limits=Limits())
        self._metrics_http = HttpServer(
            self.metrics.handler(self.announcer.refresh_metrics), limits=Limits(max_connections=64)
        )
        control = AdapterRoutes(self.adapters, max_rank=config.max_adapter_rank)
        self._control_http = HttpServer(control, limits=Limits(max_body_bytes=65_536, max_connections=64))
        self._stream = StreamServer(self.announcer.hub, wall=clock.wall)
        self._watch = self._make_watch(periods)
        self._transfer_watch = self._make_transfer_watch(self.jobs.peers)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Listening]:
        """Serve until the block ends; what is still running then is cut off."""
        self._loader.restore()
        listening = await self._listen()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._watch.run(), name="engine-watch"),
                group.create_task(self.blocks.keep_saved(), name="save-blocks"),
                group.create_task(self._loader.run(), name="load-adapters"),
            ]
            tasks += [
                group.create_task(listener.run(), name=f"kv-events-{rank}")
                for rank, listener in enumerate(self.blocks.listeners)
            ]
            if self._config.kv_store is not None:
                follower = StoreWatch(self._config.kv_store, self.announcer.stored, self.announcer)
                tasks.append(group.create_task(follower.run(), name="kv-store"))
            if self._traces is not None:
                tasks.append(group.create_task(_export(self._traces.exporter), name="export-traces"))
            if self._config.transfer_check and self.jobs.adapter.traits.decode_can_prefill:
                tasks.append(group.create_task(self._transfer_watch.run(), name="transfer-watch"))
            try:
                yield listening
            finally:
                for task in tasks:
                    task.cancel()
                await self._close()

    def engine_started(self, facts: Facts) -> None:
        """Tell routers of a start of the engine, its files included: a hub's cache is whole only now."""
        self.metrics.engine_started()
        engine_facts.apply(facts, self.announcer.identity)
        self.adapters.engine_started(facts.adapters)
        self.announcer.identity.tokenizer_digest = self.files.read(max_model_len=facts.max_model_len)
        self.announcer.hub.identity_changed()
        self.blocks.engine_started(facts)

    async def drain(self) -> Left:
        return await self._drain.run()

    # Parts with much to be told, in the order in which they are made.

    def _make_announcer(self) -> Announcer:
        config = self._config
        return Announcer(
            identity=_identity(config),
            block_size=config.block_size,
            dp_size=config.dp_size,
            kv_events=bool(config.kv_events),
            metrics=self.metrics,
            later=self._loop.call_later,
            new_epoch=lambda: secrets.randbits(63) | 1,
            schedule=self._schedule_flush,
        )

    def _make_data_path(self) -> DataPath:
        return DataPath(
            settings=_data_path_settings(self._config),
            adapter=ADAPTERS[self._config.engine],
            upstream=self._pool,
            gate=self.gate,
            ledger=self.announcer.ledger,
            transfers=self.transfers,
            observer=self.announcer,
            now=self._clock.monotonic,
            adapters=self.adapters,
        )

    def _make_traces(self) -> Traces | None:
        config = self._config
        return make_traces(
            Tracing(config.trace_endpoint, ratio=0.0),  # whether a request is traced is the router's to say
            upstream=self._pool,
            resource=_resource(config),
            clock=self._clock,
            counted=self.metrics.spans,
        )

    def _routes(self) -> Routes:
        return Routes(
            data_path=self.data_path,
            gate=self.gate,
            transfers=self.transfers,
            files=self.files,
            start_drain=self._start_drain,
        )

    def _make_watch(self, periods: Periods | None) -> EngineWatch:
        return EngineWatch(
            config=self._config,
            client=EngineClient(self._pool, self._config.engine_url),
            gate=self.gate,
            announcer=self.announcer,
            jobs=self.jobs,
            memory=CanaryMemory(self._config.state_dir),
            starts=self,
            now=self._clock.monotonic,
            periods=periods,
        )

    def _make_transfer_watch(self, peers: Peers) -> TransferWatch:
        return TransferWatch(
            config=self._config,
            peers=peers,
            gate=self.gate,
            own=lambda: EngineClient(self._pool, self.announcer.identity.http_address),
            changed=lambda: self.metrics.distrusted_peers(peers.distrusted),
            now=self._clock.monotonic,
        )

    # Listening and ending.

    async def _listen(self) -> Listening:
        config = self._config
        try:
            await _bound("--listen-http", config.listen_http, self._http.start(*split_address(config.listen_http)))
            metrics = self._metrics_http.start(*split_address(config.listen_metrics))
            await _bound("--listen-metrics", config.listen_metrics, metrics)
            if config.listen_control:
                control = self._control_http.start(*split_address(config.listen_control))
                await _bound("--listen-control", config.listen_control, control)
            stream = await _bound("--listen-stream", config.listen_stream, self._stream.start(config.listen_stream))
        except ConfigError:
            await self._close()
            raise
        control_port = self._control_http.port if config.listen_control else 0
        listening = Listening(self._http.port, stream, self._metrics_http.port, control_port)
        identity = self.announcer.identity
        if not identity.http_address:
            host, _ = split_address(self._config.listen_http)
            identity.http_address = f"{host}:{listening.http}"
        _log.info("listening", http=listening.http, stream=listening.stream, metrics=listening.metrics)
        return listening

    async def _close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await self._stream.stop()
        self.blocks.save()
        self._http.close()
        self._metrics_http.close()
        if self._config.listen_control:
            self._control_http.close()
        if self._traces is not None:
            await self._traces.exporter.close()
        await self._pool.close()

    def _start_drain(self, done: Callable[[Left], None]) -> None:
        task = asyncio.create_task(self._drained(done), name="drain")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drained(self, done: Callable[[Left], None]) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            done(await self._drain.run())

    def _schedule_flush(self, after_s: float) -> None:
        self._loop.call_later(after_s, self.announcer.hub.flush)

    def _adapters_changed(self) -> None:
        self._loader.wake()
        if engine_facts.apply_adapters(self.adapters.announced(), self.announcer.identity):
            self.announcer.hub.identity_changed()

    def _progress(self) -> None:
        self.jobs.progress_at = self._clock.monotonic()


def _adapter_loader(config: AgentConfig, adapters: Adapters, pool: UpstreamPool) -> AdapterLoader:
    hub = DownloadingHub(config.adapter_cache, config.hub_endpoint, config.hub_ca)
    return AdapterLoader(
        adapters,
        client=EngineClient(pool, config.engine_url),
        dialect=ADAPTER_DIALECTS[config.engine],
        source=AdapterSource(config.adapter_root, hub),
        state_dir=config.state_dir,
    )


def _data_path_settings(config: AgentConfig) -> DataPathSettings:
    return DataPathSettings(
        worker_id=config.worker_id,
        engine_address=config.engine_url,
        role=Side.PREFILL if config.role is Role.PREFILL else Side.DECODE,
        model=config.names[0],
        prefill_silence_s=config.prefill_silence,
        engine_silence_s=config.engine_silence,
        bootstrap_port=config.bootstrap_port,
    )


async def _bound(flag: str, address: str, starting: Awaitable[T]) -> T:
    """Name the flag whose address cannot be had."""
    try:
        return await starting
    except (OSError, RuntimeError) as error:  # gRPC raises RuntimeError where a socket cannot be bound
        raise ConfigError(f"{flag}: cannot listen on {address}: {error}") from error


def _resource(config: AgentConfig) -> dict[str, str]:
    """Say in OpenTelemetry's words which worker this is."""
    return {
        "service.name": "inferplane-worker",
        "service.instance.id": f"{config.namespace}/{config.worker_id}",
        "inferplane.service": config.service,
        "inferplane.pool": config.pool,
    }


async def _export(exporter: "SpanExporter") -> None:
    while True:
        await asyncio.sleep(_EXPORT_S)
        exporter.flush()


def _identity(config: AgentConfig) -> pb.Identity:
    return pb.Identity(
        protocol_version=PROTOCOL_VERSION,
        worker_id=config.worker_id,
        namespace=config.namespace,
        service=config.service,
        pool=config.pool,
        role=pb.ROLE_PREFILL if config.role is Role.PREFILL else pb.ROLE_DECODE,
        revision=config.revision,
        model=config.model,
        model_revision=config.model_revision,
        served_names=config.names,
        block_size=config.block_size,
        dp_size=config.dp_size,
        engine=config.engine,
        capabilities=sorted(capabilities_of(EngineType(config.engine))),
        agent_version=AGENT_VERSION,
        http_address=config.advertise,
        zone=config.zone,
        accelerator=config.accelerator,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
    )
