"""What happened between two looks at the core.  Pure.

Problem: a core tells how things are, and an account needs what changed.  Idea: two of its statistics are compared,
worker by worker, so that nothing on the way of a request has to write.
Trade-off: what came and went between two looks was not seen; looks are half a second apart.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from inferplane_api.proto.worker_pb2 import OUTCOME_ENGINE_ERROR, OUTCOME_ENGINE_LOST, ROLE_DECODE, RequestReport
from inferplane_observability.incident.happening import CAME_EARLY, Happening, Kind
from inferplane_router.chronicle.ended import Ended
from inferplane_router.core.values import Health, KvMode, Mismatch, Statistics, WorkerView

_SERVER_ERROR: Final = 500
_ILL: Final = frozenset({Health.SUSPECT, Health.FAILED})
_BEFORE_READY: Final = frozenset({Health.UNKNOWN, Health.STARTING})
_NOTHING: Final = (Kind.HANDOFF, "gave nothing to decode with")
_DAMAGED: Final = (Kind.BLOCKS, "is not asked: its blocks arrive damaged")


def happened(before: Statistics, after: Statistics, at: float) -> Iterator[Happening]:
    """Yield what is different."""
    old = {it.worker_id: it for it in before.workers}
    new = {it.worker_id: it for it in after.workers}
    for worker_id in old.keys() - new.keys():
        gone = old[worker_id]
        yield _of(gone, at, Kind.WORKERS, "went", bad=gone.health is not Health.FAILED)
    for worker_id, worker in new.items():
        known = old.get(worker_id)
        yield from _came(before, worker, at) if known is None else _changed(known, worker, at)


def already_ill(first: Statistics, at: float) -> Iterator[Happening]:
    """Yield what is wrong with workers that are seen for the first time."""
    for worker in first.workers:
        yield from _ill_at_first(worker, at)


def _ill_at_first(worker: WorkerView, at: float) -> Iterator[Happening]:
    if worker.health in _ILL:
        yield _of(worker, at, Kind.HEALTH, f"{worker.health.value}: {_why(worker)}", bad=True)
    if worker.kv_mode is KvMode.APPROXIMATE:
        yield _trust(worker, at)


def _why(worker: WorkerView) -> str:
    return "; ".join(filter(None, (worker.because, worker.detail)))


def _came(before: Statistics, worker: WorkerView, at: float) -> Iterator[Happening]:
    yield _of(worker, at, Kind.WORKERS, CAME_EARLY if worker.health in _BEFORE_READY else "came")
    yield from _ill_at_first(worker, at)
    others = [it for it in before.workers if (it.service, it.pool) == (worker.service, worker.pool)]
    if others and all(it.revision != worker.revision for it in others):
        yield _of(worker, at, Kind.ROLLOUT, f"revision {worker.revision} after {others[0].revision}")


def _changed(before: WorkerView, after: WorkerView, at: float) -> Iterator[Happening]:
    if before.health is not after.health:
        detail = f"{after.health.value}, was {before.health.value}: {_why(after)}"
        yield _of(after, at, Kind.HEALTH, detail, bad=after.health in _ILL)
    if (before.kv_mode, before.mismatch) != (after.kv_mode, after.mismatch):
        yield _trust(after, at)


def _trust(worker: WorkerView, at: float) -> Happening:
    cause = "" if worker.mismatch is Mismatch.NONE else f": {worker.mismatch.value} {worker.mismatch_detail}".rstrip()
    doubted = worker.kv_mode is KvMode.APPROXIMATE
    return _of(worker, at, Kind.TRUST, f"cache known {worker.kv_mode.value}{cause}", bad=doubted)


def failed_answers(requests: Iterable[Ended], at: float) -> Iterator[Happening]:
    """Yield, for each worker, how many of these requests it answered with an error or lost."""
    counted = Counter(
        (it.service, it.worker) for it in requests if it.worker and any(_failed(report) for report in it.reports)
    )
    for (service, worker), count in counted.items():
        yield Happening(at, Kind.ERRORS, service, worker, "failed", bad=True, numbers={"count": float(count)})


def _failed(report: RequestReport) -> bool:
    """Say whether an answer failed by its worker; one that was not taken is tried elsewhere."""
    lost = report.outcome in {OUTCOME_ENGINE_ERROR, OUTCOME_ENGINE_LOST}
    return report.side == ROLE_DECODE and (lost or report.status >= _SERVER_ERROR)


def failed_handoffs(requests: Iterable[Ended], now: Statistics, at: float) -> Iterator[Happening]:
    """Yield, for each prefill worker, how many of these requests it gave nothing to decode with, and of what kind."""
    counted = Counter(
        (it.service, address, address in report.damaged_prefill_workers)
        for it in requests
        for report in it.reports
        for address in report.failed_prefill_workers
    )
    names = {it.address: it.worker_id for it in now.workers}
    for (service, address, damaged), count in counted.items():
        kind, detail = _DAMAGED if damaged else _NOTHING
        numbers = {"count": float(count)}
        yield Happening(at, kind, service, names.get(address, address), detail, bad=True, numbers=numbers)


def _of(worker: WorkerView, at: float, kind: Kind, detail: str, *, bad: bool = False) -> Happening:
    service = f"{worker.namespace}/{worker.service}"
    return Happening(at, kind, service, worker.worker_id, detail, bad=bad)
