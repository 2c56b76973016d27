"""Local instances that exist as files only, as a runner would have left them."""

from collections.abc import Callable

from click.testing import Result

from inferplane.context import Context
from inferplane_operator.local.desired import Desired, change_desired
from inferplane_operator.local.statedir import StateDir
from inferplane_operator.local.status import (
    ChildStatus,
    InstancePhase,
    PoolStatus,
    Status,
    WorkerPhase,
    WorkerStatus,
    write_status,
)

Call = Callable[..., Result]
"""Calls `inferplane ARGS...`."""


def status_of(name: str = "demo", *, phase: WorkerPhase = WorkerPhase.READY) -> Status:
    ready = phase is WorkerPhase.READY
    worker = WorkerStatus(
        name="decode-0",
        pool="decode",
        role="decode",
        revision="abc",
        phase=phase,
        reason="" if ready else "engine exited with status 1",
        http="127.0.0.1:1",
        stream="127.0.0.1:2",
        agent=ChildStatus(name="decode-0-agent", state="running"),
        engine=ChildStatus(
            name="decode-0-engine", state="running", restarts=0 if ready else 3, crash_looping=not ready
        ),
    )
    pool = PoolStatus(
        name="decode",
        role="decode",
        replicas=1,
        ready=int(ready),
        updated=1,
        revision="abc",
        min_replicas=1,
        max_replicas=4,
    )
    return Status(
        service=name,
        observed_generation=1,
        phase=InstancePhase.READY if ready else InstancePhase.DEGRADED,
        message="" if ready else "decode-0 is CrashLoop",
        served_names=("m",),
        url="http://127.0.0.1:9",
        grpc="127.0.0.1:3",
        metrics="127.0.0.1:4",
        pools=(pool,),
        workers=(worker,),
    )


def make_instance(context: Context, name: str, status: Status | None = None) -> StateDir:
    state = StateDir(context.state_root / name)
    state.create()
    change_desired(state, lambda _: Desired(manifests=[]))
    write_status(state, status or status_of(name))
    return state
