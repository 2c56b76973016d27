"""Where a router's knowledge comes from: the catalogue, and the streams of the workers that it names."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from random import Random

import structlog

from inferplane_api.catalogue import Catalogue, CatalogueWorker
from inferplane_api.proto import worker_pb2 as wire
from inferplane_router.config import RouterConfig
from inferplane_router.core.facade import WorkerFeed
from inferplane_router.core_meters import StreamMeters
from inferplane_router.discovery.sources import open_discovery
from inferplane_router.streams.stream_fleet import StreamFleet
from inferplane_router.streams.worker_stream import PROTOCOL_VERSION, StreamSettings, WorkerStream
from inferplane_runtime.clock import Clock
from inferplane_runtime.lifecycle import spawn
from inferplane_runtime.metrics.catalogue import router as names
from inferplane_runtime.metrics.instruments import Instruments

_log = structlog.get_logger("inferplane.router")


class Sources:
    """Discovery and streams, brought to a feed."""

    def __init__(
        self,
        config: RouterConfig,
        feed: WorkerFeed,
        *,
        epoch: int,
        clock: Clock,
        rng: Random,
        instruments: Instruments,
        applied: Callable[[Catalogue, asyncio.TaskGroup], None],
        heard: Callable[[wire.WorkerMessage], None],
    ) -> None:
        self._config = config
        self._feed = feed
        self._clock = clock
        self._rng = rng
        self._applied = applied
        self._hello = wire.Hello(
            protocol_version=PROTOCOL_VERSION, subscriber_epoch=epoch, component="router", want_blocks=True
        )
        self._meters = StreamMeters(instruments, clock, heard=heard)
        self.fleet = StreamFleet(self._open_stream)
        self._catalogue: Catalogue | None = None
        """What is in force."""
        self._failures = instruments.cells(names.CATALOGUE_FAILURES).labels()
        self._ignored = instruments.cells(names.CATALOGUE_IGNORED)
        self._generation = instruments.cells(names.CATALOGUE_GENERATION).labels()

    def unready(self) -> str:
        """Say why nothing can be routed yet, or nothing."""
        if self._catalogue is None:
            return "no catalogue has been read yet"
        return "" if self.fleet.any_tried else "no worker stream has been tried yet"

    def generation(self) -> int:
        """Return the number of the catalogue in force; 0 before the first."""
        return self._catalogue.generation if self._catalogue else 0

    @property
    def known(self) -> frozenset[str] | None:
        """Workers of the catalogue in force; None before the first."""
        return frozenset(worker.worker_id for worker in self._catalogue.workers) if self._catalogue else None

    @asynccontextmanager
    async def following(self, group: asyncio.TaskGroup) -> AsyncGenerator["Callable[[], asyncio.Task[None]]"]:
        """Open discovery; what is yielded begins to watch it."""
        async with open_discovery(
            self._config.discovery,
            apply=lambda found: self._apply(found, group),
            failed=self._failures.inc,
            ignored=self._note_ignored,
            rng=self._rng,
        ) as discovery:
            yield lambda: spawn(group, "catalogue", discovery.watch())

    def _note_ignored(self, counts: Mapping[str, int]) -> None:
        for reason, count in counts.items():
            self._ignored.labels(reason).set(count)

    def _apply(self, catalogue: Catalogue, group: asyncio.TaskGroup) -> None:
        self._feed.apply_catalogue(catalogue, self._clock.monotonic())
        self.fleet.follow(catalogue.workers, group)
        self._generation.set(catalogue.generation)
        self._catalogue = catalogue
        self._applied(catalogue, group)
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
            feed=self._feed,
            clock=self._clock,
            rng=self._rng,
            observer=self._meters,
            settings=StreamSettings(),
        )
