"""Composition of the simulated engine's server: makes every part, starts and stops them in order."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from inferplane_api.sim_faults import SimFaultKind
from inferplane_engine.sim.engine import SimEngine
from inferplane_engine.sim.faults import FaultPlan
from inferplane_runtime.http.api import Limits
from inferplane_runtime.http.server import HttpServer
from inferplane_workers.sim.driver import EngineDriver
from inferplane_workers.sim.options import OptionsError, SimOptions, TransferConfig
from inferplane_workers.sim.publisher import EventPublisher
from inferplane_workers.sim.service import SimService, engine_id
from inferplane_workers.sim.side_channel import Producer, SideChannel
from inferplane_workers.sim.text import TextModel, model_folder

_log = structlog.get_logger("inferplane.sim")
_BODY_LIMIT = 64 * 1024 * 1024
CRASHED = 139
"""Exit status of a crash, as the shell reports a segmentation fault."""
DEAD = 1


@dataclass(slots=True)
class SimServer:
    """A running server."""

    service: SimService
    http: HttpServer
    died: "asyncio.Future[str]"
    side_channels: list[SideChannel]

    @property
    def port(self) -> int:
        return self.http.port


def crash() -> None:
    """End at once: no answer, no clean-up, connections reset by the kernel."""
    os._exit(CRASHED)


@asynccontextmanager
async def running(options: SimOptions, *, text: TextModel | None = None) -> AsyncGenerator[SimServer]:
    """Serve until the block is left; raises OptionsError when something cannot be had."""
    text = text or TextModel(model_folder(options.model))
    limit = text.context()
    if limit is not None and options.engine.max_model_len > limit:
        raise OptionsError(
            f"--max-model-len: {options.engine.max_model_len} is greater than the model's own limit of {limit}"
        )
    died: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    faults = FaultPlan(options.faults, options.seed)
    drivers = [_driver(options, text, faults, rank, died) for rank in range(options.ranks)]
    channels: list[SideChannel] = []
    http: HttpServer | None = None
    leases: list[asyncio.Task[None]] = []
    try:
        for driver in drivers:
            if driver.publisher is not None:
                driver.publisher.start()
        if options.transfer is not None:
            channels = await _open_side_channels(options, options.transfer, drivers)
            period_s = options.engine.lease_s / 6 / options.speed
            leases = [asyncio.create_task(driver.keep_leases(period_s), name="kv-leases") for driver in drivers]
        await _start_up(options)
        service = SimService(
            options,
            text,
            drivers,
            faults,
            side_channel_ports=lambda rank: channels[rank].port,
            started_at=int(time.time()),
        )
        http = HttpServer(service, limits=Limits(max_body_bytes=_BODY_LIMIT))
        await _listen(http, options)
        service.ready = True
        yield SimServer(service, http, died, channels)
    finally:
        for task in leases:
            task.cancel()
        await asyncio.gather(*leases, return_exceptions=True)
        if http is not None:
            http.close()
        for channel in channels:
            channel.close()
        for driver in drivers:
            await driver.close()


def _driver(
    options: SimOptions, text: TextModel, faults: FaultPlan, rank: int, died: "asyncio.Future[str]"
) -> EngineDriver:
    engine = SimEngine(options.engine, options.profile, text.vocabulary, damage=faults.damage)
    zero = asyncio.get_running_loop().time()
    publisher = None
    if options.events is not None:
        loop = asyncio.get_running_loop()
        publisher = EventPublisher(options.events, rank, faults, lambda: (loop.time() - zero) * options.speed)

    def on_death(reason: str) -> None:
        if not died.done():
            died.set_result(reason)

    return EngineDriver(
        engine,
        options.profile,
        speed=options.speed,
        faults=faults,
        on_death=on_death,
        on_crash=crash,
        publisher=publisher,
    )


async def _open_side_channels(
    options: SimOptions, transfer: TransferConfig, drivers: list[EngineDriver]
) -> list[SideChannel]:
    channels: list[SideChannel] = []
    for rank, driver in enumerate(drivers):
        channel = SideChannel(_producer(engine_id(transfer.engine_id, rank, options.ranks), driver))
        try:
            await channel.start(transfer.host, transfer.port + rank if transfer.port else 0)
        except OSError as error:
            raise OptionsError(
                f"VLLM_NIXL_SIDE_CHANNEL_HOST/PORT: cannot listen on {transfer.host}:{transfer.port + rank}: {error}"
            ) from error
        channels.append(channel)
    return channels


def _producer(name: str, driver: EngineDriver) -> Producer:
    engine = driver.engine
    return Producer(
        engine_id=name,
        read=lambda request_id, blocks: engine.read(request_id, blocks, driver.now()),
        confirm=lambda request_id: driver.tell(lambda core, now: core.confirm(request_id, now)),
        renew=lambda names: driver.tell(lambda core, now: core.renew(names, now)),
    )


async def _start_up(options: SimOptions) -> None:
    """Take the time that a start takes, and stall where a fault says so."""
    if options.simulate_start:
        await asyncio.sleep(options.profile.start_up.total_s / options.speed)
    for fault in options.faults:
        if fault.kind is not SimFaultKind.STALLED_START:
            continue
        _log.warning("start stalls on purpose", seconds=fault.duration_s)
        if fault.duration_s:
            await asyncio.sleep(fault.duration_s / options.speed)
        else:
            await asyncio.get_running_loop().create_future()


async def _listen(http: HttpServer, options: SimOptions) -> None:
    try:
        await http.start(options.host, options.port)
    except OSError as error:
        raise OptionsError(f"--host/--port: cannot listen on {options.host}:{options.port}: {error}") from error
