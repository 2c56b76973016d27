"""One supervised process: started, started again when it ends by itself, stopped when asked.

    WAITING -> RUNNING -> BACKOFF -> RUNNING ...
       |          |          |
       +----------+----------+--> STOPPING -> STOPPED

A child that ends, with whatever status, was not asked to: every end before `stop` counts as a crash.  After its leader
has gone the rest of its group is killed: an engine's orphaned core would hold the memory that the next start needs.
"""

import asyncio
import signal
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from random import Random

import structlog

from inferplane_operator.local.backoff import RestartHistory, RestartPolicy, restart_delay
from inferplane_operator.local.log_tail import LAST_LINES, tail
from inferplane_operator.local.processes import Command, Running, Spawner
from inferplane_operator.local.status import ChildStatus

_log: structlog.stdlib.BoundLogger = structlog.get_logger("inferplane.local.child")
_LAST_LIFE_S = 5.0
"""How long a killed group is awaited: SIGKILL cannot be refused, only delayed by the kernel."""


class ChildState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    BACKOFF = "backoff"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Child:
    """Runs one command for as long as it is wanted."""

    def __init__(
        self,
        name: str,
        command: Callable[[], Command],
        *,
        spawn: Spawner,
        policy: RestartPolicy,
        clock: Callable[[], float],
        rng: Random,
        on_change: Callable[[], None],
    ) -> None:
        """`command` is asked right before each start, so a port lost meanwhile can be another; it may raise OSError.

        `on_change` is called after each change of state.
        """
        self.name = name
        self._command = command
        self._spawn = spawn
        self._policy = policy
        self._clock = clock
        self._rng = rng
        self._on_change = on_change
        self._state = ChildState.WAITING
        self._history = RestartHistory()
        self._running: Running | None = None
        self._last_exit = ""
        self._last_log: tuple[str, ...] = ()
        self._recycled = ""
        self._born = 0.0
        self._stop_asked = asyncio.Event()
        self._stopped = asyncio.Event()

    @property
    def state(self) -> ChildState:
        return self._state

    @property
    def pid(self) -> int | None:
        return self._running.pid if self._running else None

    @property
    def restarts(self) -> int:
        return self._history.restarts

    @property
    def crash_looping(self) -> bool:
        return self._history.crash_looping(self._policy)

    @property
    def lived_s(self) -> float:
        """How long the present process has run; 0 when none does."""
        return self._clock() - self._born if self._running else 0.0

    def status(self) -> ChildStatus:
        return ChildStatus(
            name=self.name,
            state=self._state.value,
            pid=self.pid,
            restarts=self._history.restarts,
            crash_looping=self.crash_looping,
            last_exit=self._last_exit,
            last_log=self._last_log,
        )

    async def run(self) -> None:
        """Supervise until `stop`; the one task of this child."""
        try:
            while not self._stop_asked.is_set():
                await self._live_once()
        finally:
            if self._running is not None:  # cancelled: the runner itself is going down hard
                self._running.signal(signal.SIGKILL)
            self._running = None
            self._to(ChildState.STOPPED)
            self._stopped.set()

    async def stop(self, *, grace_s: float) -> None:
        """SIGTERM, then after `grace_s` SIGKILL; returns when the process is gone."""
        self._stop_asked.set()
        if self._state is not ChildState.STOPPED:
            self._to(ChildState.STOPPING)
        if self._running is not None:
            self._running.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                await self._stopped.wait()
        except TimeoutError:
            _log.warning("killed a child that did not end in time", child=self.name, grace_s=grace_s)
            self.kill()
            async with asyncio.timeout(_LAST_LIFE_S):
                await self._stopped.wait()

    def kill(self) -> None:
        """End it now, for good."""
        self._stop_asked.set()
        if self._running is not None:
            self._running.signal(signal.SIGKILL)

    def recycle(self, why: str) -> None:
        """End the present process and start it anew, with back-off: it is of no use any more."""
        if self._running is not None and not self._stop_asked.is_set():
            self._recycled = why
            self._running.signal(signal.SIGKILL)

    async def _live_once(self) -> None:
        try:
            command = self._command()
            before = _size(command.log)
            running = await self._spawn(command)
        except OSError as error:  # no port, no memory, no file handles: as good as a crash
            self._died(f"cannot be started: {error}", lived_s=0.0, said=())
        else:
            await self._watch(running, command.log, before)
        if not self._stop_asked.is_set():
            await self._back_off()

    async def _watch(self, running: Running, log: Path, before: int) -> None:
        self._born = self._clock()
        self._running = running
        if self._stop_asked.is_set():  # asked between the start of the process and now
            running.signal(signal.SIGTERM)
        else:
            self._to(ChildState.RUNNING)
        code = await running.wait()
        running.signal(signal.SIGKILL)
        self._running = None
        if not self._stop_asked.is_set():
            said = tail(log, LAST_LINES, since=before)
            self._died(self._recycled or describe_exit(code), lived_s=self._clock() - self._born, said=said)
        self._recycled = ""

    def _died(self, how: str, *, lived_s: float, said: tuple[str, ...]) -> None:
        self._history = self._history.after_death(self._policy, lived_s=lived_s)
        self._last_exit = how
        self._last_log = said
        _log.warning("a child ended by itself", child=self.name, how=how, lived_s=round(lived_s, 3))

    async def _back_off(self) -> None:
        self._to(ChildState.BACKOFF)
        delay_s = restart_delay(self._policy, self._history, self._rng)
        try:
            async with asyncio.timeout(delay_s):
                await self._stop_asked.wait()
        except TimeoutError:
            return

    def _to(self, state: ChildState) -> None:
        self._state = state
        self._on_change()


def describe_exit(code: int) -> str:
    if code >= 0:
        return f"exited with status {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def _size(log: Path) -> int:
    try:
        return log.stat().st_size
    except FileNotFoundError:
        return 0
