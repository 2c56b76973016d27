"""All services of a cluster, each planned for itself.

Problem.  Services come and go, and what one of them says may break the planning of that one.
Idea.  A task a service, that begins anew when it fails.  Replicas of the planner that do not lead plan as well and
write nothing: who takes over knows the load already.
Invariant.  Nothing is written unless the Lease is held.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from inferplane_api.claims import Key
from inferplane_planner.act.planning import Planning
from inferplane_planner.act.world import World
from inferplane_planner.cluster.tables import Tables
from inferplane_planner.observe.stream import Follow
from inferplane_runtime.kube.leadership import Leadership
from inferplane_runtime.lifecycle import spawn

_log = structlog.get_logger("inferplane.planner")
_AGAIN_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Making:
    """How the parts of one service are made, and what happens when it has gone."""

    world: Callable[[Key], World]
    planning: Callable[[World, Follow], Planning]
    gone: Callable[[Key], None]


class Fleet:
    """Plans what the tables hold."""

    def __init__(self, tables: Tables, making: Making, follow: Follow) -> None:
        self._tables = tables
        self._making = making
        self._follow = follow
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Follow the tables until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._tables.changed.wait()
                self._tables.changed.clear()
                if not self._tables.missing:
                    self.settle(group)

    def settle(self, group: asyncio.TaskGroup) -> None:
        """Have one task for each service that there is."""
        there = {record.key for record in self._tables.services.rows.values()}
        for key in [key for key in self._tasks if key not in there]:
            self._tasks.pop(key).cancel()
            self._making.gone(key)
        for key in sorted(there - self._tasks.keys(), key=lambda each: (each.namespace, each.name)):
            self._tasks[key] = spawn(group, f"plan {key.namespace}/{key.name}", self._plan(key))

    async def _plan(self, key: Key) -> None:
        while True:
            try:
                await self._making.planning(self._making.world(key), self._follow).run()
            except Exception:  # noqa: BLE001 - a task's boundary: what one service says must not end the others' planning
                _log.exception("planning failed and begins anew", namespace=key.namespace, name=key.name)
            await asyncio.sleep(_AGAIN_S)


async def lead(leadership: Leadership) -> None:
    """Hold the Lease, or wait for it, until cancelled; then give it back."""
    try:
        while True:
            await leadership.acquire()
            await leadership.hold()
    finally:
        await leadership.release()
