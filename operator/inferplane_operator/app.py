"""The operator, put together: watches fill the store, the leader's workers empty the queue.

Life of a process: serve health, wait for the custom resources, watch until the store is warm, wait for the Lease, work.
It ends 0 when it was told to and what ran has finished, and 1 when somebody else has the Lease: that one is writing,
and a new process begins with a clean picture.  While nobody can be asked, an API server that is away say, nothing is
written and no step runs; once the Lease is renewed the work goes on, without a new process and its wait for the Lease.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

import httpx
import structlog
from lightkube.config.kubeconfig import SingleConfig

from inferplane_operator.adapters import AdapterRound, Exchange, HttpAgentAdapters
from inferplane_operator.cluster.agent_pages import AgentPages
from inferplane_operator.cluster.applied import Memory
from inferplane_operator.cluster.audit import Audit
from inferplane_operator.cluster.auditing import Auditor
from inferplane_operator.cluster.canary_counters import CanaryCounters
from inferplane_operator.cluster.event_recording import EventRecorder
from inferplane_operator.cluster.health import Health
from inferplane_operator.cluster.intake import Intake
from inferplane_operator.cluster.kinds import ADAPTER, KV_STORE, ROUTE, SERVICE
from inferplane_operator.cluster.kv_store_pages import KVStorePages
from inferplane_operator.cluster.leases import ObjectLeases
from inferplane_operator.cluster.metrics import OperatorMetrics
from inferplane_operator.cluster.model_revisions import ModelRevisions
from inferplane_operator.cluster.objects import Objects
from inferplane_operator.cluster.reconciling import Core, Steps
from inferplane_operator.cluster.store import Store
from inferplane_operator.cluster.transport import KubeTransport
from inferplane_operator.cluster.work_keys import ADAPTERS, WorkKey
from inferplane_operator.cluster.workers import Workers
from inferplane_operator.cluster.writing import Writer
from inferplane_operator.handlers.watching import Watches
from inferplane_operator.hub import Hub
from inferplane_operator.settings import OperatorSettings
from inferplane_runtime.clock import Clock, SystemClock
from inferplane_runtime.http.api import Limits
from inferplane_runtime.http.client import split_address
from inferplane_runtime.http.server import HttpServer
from inferplane_runtime.kube.leadership import Leadership, LeaseName, LeaseTimes
from inferplane_runtime.lifecycle import StopSignal
from inferplane_runtime.settings import SettingsError

_log = structlog.get_logger("inferplane.operator")


class _Troubles:
    """Requests that failed, and listings of what was known already."""

    def __init__(self, transport: KubeTransport, intake: Intake) -> None:
        self._transport = transport
        self._intake = intake
        self._failures = 0

    def take(self) -> bool:
        found = self._intake.listed_again or self._transport.failures != self._failures
        self._intake.listed_again, self._failures = False, self._transport.failures
        return found


class Operator:
    """One operator process."""

    def __init__(self, settings: OperatorSettings, config: SingleConfig, *, core: Core, identity: str) -> None:
        clock: Clock = SystemClock()
        self._settings = settings
        self._transport = KubeTransport(config)
        self._client = httpx.AsyncClient(trust_env=False)
        self.metrics = OperatorMetrics()
        self.health = Health()
        self.store = Store()
        objects, memory, now = Objects(self._transport), Memory(), clock.monotonic
        lease = LeaseName(settings.lease_namespace or config.namespace, settings.lease_name)
        self._leadership = Leadership(
            ObjectLeases(objects, lease),
            lease,
            identity=identity,
            times=LeaseTimes(settings.lease_duration, settings.renew_deadline, settings.retry_period),
            now=now,
            wall=clock.wall,
        )
        allowed = self._leadership.check
        recorder = EventRecorder(objects, allowed=allowed, wall=clock.wall, identity=identity, metrics=self.metrics)
        pages = AgentPages(self._client)
        hub = Hub(self._client, endpoint=settings.hub_endpoint, now=now)
        self._revisions = ModelRevisions(hub, now=now, queue=self._look_again)
        self.workers = Workers(self._step, count=settings.workers, now=now, metrics=self.metrics)
        self._intake = Intake(self.store, self.workers, memory, now=now)
        writer = Writer(
            objects,
            self.store,
            recorder=recorder,
            memory=memory,
            take_in=self._intake.written,
            allowed=allowed,
            metrics=self.metrics,
        )
        facts = (self._revisions, CanaryCounters(pages, now=now), pages)
        self._steps = Steps(
            self.store,
            writer,
            core,
            facts=facts,
            adapters=AdapterRound(Exchange(HttpAgentAdapters(self._client), now=now)),
            commits=self._revisions,
            kv_stores=KVStorePages(pages, now),
            wall=clock.wall,
        )
        self._stop = StopSignal()
        self._ports = (0, 0)
        self._watches = Watches(
            objects,
            self._intake,
            config,
            namespaces=settings.namespaces,
            rules=settings.service_rules,
            take_signals=self._take_signals,
            on_restart=self.metrics.watches_restarted,
        )
        audit = Audit(objects, self.store, settings.namespaces, on_gone=self._intake.dropped)
        self._auditor = Auditor(
            audit,
            kinds=lambda: self._watches.kinds,
            restart=self._watches.restart,
            troubles=_Troubles(self._transport, self._intake),
            health=self.health,
            metrics=self.metrics,
            period_s=settings.audit_period,
        )
        self._health_http = HttpServer(self.health.handle, limits=Limits(max_connections=64))
        self._metrics_http = HttpServer(self.metrics.handler(self._picture), limits=Limits(max_connections=64))

    async def run(self, stop: StopSignal) -> int:
        """Run until told to stop, or until somebody else has the Lease; return the exit code."""
        self._stop = stop
        try:
            await self._listen()
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._watches.run(), name="watches")
                code = await self._serve(stop, group)
                watching.cancel()
            return code
        finally:
            await self._close()

    @property
    def ports(self) -> tuple[int, int]:
        """The ports of health and metrics that were got."""
        return self._ports

    async def _serve(self, stop: StopSignal, group: asyncio.TaskGroup) -> int:
        if not await _unless_stopped(stop, self._auditor.warm()):
            return 0
        _log.info("store is warm", objects=len(self.store))
        auditing = group.create_task(self._auditor.run(), name="audit")
        try:
            return await self._lead_while_ours(stop)
        finally:
            auditing.cancel()

    async def _lead_while_ours(self, stop: StopSignal) -> int:
        found = await _unless_stopped(stop, self._leadership.acquire())
        while found:
            self._take_over()
            await self._lead(stop)
            found = not stop.is_set and await _unless_stopped(stop, self._leadership.regain())
            if found and not self._leadership.leads:
                return 1
        return 0

    async def _lead(self, stop: StopSignal) -> None:
        """Work until told to stop, and then to the end of what runs; or until the Lease cannot be renewed."""
        work = asyncio.create_task(self.workers.run(), name="workers")
        hold = asyncio.create_task(self._leadership.hold(), name="hold-lease")
        stopped = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait({work, hold, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not hold.done():
                self.workers.drain()
                await asyncio.wait({work}, timeout=self._settings.drain_timeout)
        finally:
            self.health.leading = False
            self.metrics.leading(leads=False)
            await _cancelled(work, hold, stopped)
            await self._leadership.release()

    async def _step(self, key: WorkKey) -> float | None:
        return await self._steps.step(key)

    def _take_over(self) -> None:
        self.health.leading = True
        self.metrics.leading(leads=True)
        keys = [
            WorkKey(kind.kind, stored.id.namespace, stored.id.name)
            for kind in (SERVICE, KV_STORE, ROUTE)
            for stored in self.store.of_kind(kind.kind)
        ]
        keys += [WorkKey(ADAPTERS, it.id.namespace, it.id.name) for it in self.store.of_kind(SERVICE.kind)]
        keys += [WorkKey(ADAPTERS, it.id.namespace, it.target) for it in self.store.of_kind(ADAPTER.kind)]
        for key in keys:
            self.workers.add(key, urgent=True)  # what failed while the API server was away need not wait

    def _take_signals(self) -> None:
        self._stop.install()

    def _look_again(self, key: WorkKey) -> None:
        self.workers.add(key)

    def _picture(self) -> None:
        self.metrics.picture(
            depth=self.workers.depth, objects=len(self.store), event_ages_s=self._intake.event_ages_s()
        )
        self.metrics.services(self.store.of_kind(SERVICE.kind))

    async def _listen(self) -> None:
        await _bound("--listen-health", self._settings.listen_health, self._health_http)
        await _bound("--listen-metrics", self._settings.listen_metrics, self._metrics_http)
        self._ports = (self._health_http.port, self._metrics_http.port)
        _log.info("listening", health=self._ports[0], metrics=self._ports[1])

    async def _close(self) -> None:
        self._health_http.close()
        self._metrics_http.close()
        await self._revisions.close()
        await self._client.aclose()
        await self._transport.close()


async def _bound(flag: str, address: str, server: HttpServer) -> None:
    """Name the flag whose address cannot be had."""
    try:
        await server.start(*split_address(address))
    except OSError as error:
        raise SettingsError(flag, f"cannot listen on {address}: {error}") from error


async def _unless_stopped(stop: StopSignal, work: Coroutine[Any, Any, object]) -> bool:
    """Await `work`; False if the stop signal came first."""
    task, stopped = asyncio.create_task(work), asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            return False
        await task
        return True
    finally:
        await _cancelled(task, stopped)


async def _cancelled(*tasks: "asyncio.Task[Any]") -> None:
    for task in tasks:
        task.cancel()
    for found in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(found, Exception):
            raise found
