"""What `/metrics` and `inferplane diagnose` show of the core."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from inferplane_router.core import score_kernels as kernels
from inferplane_router.core.index_kernels import DEVICE, DISK, HOST
from inferplane_router.core.roster import Worker
from inferplane_router.core.service import Service
from inferplane_router.core.values import (
    Answer,
    Mismatch,
    Queued,
    RefusalReason,
    Refused,
    Routed,
    ServiceView,
    Statistics,
    WorkerView,
)

_Answer = TypeVar("_Answer", bound=Answer)


@dataclass(slots=True)
class Counters:
    """Answers since the start."""

    routed: int = 0
    queued: int = 0
    retried: int = 0
    refused: dict[RefusalReason, int] = field(default_factory=lambda: dict.fromkeys(RefusalReason, 0))

    def count(self, answer: _Answer) -> _Answer:
        match answer:
            case Routed():
                self.routed += 1
            case Queued():
                self.queued += 1
            case Refused(reason=reason):
                self.refused[reason] += 1
        return answer


def statistics(counters: Counters, services: Iterable[Service], workers: Iterable[Worker]) -> Statistics:
    services, workers = tuple(services), tuple(workers)
    spaces = [space for service in services for space in service.fleet.spaces]
    mismatches = dict.fromkeys(Mismatch, 0)
    for service in services:
        for cause, count in service.feedback.convictions.items():
            mismatches[cause] += count
    return Statistics(
        workers=tuple(worker_view(worker) for worker in workers),
        services=tuple(
            ServiceView(
                service.settings.namespace,
                service.settings.name,
                queued=len(service.line),
                in_flight=len(service.flights),
                settings=service.settings,
            )
            for service in services
        ),
        routed=counters.routed,
        queued=counters.queued,
        refused=dict(counters.refused),
        retried=counters.retried,
        mismatches=mismatches,
        resyncs=sum(worker.resyncs for worker in workers),
        index_blocks=sum(space.index.used for space in spaces),
        index_bytes=sum(space.index.nbytes + space.overlay.nbytes for space in spaces),
        predicted_blocks=sum(space.overlay.total_blocks() for space in spaces),
        refused_blocks=sum(space.index.refused for space in spaces),
    )


def worker_view(worker: Worker) -> WorkerView:
    entry, trust, space, fleet = worker.entry, worker.trust, worker.space, worker.fleet
    planes = (DEVICE, HOST, DISK)
    return WorkerView(
        worker_id=entry.worker_id,
        namespace=entry.namespace,
        service=entry.service,
        pool=entry.pool,
        role=entry.role.value,
        revision=entry.revision,
        health=worker.health,
        detail=worker.detail,
        kv_mode=trust.mode,
        mismatch=trust.cause,
        mismatch_detail=trust.detail,
        in_flight=sum(fleet.load.in_flight(slot) for slot in worker.slots),
        uncached_tokens=sum(int(fleet.load.rows[slot, kernels.AHEAD_TOKENS]) for slot in worker.slots),
        blocks=sum(space.index.blocks(slot, plane) for slot in worker.slots for plane in planes) if space else 0,
        predictions=trust.predictions,
        exact_predictions=trust.exact_predictions,
        predicted_tokens=trust.predicted_tokens,
        observed_tokens=trust.observed_tokens,
        transport=worker.transport,
        transport_degraded=worker.transport_degraded,
        address=entry.http_address,
        because=worker.because,
    )
