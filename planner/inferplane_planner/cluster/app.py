"""The planner of a cluster put together: watches -> tables -> a task a service -> scale and status."""

import asyncio
import secrets
import socket
from collections.abc import Callable
from random import Random
from typing import Final

from inferplane_api.claims import Key
from inferplane_planner.act.journal import Journal
from inferplane_planner.act.planning import Planning
from inferplane_planner.act.world import World
from inferplane_planner.cluster.fleet import Fleet, Making, lead
from inferplane_planner.cluster.lease import KubeLeases
from inferplane_planner.cluster.tables import Tables
from inferplane_planner.cluster.world import Knowledge, KubeWorld, Permission
from inferplane_planner.config import ClusterSettings
from inferplane_planner.meters import Meters
from inferplane_planner.observe.notices import Said, Told, tell_nobody
from inferplane_planner.observe.shared import SharedStreams
from inferplane_planner.observe.stream import Follow
from inferplane_runtime.clock import Clock
from inferplane_runtime.kube.api import KubeApi, read_cluster
from inferplane_runtime.kube.leadership import Leadership, LeaseName, LeaseTimes
from inferplane_runtime.lifecycle import spawn

_WHERE: Final = "kubernetes"


class ClusterWork:
    """Implements `Work`; `now` is the planner's clock."""

    def __init__(
        self,
        settings: ClusterSettings,
        *,
        knowledge: Knowledge,
        clock: Clock,
        now: Callable[[], float],
        journal: Journal,
        meters: Meters,
        notices: Told = tell_nobody,
    ) -> None:
        config = read_cluster(settings.kubeconfig, settings.context, where=_WHERE)
        own = settings.release_namespace or config.namespace
        rng = Random()  # noqa: S311 - jitter
        self._cluster = KubeApi(config, namespace=settings.namespace, rng=rng)
        self._release = KubeApi(config, namespace=own, rng=rng)
        self._rng, self._clock, self._now = rng, clock, now
        self._knowledge, self._journal, self._meters = knowledge, journal, meters
        self._notices = notices
        self._tables = Tables(routers=settings.routers, router_port=settings.router_port)
        lease = LeaseName(own, settings.lease)
        self._leadership = Leadership(
            KubeLeases(self._cluster, lease),
            lease,
            identity=f"{socket.gethostname()}_{secrets.token_hex(4)}",
            times=LeaseTimes(),
            now=clock.monotonic,
            wall=clock.wall,
        )

    @property
    def problem(self) -> str:
        missing = self._tables.missing
        return f"waiting for {missing}" if missing else ""

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                streams = SharedStreams(group)
                making = Making(self._world, self._planning, self._gone)
                spawn(group, "watches", self._tables.watch(self._cluster, self._release, rng=self._rng))
                spawn(group, "lease", lead(self._leadership))
                spawn(group, "fleet", Fleet(self._tables, making, streams.follow).run())
        finally:
            await self._cluster.close()
            await self._release.close()

    def _world(self, key: Key) -> World:
        leadership = self._leadership
        return KubeWorld(
            key,
            self._tables,
            self._cluster,
            self._knowledge,
            Permission(lambda: leadership.leads, leadership.check),
            now=self._now,
            wall=self._clock.wall,
        )

    def _planning(self, world: World, follow: Follow) -> Planning:
        return Planning(
            world,
            now=self._now,
            period_s=self._knowledge.period_s,
            journal=self._journal,
            decided=self._meters.decided,
            follow=follow,
            told=self._tell,
        )

    def _tell(self, group: asyncio.TaskGroup, said: Said) -> None:
        """Let routers know, if this replica's decisions are those that count."""
        if self._leadership.leads:
            self._notices(group, said)

    def _gone(self, key: Key) -> None:
        self._meters.forget(key.namespace, key.name)
