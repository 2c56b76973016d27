"""What the core knows, as metrics: read from its statistics when somebody asks, not kept in step all the time."""

from collections.abc import Callable

from inferplane_api.catalogue import CatalogueService, WorkerRole
from inferplane_api.proto.worker_pb2 import WorkerMessage
from inferplane_router.core.facade import Routing
from inferplane_router.core.naming import service_key
from inferplane_router.core.values import KvMode, Statistics, WorkerView
from inferplane_router.streams.worker_stream import StreamObserver
from inferplane_runtime.clock import Clock
from inferplane_runtime.metrics.catalogue import router as names
from inferplane_runtime.metrics.instruments import Cells, Instruments


class CoreMeters:
    """Gauges and counters from `Statistics`."""

    def __init__(self, instruments: Instruments, core: Routing) -> None:
        self._core = core
        self._cells: dict[str, Cells] = {spec.name: instruments.cells(spec) for spec in _SHOWN}

    def refresh(self) -> None:
        """Take the core's present state over."""
        seen = self._core.statistics()
        for cells in self._cells.values():
            cells.clear()
        self._totals(seen)
        for service in seen.services:
            self._cells[names.QUEUED.name].labels(service.namespace, service.name).set(service.queued)
            self._cells[names.IN_FLIGHT.name].labels(service.namespace, service.name).set(service.in_flight)
            self._objective(service.settings)
        settings = {service_key(service.settings): service.settings for service in seen.services}
        for worker in seen.workers:
            self._worker(worker)
            self._devices(worker, settings.get((worker.namespace, worker.service)))

    def _totals(self, seen: Statistics) -> None:
        cells = self._cells
        cells[names.PICKS.name].labels("routed").set(seen.routed)
        cells[names.PICKS.name].labels("queued").set(seen.queued)
        for reason, count in seen.refused.items():
            cells[names.PICKS.name].labels(reason.value).set(count)
        for cause, count in seen.mismatches.items():
            cells[names.MISMATCHES.name].labels(cause.value).set(count)
        cells[names.RETRIED.name].labels().set(seen.retried)
        cells[names.RESYNCS.name].labels().set(seen.resyncs)
        cells[names.INDEX_BLOCKS.name].labels().set(seen.index_blocks)
        cells[names.INDEX_BYTES.name].labels().set(seen.index_bytes)
        cells[names.INDEX_REFUSED.name].labels().set(seen.refused_blocks)
        cells[names.PREDICTED_BLOCKS.name].labels().set(seen.predicted_blocks)

    def _objective(self, service: CatalogueService) -> None:
        for objective, limit_s in (("ttft", service.ttft_s), ("tpot", service.tpot_s)):
            self._cells[names.OBJECTIVE.name].labels(*service_key(service), objective).set(limit_s)
        self._cells[names.OBJECTIVE_RATIO.name].labels(*service_key(service)).set(service.percentile / 100.0)

    def _devices(self, worker: WorkerView, service: CatalogueService | None) -> None:
        if service is not None:
            pool = service.prefill if worker.role == WorkerRole.PREFILL else service.decode
            labels = (*service_key(service), worker.pool, worker.role, pool.accelerator)
            self._cells[names.DEVICES.name].labels(*labels).inc(pool.devices)

    def _worker(self, worker: WorkerView) -> None:
        cells, name, service = self._cells, worker.worker_id, (worker.namespace, worker.service)
        cells[names.WORKERS.name].labels(*service, worker.pool, worker.health.value).inc()
        cells[names.WORKER_IN_FLIGHT.name].labels(name).set(worker.in_flight)
        cells[names.WORKER_UNCACHED.name].labels(name).set(worker.uncached_tokens)
        cells[names.WORKER_BLOCKS.name].labels(name).set(worker.blocks)
        cells[names.WORKER_EXACT.name].labels(name, worker.mismatch.value).set(worker.kv_mode is KvMode.EXACT)
        cells[names.TRANSPORT_DEGRADED.name].labels(name, worker.transport).set(worker.transport_degraded)
        exact, others = worker.exact_predictions, worker.predictions - worker.exact_predictions
        cells[names.PREDICTIONS.name].labels(*service, worker.role, "yes").inc(exact)
        cells[names.PREDICTIONS.name].labels(*service, worker.role, "no").inc(others)
        cells[names.PREDICTED_CACHED.name].labels(*service).inc(worker.predicted_tokens)
        cells[names.OBSERVED_CACHED.name].labels(*service).inc(worker.observed_tokens)


_SHOWN = (
    names.PICKS,
    names.RETRIED,
    names.WORKERS,
    names.WORKER_IN_FLIGHT,
    names.WORKER_UNCACHED,
    names.WORKER_BLOCKS,
    names.WORKER_EXACT,
    names.TRANSPORT_DEGRADED,
    names.QUEUED,
    names.IN_FLIGHT,
    names.OBJECTIVE,
    names.OBJECTIVE_RATIO,
    names.DEVICES,
    names.INDEX_BLOCKS,
    names.INDEX_BYTES,
    names.INDEX_REFUSED,
    names.PREDICTED_BLOCKS,
    names.MISMATCHES,
    names.RESYNCS,
    names.PREDICTIONS,
    names.PREDICTED_CACHED,
    names.OBSERVED_CACHED,
)


class StreamMeters(StreamObserver):
    """Counts what streams do, and passes on what the core has heard."""

    def __init__(self, instruments: Instruments, clock: Clock, *, heard: Callable[[WorkerMessage], None]) -> None:
        self._clock = clock
        self._heard = heard
        self._streams = instruments.cells(names.STREAMS).labels("connected")
        self._messages = instruments.cells(names.STREAM_MESSAGES)
        self._failures = instruments.cells(names.STREAM_FAILURES)
        self._lag = instruments.cells(names.STREAM_LAG)

    def connected(self, worker_id: str) -> None:
        del worker_id
        self._streams.inc()

    def lost(self, worker_id: str) -> None:
        self._streams.dec()
        self._lag.forget(worker_id)

    def failed(self, worker_id: str) -> None:
        self._failures.labels(worker_id).inc()

    def heard(self, worker_id: str, message: WorkerMessage) -> None:
        self._messages.labels(message.WhichOneof("body") or "unknown").inc()
        self._lag.labels(worker_id).set(max(0.0, self._clock.wall() - message.sent_at))
        self._heard(message)
