"""The planner process put together.

routers -> streams -> observe -> step -> world;  beside it health, metrics and the journal
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

import orjson
import structlog

from inferplane_planner.act.journal import Journal
from inferplane_planner.act.local_world import LocalWorld
from inferplane_planner.act.planning import Planning
from inferplane_planner.act.priors import read_calibration
from inferplane_planner.config import ClusterSettings, PlannerConfig
from inferplane_planner.meters import Meters
from inferplane_planner.observe.notices import Notices
from inferplane_runtime.clock import Clock
from inferplane_runtime.http.api import Exchange, Headers, Limits, Request, Response
from inferplane_runtime.http.client import split_address
from inferplane_runtime.http.errors import json_error
from inferplane_runtime.http.server import HttpServer
from inferplane_runtime.lifecycle import StopSignal, spawn
from inferplane_runtime.metrics.exposition import exposition_handler, register_process_metrics
from inferplane_runtime.metrics.instruments import Instruments

_log = structlog.get_logger("inferplane.planner")
_JSON = Headers(((b"content-type", b"application/json"),))


class Work(Protocol):
    """What a planner process does, on one machine or in a cluster."""

    @property
    def problem(self) -> str:
        """Why there is no plan at present; "" when there is."""
        ...

    async def run(self) -> None:
        """Plan until cancelled."""
        ...


class Planner:
    """One planner process."""

    def __init__(self, config: PlannerConfig, clock: Clock, environment: Mapping[str, str]) -> None:
        self._config = config
        instruments = Instruments()
        register_process_metrics(instruments.registry)
        self._notices = Notices(now=clock.monotonic)
        self.work = _work(config, clock, Meters(instruments), self._notices, environment)
        self.health = HttpServer(self._answer, limits=Limits())
        self.metrics = HttpServer(exposition_handler(instruments.registry), limits=Limits())

    async def run(self, stop: StopSignal) -> int:
        """Plan until told to stop."""
        await self.health.start(*split_address(self._config.listen.health))
        await self.metrics.start(*split_address(self._config.listen.metrics))
        _log.info("listening", health=self.health.port, metrics=self.metrics.port)
        try:
            async with asyncio.TaskGroup() as group:
                planning = spawn(group, "planning", self.work.run())
                await stop.wait()
                planning.cancel()
        finally:
            self.health.close()
            self.metrics.close()
            await self._notices.close()
        return 0

    def _answer(self, request: Request, exchange: Exchange) -> None:
        if request.path == b"/health":
            exchange.respond(Response(200, _JSON, b"{}"))
        elif request.path == b"/ready":
            problem = self.work.problem
            body = {"reason": problem} if problem else {"status": "ready"}
            exchange.respond(Response(503 if problem else 200, _JSON, orjson.dumps(body)))
        else:
            exchange.respond(json_error(404, "only /health and /ready are served here"))


def _work(
    config: PlannerConfig, clock: Clock, meters: Meters, notices: Notices, environment: Mapping[str, str]
) -> Work:
    began, offset = clock.monotonic(), clock.wall()

    def now() -> float:
        """Return the wall clock of the start and what has passed since: it keeps to days and never jumps."""
        return offset + (clock.monotonic() - began)

    prices = {price.accelerator: price.per_hour for price in config.prices}
    calibrations = {each.accelerator: read_calibration(each.file) for each in config.calibrations}
    journal = Journal(config.decisions)
    if config.local is not None:
        world = LocalWorld(
            folder=config.local,
            now=now,
            period_s=config.period_s,
            prices=prices,
            calibrations=calibrations,
            environment=environment,
        )
        return Planning(world, now=now, period_s=config.period_s, journal=journal, decided=meters.decided, told=notices)
    # What watches a cluster is imported only where there is one: it doubles the start.
    from inferplane_planner.cluster.app import ClusterWork  # noqa: PLC0415
    from inferplane_planner.cluster.world import Knowledge  # noqa: PLC0415

    knowledge = Knowledge(config.period_s, prices, calibrations)
    settings = config.kubernetes or ClusterSettings()
    return ClusterWork(
        settings, knowledge=knowledge, clock=clock, now=now, journal=journal, meters=meters, notices=notices
    )
