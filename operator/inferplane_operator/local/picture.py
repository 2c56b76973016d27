"""The picture of an instance that others read: its status.  Pure.

Invariant: Ready is said only when exactly the wanted workers, all of the newest revision, are ready and the gateway
routes to them; whatever else is the case, `message` says what is in the way.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inferplane_operator.local.agent_client import Readiness
from inferplane_operator.local.blueprint import Blueprint, LocalPool
from inferplane_operator.local.plan import PoolGoal, WorkerFact, settled
from inferplane_operator.local.status import (
    AdapterStatus,
    ChildStatus,
    InstancePhase,
    KVStoreStatus,
    PoolStatus,
    Status,
    WorkerPhase,
    WorkerStatus,
)


@dataclass(frozen=True, slots=True)
class RouterView:
    url: str
    grpc: str
    metrics: str
    readiness: Readiness
    process: ChildStatus


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that status is made from."""

    blueprint: Blueprint
    generation: int
    catalogue: int
    """The number of the newest catalogue that was written."""
    workers: Sequence[WorkerStatus]
    router: RouterView | None
    runner_pid: int
    started_at: float
    stopping: bool = False
    problem: str = ""
    """A desired state that cannot be carried out, in words."""
    adapters: Sequence[AdapterStatus] = ()
    kv_store: KVStoreStatus | None = None


def status_of(picture: Picture) -> Status:
    phase, message = _phase(picture)
    router = picture.router
    service = picture.blueprint.service
    return Status(
        namespace=service.namespace,
        service=service.name,
        observed_generation=picture.generation,
        phase=phase,
        message=message,
        runner_pid=picture.runner_pid,
        started_at=picture.started_at,
        served_names=(*service.served_names, *service.adapters),
        url=router.url if router else "",
        grpc=router.grpc if router else "",
        metrics=router.metrics if router else "",
        gateway_reason=_gateway_reason(router),
        router=router.process if router else None,
        pools=tuple(_pool_status(pool, picture.workers) for pool in picture.blueprint.pools),
        workers=tuple(picture.workers),
        adapters=tuple(picture.adapters),
        kv_store=picture.kv_store,
    )


def _pool_status(pool: LocalPool, workers: Sequence[WorkerStatus]) -> PoolStatus:
    mine = [worker for worker in workers if worker.pool == pool.name]
    return PoolStatus(
        name=pool.name,
        role=pool.role.value,
        replicas=pool.replicas,
        ready=sum(worker.phase is WorkerPhase.READY for worker in mine),
        updated=sum(worker.revision == pool.revision for worker in mine),
        revision=pool.revision,
        min_replicas=pool.min_replicas,
        max_replicas=pool.max_replicas,
    )


def _phase(picture: Picture) -> tuple[InstancePhase, str]:
    if picture.stopping:
        left = len(picture.workers)
        return InstancePhase.STOPPING, f"{left} worker{'s' * (left != 1)} left to drain"
    if picture.problem:
        return InstancePhase.DEGRADED, picture.problem
    goals = [PoolGoal(pool.name, pool.replicas, pool.revision) for pool in picture.blueprint.pools]
    in_the_way = _router_problems(picture)
    if not settled(goals, [_fact(worker) for worker in picture.workers]):
        in_the_way = [*_worker_problems(picture.workers), *in_the_way] or [_Problem("workers are being started")]
    in_the_way += [
        _Problem(f"adapter {each.served_name}: {each.message}", failed=each.failed)
        for each in picture.adapters
        if not each.ready
    ]
    if not in_the_way:
        return InstancePhase.READY, ""
    failed = any(problem.failed for problem in in_the_way)
    return InstancePhase.DEGRADED if failed else InstancePhase.PROGRESSING, "; ".join(it.text for it in in_the_way)


@dataclass(frozen=True, slots=True)
class _Problem:
    """Something in the way of Ready; `failed` ones do not pass by waiting alone."""

    text: str
    failed: bool = False


def _gateway_reason(router: RouterView | None) -> str:
    """Say why the gateway does not answer; empty when it does."""
    if router is None:
        return "not started"
    return "" if router.readiness.ready else router.readiness.reason


def _router_problems(picture: Picture) -> list[_Problem]:
    router = picture.router
    if router is None or not router.readiness.ready:
        crashed = router is not None and router.process.restarts > 0
        return [_Problem(f"router: {_gateway_reason(router)}", failed=crashed)]
    if router.readiness.catalogue < picture.catalogue:
        return [_Problem("router: takes over the newest workers and names")]
    return []


def _worker_problems(workers: Sequence[WorkerStatus]) -> list[_Problem]:
    """Say of each worker that is not ready why; only of the failed ones when there are any."""
    failed = [worker for worker in workers if worker.phase in (WorkerPhase.CRASH_LOOP, WorkerPhase.NOT_READY)]
    waiting = failed or [worker for worker in workers if worker.phase is not WorkerPhase.READY]
    return [
        _Problem(f"{worker.name} is {worker.phase.value}: {worker.reason}", failed=bool(failed)) for worker in waiting
    ]


def _fact(worker: WorkerStatus) -> WorkerFact:
    return WorkerFact(
        worker.name,
        worker.pool,
        worker.revision,
        ready=worker.phase is WorkerPhase.READY,
        draining=worker.phase is WorkerPhase.DRAINING,
    )
