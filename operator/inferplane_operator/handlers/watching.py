"""Runs kopf inside our event loop, and starts it anew when it ends.

`kopf.operator` would do more than we want: when it ends it cancels every task of the loop that came after it, ours too.
So its tasks are spawned and stopped here, and the signal handlers that it installs are taken back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import kopf
import structlog
from lightkube.config.kubeconfig import SingleConfig

from inferplane_operator.cluster.api_presence import wait_for_kinds, watched_kinds
from inferplane_operator.cluster.errors import ClusterError
from inferplane_operator.cluster.intake import Intake
from inferplane_operator.cluster.kinds import Kind
from inferplane_operator.cluster.objects import Objects
from inferplane_operator.handlers.registry import kopf_settings, registry_of

_log = structlog.get_logger("inferplane.operator")
_FIRST_S, _LIMIT_S = 1.0, 30.0
_LONG_RUN_S = 60.0
_STOP_S = 10.0


class Watches:
    """All watches of one process."""

    def __init__(
        self,
        objects: Objects,
        intake: Intake,
        config: SingleConfig,
        *,
        namespaces: tuple[str, ...],
        rules: bool = False,
        take_signals: Callable[[], None],
        on_restart: Callable[[], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._objects = objects
        self._intake = intake
        self._config = config
        self._namespaces = namespaces
        self._rules = rules
        self._take_signals = take_signals
        self._on_restart = on_restart
        self._sleep = sleep
        self._restart = asyncio.Event()
        self.kinds: tuple[Kind, ...] = ()
        """What is watched now; empty before the custom resources are there."""

    def restart(self) -> None:
        """Stop everything and list anew."""
        self._restart.set()

    async def run(self) -> None:
        """Watch until cancelled."""
        loop, delay = asyncio.get_running_loop(), _FIRST_S
        while True:
            await wait_for_kinds(self._objects, sleep=self._sleep)
            began = loop.time()
            try:
                self.kinds = await watched_kinds(self._objects, rules=self._rules)
                self._intake.watched(self.kinds)
                await self._watch(self.kinds)
            except ClusterError as error:
                _log.warning("watches cannot start", problem=str(error))
            delay = _FIRST_S if loop.time() - began > _LONG_RUN_S else min(delay * 2, _LIMIT_S)
            self._on_restart()
            await self._sleep(delay)

    async def _watch(self, kinds: tuple[Kind, ...]) -> None:
        self._restart.clear()
        tasks = await kopf.spawn_tasks(
            registry=registry_of(kinds, self._intake, self._config),
            settings=kopf_settings(kinds),
            standalone=True,
            clusterwide=not self._namespaces,
            namespaces=self._namespaces,
        )
        self._take_signals()
        again = asyncio.create_task(self._restart.wait(), name="restart-watches")
        _log.info("watching", kinds=len(kinds), namespaces=",".join(self._namespaces) or "all")
        try:
            done, _ = await asyncio.wait({*tasks, again}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                _say_why(task)
        finally:
            again.cancel()
            await _stop(tasks)


async def _stop(tasks: Collection["asyncio.Task[Any]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=_STOP_S)


def _say_why(task: "asyncio.Task[Any]") -> None:
    if task.cancelled() or task.exception() is None:
        return
    _log.warning("watches ended", task=task.get_name(), problem=repr(task.exception()))
