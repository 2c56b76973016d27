"""The runner's loop: look at what is wanted and what is there, take the next steps, tell the result.

Everything that changes (a child ended, a probe answered, the desired file was replaced) merely wakes the loop; the loop
then looks at the whole picture.  Tasks are the supervised workers and their drains, all in one task group: a defect in
any of them ends the runner with its children instead of leaving half an instance that looks alive.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import structlog

from inferplane_operator.adapters import AgentAdapters
from inferplane_operator.local import machine as machines
from inferplane_operator.local.adapter_keeper import AdapterKeeper
from inferplane_operator.local.blueprint import Blueprint, LocalPool
from inferplane_operator.local.catalogue_writer import CatalogueWriter
from inferplane_operator.local.child import ChildState
from inferplane_operator.local.desired import Desired, read_desired
from inferplane_operator.local.kv_store_process import KvStoreProcess
from inferplane_operator.local.machine import Machine
from inferplane_operator.local.picture import Picture, RouterView, status_of
from inferplane_operator.local.plan import DrainWorker, PoolGoal, StartWorker, plan
from inferplane_operator.local.planner_process import PlannerProcess
from inferplane_operator.local.processes import ChildRecord, session_members, start_time, write_records
from inferplane_operator.local.router_process import RouterProcess
from inferplane_operator.local.statedir import StateDir, StateError, file_stamp
from inferplane_operator.local.status import InstancePhase, Status, write_status
from inferplane_operator.local.worker import Surroundings, Worker, moved

_log: structlog.stdlib.BoundLogger = structlog.get_logger("inferplane.local")


class Assemble(Protocol):
    """Turns desired state into a blueprint; raises StateError with field and fix.

    `before` is the blueprint in force, whose workers may offer more to adapters than is needed now.
    """

    def __call__(self, desired: Desired, /, *, before: Blueprint | None) -> Blueprint: ...


class Instance:
    def __init__(
        self,
        state: StateDir,
        *,
        assemble: Assemble,
        machine: Machine,
        around: Callable[[Callable[[], None]], Surroundings],
        agents: AgentAdapters,
        wall_clock: Callable[[], float],
        folder_held: Callable[[], bool] = lambda: True,
        memory_available: Callable[[], int | None] = machines.memory_available,
        poll_s: float = 0.2,
    ) -> None:
        """`around` makes what workers share, given the function that wakes this loop.

        `folder_held` says whether the state folder is there and ours: without it nobody can reach this instance.
        `poll_s`: how often the desired file's time stamp is looked at.
        """
        self._state = state
        self._assemble = assemble
        self._machine = machine
        self._around = around(self._wake_up)
        self._adapters = AdapterKeeper(agents, now=self._around.clock, on_change=self._wake_up)
        self._folder_held = folder_held
        self._memory_available = memory_available
        self._poll_s = poll_s
        self._wake = asyncio.Event()
        self._started_at = wall_clock()
        self._seen: tuple[int, int] | None = None
        self._generation = 0
        self._blueprint: Blueprint | None = None
        self._problem = ""
        self._stopping = False
        self._workers: dict[str, Worker] = {}
        self._router: RouterProcess | None = None
        self._planner: PlannerProcess | None = None
        self._kv_store: KvStoreProcess | None = None
        self._gateway_port = 0
        self._catalogue = CatalogueWriter(state.catalogue)
        self._unwritten = ""
        """Why the last write failed; empty when it did not."""
        self._published: dict[Path, tuple[object, object]] = {}
        """File to the value written and the stamp that the file got."""

    def stop(self) -> None:
        """Drain everything, then let `run` return."""
        self._stopping = True
        self._wake_up()

    def kill(self) -> None:
        """End everything now."""
        self._stopping = True
        if self._planner:
            self._planner.kill()
        if self._kv_store:
            self._kv_store.kill()
        if self._router:
            self._router.kill()
        for worker in self._workers.values():
            worker.kill()
        self._wake_up()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            keeper = group.create_task(self._adapters.run(), name="adapters")
            while not self._stopping:
                self._read()
                if self._blueprint and not self._stopping:
                    self._step(group, self._blueprint)
                self._publish()
                await self._sleep()
            teller = group.create_task(self._tell(), name="tell")
            keeper.cancel()
            await self._wind_down()
            teller.cancel()
        self._publish(ended=True)

    async def _tell(self) -> None:
        """Keep status current while the end is awaited."""
        while True:
            self._publish()
            await self._sleep()

    def _wake_up(self) -> None:
        self._wake.set()

    async def _sleep(self) -> None:
        try:
            async with asyncio.timeout(self._poll_s):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    def _read(self) -> None:
        """Take over the desired state when its file was replaced."""
        if not self._folder_held():
            _log.error("the state folder was removed: draining", folder=str(self._state.root))
            self.stop()
            return
        stamp = file_stamp(self._state.desired)
        if stamp is None or stamp == self._seen:
            return
        self._seen = stamp
        try:
            desired = read_desired(self._state)
            if desired is not None:
                self._take(desired)
        except StateError as error:  # keep on doing what was wanted before, and say so
            self._problem = str(error)
            _log.warning("the desired state cannot be carried out", problem=str(error))

    def _take(self, desired: Desired) -> None:
        self._generation = desired.generation
        self._stopping = self._stopping or desired.stopped
        if desired.stopped:
            return
        self._blueprint = self._assemble(desired, before=self._blueprint)
        self._gateway_port = desired.gateway_port
        self._problem = ""
        _log.info("took over a desired state", generation=desired.generation)

    def _step(self, group: asyncio.TaskGroup, blueprint: Blueprint) -> None:
        pools = {pool.name: pool for pool in blueprint.pools}
        self._keep_router(group, blueprint)
        self._keep_planner(group, blueprint)
        self._keep_kv_store(group, blueprint)
        for worker in self._workers.values():
            pool = pools.get(worker.pool.name)
            if pool and pool.revision == worker.pool.revision:
                moved(worker, pool)
        facts = [worker.fact() for worker in self._workers.values()]
        for action in plan([self._goal(pool) for pool in blueprint.pools], facts):
            match action:
                case StartWorker(name, pool_name):
                    self._workers[name] = self._new_worker(name, pools[pool_name], blueprint)
                case DrainWorker(name, reason):
                    self._drain(group, self._workers[name], reason)
        self._place(group)
        serving = [worker.for_adapters() for _, worker in sorted(self._workers.items()) if worker.ready]
        self._adapters.show(blueprint.service.name, blueprint.adapters, serving)

    def _new_worker(self, name: str, pool: LocalPool, blueprint: Blueprint) -> Worker:
        service = blueprint.service
        return Worker(name, pool, self._around, namespace=service.namespace, service=service.name)

    def _goal(self, pool: LocalPool) -> PoolGoal:
        room = machines.assign_gpus(pool.gpus, self._machine, self._gpus_taken()) is not None
        return PoolGoal(pool.name, pool.replicas, pool.revision, room=room and self._memory_for_one_more(pool))

    def _memory_for_one_more(self, pool: LocalPool) -> bool:
        """Ask only while the pool is rolled out: an old worker then shows what a new one will take."""
        old = [it for it in self._workers.values() if it.pool.name == pool.name and it.pool.revision != pool.revision]
        leaders = [pid for worker in old[:1] for pid in (worker.engine.pid, worker.agent.pid) if pid]
        members = [pid for leader in leaders for pid in session_members(leader)]
        return machines.fits_beside(machines.memory_of(members), self._memory_available())

    def _gpus_taken(self) -> set[str]:
        return {gpu for worker in self._workers.values() for gpu in worker.gpus or ()}

    def _place(self, group: asyncio.TaskGroup) -> None:
        """Start what waits for devices, in order of arrival."""
        for worker in [worker for worker in self._workers.values() if not worker.placed and not worker.draining]:
            gpus = machines.assign_gpus(worker.pool.gpus, self._machine, self._gpus_taken())
            if gpus is None:
                free = len(self._machine.gpus) - len(self._gpus_taken())
                worker.wait_for_room(
                    f"needs {worker.pool.gpus} GPUs, {free} of {len(self._machine.gpus)} are free; "
                    "lower replicas, or use mode: aggregated"
                )
                continue
            worker.place(gpus)
            group.create_task(self._live(worker), name=worker.name)

    async def _live(self, worker: Worker) -> None:
        await worker.run()
        self._workers.pop(worker.name, None)
        self._wake_up()

    def _drain(self, group: asyncio.TaskGroup, worker: Worker, reason: str) -> None:
        _log.info("a worker is drained", worker=worker.name, reason=reason)
        if not worker.placed:
            del self._workers[worker.name]
            return
        worker.draining = reason
        group.create_task(worker.drain(reason), name=f"{worker.name}-drain")

    def _keep_router(self, group: asyncio.TaskGroup, blueprint: Blueprint) -> None:
        if self._router and self._router.serves(self._gateway_port):
            return
        old, drain_s = self._router, max(pool.drain_timeout_s for pool in blueprint.pools)
        new = RouterProcess(
            self._state,
            self._around,
            gateway_port=self._gateway_port,
            drain_timeout_s=drain_s,
            processes=blueprint.gateway_processes,
        )
        self._router = new
        # The router reads the catalogue when it starts, so there should be one.
        self._try(lambda: self._write_catalogue(blueprint))
        group.create_task(new.run(), name="router")
        if old:
            group.create_task(old.stop(), name="router-drain")

    def _keep_planner(self, group: asyncio.TaskGroup, blueprint: Blueprint) -> None:
        if blueprint.planned and self._planner is None:
            self._planner = PlannerProcess(self._state, self._around)
            group.create_task(self._planner.run(), name="planner")
        elif self._planner is not None and not blueprint.planned:
            group.create_task(self._planner.stop(), name="planner-stop")
            self._planner = None

    def _keep_kv_store(self, group: asyncio.TaskGroup, blueprint: Blueprint) -> None:
        """One at a time: they share a socket and memory.  Engines do without until the next one is there."""
        old = self._kv_store
        if old is not None and old.store != blueprint.kv_store and not old.ending:
            group.create_task(old.stop(), name="kv-store-stop")
        if old is not None and old.child.state is ChildState.STOPPED:
            old = self._kv_store = None
        if old is None and blueprint.kv_store is not None:
            self._kv_store = KvStoreProcess(self._state, self._around, blueprint.kv_store)
            group.create_task(self._kv_store.run(), name="kv-store")

    async def _wind_down(self) -> None:
        """Gateway first: once it has finished its streams, nothing is left on the workers."""
        if self._planner:
            await self._planner.stop()
        if self._router:
            await self._router.stop()
        self._workers = {name: worker for name, worker in self._workers.items() if worker.placed}
        async with asyncio.TaskGroup() as drains:
            for worker in self._workers.values():
                if not worker.draining:
                    drains.create_task(worker.drain("the instance is stopped"), name=f"{worker.name}-drain")
        if self._kv_store:
            await self._kv_store.stop()

    def _publish(self, *, ended: bool = False) -> None:
        """Write what changed of status, catalogue and the record of children."""
        if self._folder_held():
            self._try(lambda: self._write_all(ended=ended))

    def _try(self, write: Callable[[], None]) -> None:
        """Serve on when a file cannot be written, as on a full disk: the next round tries it again."""
        try:
            write()
        except OSError as error:
            if str(error) != self._unwritten:
                _log.error("the state folder cannot be written to; trying again", problem=str(error))
            self._unwritten = str(error)
        else:
            self._unwritten = ""

    def _write_all(self, *, ended: bool) -> None:
        if not self._blueprint:
            if self._problem:
                self._write_status(self._problem_status())
            return
        self._write_catalogue(self._blueprint)
        picture = Picture(
            blueprint=self._blueprint,
            generation=self._generation,
            catalogue=self._catalogue.generation,
            workers=[worker.status() for worker in sorted(self._workers.values(), key=lambda worker: worker.name)],
            router=self._router_view(),
            runner_pid=os.getpid(),
            started_at=self._started_at,
            stopping=self._stopping,
            problem=self._problem,
            adapters=self._adapters.statuses(),
            kv_store=self._kv_store.status() if self._kv_store else None,
        )
        status = status_of(picture)
        if ended:
            status = status.model_copy(update={"phase": InstancePhase.STOPPED, "message": "", "runner_pid": 0})
        self._write_records()
        self._write_status(status)

    def _problem_status(self) -> Status:
        return Status(
            service="",
            observed_generation=self._generation,
            phase=InstancePhase.DEGRADED,
            message=self._problem,
            runner_pid=os.getpid(),
            started_at=self._started_at,
        )

    def _router_view(self) -> RouterView | None:
        router = self._router
        if router is None:
            return None
        return RouterView(router.url, router.grpc, router.metrics, router.readiness, router.status())

    def _write_status(self, status: Status) -> None:
        self._write(self._state.status, status, lambda: write_status(self._state, status))

    def _write_catalogue(self, blueprint: Blueprint) -> None:
        entries = [worker.entry() for worker in self._workers.values()]
        self._catalogue.write(blueprint, [entry for entry in entries if entry is not None])

    def _write_records(self) -> None:
        children = [child for worker in self._workers.values() for child in (worker.agent, worker.engine)]
        children += [each.child for each in (self._router, self._planner, self._kv_store) if each]
        running = tuple((child.name, child.pid) for child in children if child.pid)

        def write() -> None:
            write_records(self._state, [ChildRecord(name, pid, start_time(pid)) for name, pid in running if pid])

        self._write(self._state.children, running, write)

    def _write(self, path: Path, value: object, write: Callable[[], None]) -> None:
        """Write a file when its value is news, or when somebody else touched the file since."""
        if self._published.get(path) == (value, file_stamp(path)):
            return
        write()
        self._published[path] = (value, file_stamp(path))
