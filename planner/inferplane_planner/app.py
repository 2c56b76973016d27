"""The planner process put together.

routers -> streams -> observe -> step -> world;  beside it health, metrics and the journal
"""

import asyncio
from collections.abc import Mapping

import orjson
import structlog

from inferplane_planner.act.journal import Journal
from inferplane_planner.act.local_world import LocalWorld
from inferplane_planner.act.planning import Planning
from inferplane_planner.act.priors import read_calibration
from inferplane_planner.config import PlannerConfig
from inferplane_planner.meters import Meters
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


class Planner:
    """One planner process."""

    def __init__(self, config: PlannerConfig, clock: Clock, environment: Mapping[str, str]) -> None:
        self._config = config
        began, offset = clock.monotonic(), clock.wall()

        def now() -> float:
            """Return the wall clock of the start and what has passed since: it keeps to days and never jumps."""
            return offset + (clock.monotonic() - began)

        instruments = Instruments()
        register_process_metrics(instruments.registry)
        meters = Meters(instruments)
        world = LocalWorld(
            folder=config.local,
            now=now,
            period_s=config.period_s,
            prices={price.accelerator: price.per_hour for price in config.prices},
            calibrations={each.accelerator: read_calibration(each.file) for each in config.calibrations},
            environment=environment,
        )
        self.planning = Planning(
            world, now=now, period_s=config.period_s, journal=Journal(config.decisions), decided=meters.decided
        )
        self.health = HttpServer(self._answer, limits=Limits())
        self.metrics = HttpServer(exposition_handler(instruments.registry), limits=Limits())

    async def run(self, stop: StopSignal) -> int:
        """Plan until told to stop."""
        await self.health.start(*split_address(self._config.listen.health))
        await self.metrics.start(*split_address(self._config.listen.metrics))
        _log.info("listening", health=self.health.port, metrics=self.metrics.port)
        try:
            async with asyncio.TaskGroup() as group:
                planning = spawn(group, "planning", self.planning.run())
                await stop.wait()
                planning.cancel()
        finally:
            self.health.close()
            self.metrics.close()
        return 0

    def _answer(self, request: Request, exchange: Exchange) -> None:
        if request.path == b"/health":
            exchange.respond(Response(200, _JSON, b"{}"))
        elif request.path == b"/ready":
            problem = self.planning.problem
            body = {"reason": problem} if problem else {"status": "ready"}
            exchange.respond(Response(503 if problem else 200, _JSON, orjson.dumps(body)))
        else:
            exchange.respond(json_error(404, "only /health and /ready are served here"))
