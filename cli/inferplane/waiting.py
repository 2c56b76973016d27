"""Waiting for an instance to be as wanted, and telling how far it is.

The wait ends early where waiting is of no use: the runner died, or an engine that was never ready keeps crashing.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from inferplane.errors import CommandError, NotReadyError
from inferplane.instances import Instance
from inferplane.progress import Progress
from inferplane_operator.local.log_tail import LAST_LINES, tail
from inferplane_operator.local.status import ChildStatus, InstancePhase, Status, WorkerPhase

_POLL_S = 0.1
_LATE_LINES = 3
"""Of the log of a process that is merely slow: where it stands."""
_RUNNER_GRACE_S = 10.0
"""How long a runner may take to take the folder's lock."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What is waited for; `alive` says whether the runner may still come or is there."""

    instance: Instance
    generation: int
    timeout_s: float
    alive: Callable[[], bool]


def wait_ready(wait: Wait, progress: Progress) -> Status:
    """Return the status that is Ready.  Raises NotReadyError, with the last log lines of what is not."""
    deadline = time.monotonic() + wait.timeout_s
    for status in _statuses(wait):
        if status is not None and status.observed_generation >= wait.generation:
            progress.show(status)
            if status.phase is InstancePhase.READY:
                return status
            if crashes := _hopeless(status):
                raise NotReadyError(_crash_message(wait.instance, crashes))
        if time.monotonic() > deadline:
            raise NotReadyError(_late_message(wait, status))
    raise CommandError(_runner_message(wait.instance))


def _statuses(wait: Wait) -> Iterator[Status | None]:
    """Yield the status again and again, for as long as there is a runner to change it."""
    while wait.alive():
        yield wait.instance.status()
        time.sleep(_POLL_S)


def _hopeless(status: Status) -> list[ChildStatus]:
    """Return the processes that keep crashing and without which nothing was ever ready."""
    stuck = [worker for worker in status.workers if worker.phase is WorkerPhase.CRASH_LOOP and not worker.ready_once]
    children = [child for worker in stuck for child in (worker.engine, worker.agent)]
    return [child for child in (*children, status.router) if child is not None and child.crash_looping]


def _crash_message(instance: Instance, children: list[ChildStatus]) -> str:
    parts: list[str] = []
    for child in children:
        parts.append(f"{child.name} keeps crashing: {child.last_exit} ({child.restarts} restarts)")
        parts += _last_lines(instance, [child])
    return "\n".join([*parts, "correct what the log says and run `inferplane up` again"])


def _late_message(wait: Wait, status: Status | None) -> str:
    head = f"not ready within {wait.timeout_s:g} s"
    if status is None or status.observed_generation < wait.generation:
        return "\n".join([f"{head}: the runner has not taken the change", *_runner_tail(wait.instance)])
    late = [worker.engine for worker in status.workers if worker.phase is not WorkerPhase.READY]
    router = status.router if status.gateway_reason else None
    parts = [f"{head}: {status.message}"]
    parts += _last_lines(wait.instance, [it for it in (*late, router) if it is not None], most=_LATE_LINES)
    return "\n".join([*parts, "wait longer with --timeout, or see `inferplane diagnose`"])


def _last_lines(instance: Instance, children: list[ChildStatus], *, most: int = LAST_LINES) -> list[str]:
    lines: list[str] = []
    for child in children:
        log = instance.state.log(child.name)
        lines.append(f"last lines of {log}:")
        lines += [f"  | {line}" for line in (child.last_log or tail(log, most))[-most:]]
    return lines


def _runner_message(instance: Instance) -> str:
    return "\n".join(["the runner has ended", *_runner_tail(instance)])


def _runner_tail(instance: Instance) -> list[str]:
    log = instance.state.log("runner")
    return [f"last lines of {log}:", *(f"  | {line}" for line in tail(log, LAST_LINES))]


def wait_ended(instance: Instance, *, timeout_s: float, progress: Progress) -> bool:
    """Wait until the instance's runner has gone; say whether it has."""
    deadline = time.monotonic() + timeout_s
    while instance.running:
        status = instance.status()
        if status is not None:
            progress.show(status)
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
