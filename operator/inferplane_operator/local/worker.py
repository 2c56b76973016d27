"""One worker: an engine and the agent beside it, their ports, and whether it serves.

The agent starts first and ends last, like the native sidecar that it is in a Pod: it is the agent that says "starting"
to routers while the engine loads, and that finishes the streams of an engine which is being shut down.
"""

import asyncio
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import structlog

from inferplane_api.catalogue import CatalogueWorker
from inferplane_operator.local.agent_client import Probe, Readiness
from inferplane_operator.local.backoff import RestartPolicy
from inferplane_operator.local.blueprint import LocalPool
from inferplane_operator.local.child import Child, ChildState
from inferplane_operator.local.kv_places import store_values
from inferplane_operator.local.plan import WorkerFact
from inferplane_operator.local.ports import HeldPort, Ports
from inferplane_operator.local.processes import Command, Spawner
from inferplane_operator.local.status import WorkerPhase, WorkerStatus
from inferplane_operator.reconcile.adapter import AdapterWorker
from inferplane_operator.render import container_command, container_environment, names
from inferplane_operator.render.values import Manifest

_log: structlog.stdlib.BoundLogger = structlog.get_logger("inferplane.local.worker")
_ENGINE_GRACE_S = 15.0
_AGENT_GRACE_S = 10.0
_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every worker of an instance shares."""

    spawn: Spawner
    hold_port: Callable[[int], HeldPort]
    port_complaint: Callable[[int], str]
    """Why nobody could listen on a port now; empty when somebody could."""
    probe: Probe
    policy: RestartPolicy
    clock: Callable[[], float]
    rng: Random
    on_change: Callable[[], None]
    log_of: Callable[[str], Path]
    run_root: Path
    """Short folder for the workers' run folders: their sockets lie there."""
    model_cache: Path
    """The user's own Hugging Face home."""
    environment: Mapping[str, str]
    """What children inherit."""
    probe_interval_s: float = 0.3
    """How often readiness is asked for."""


class Worker:
    """Made idle; `place` gives it devices, then `run` supervises it until `drain` or `kill`."""

    def __init__(self, name: str, pool: LocalPool, around: Surroundings, *, namespace: str, service: str) -> None:
        self.name = name
        self.pool = pool
        self._namespace = namespace
        self._service = service
        self.gpus: tuple[str, ...] | None = None
        self.draining = ""
        self._around = around
        self._readiness = Readiness(ready=False, reason="not started")
        self._ready_once = False
        self._seen_engine: int | None = None
        """Pid of the engine process that was seen to answer."""
        self._in_catalogue = False
        self._agent_ports = Ports(around.hold_port)
        self._engine_ports = Ports(around.hold_port)
        self.engine = self._child("engine", self._engine_command)
        self.agent = self._child("agent", self._agent_command)

    def _child(self, part: str, command: Callable[[], Command]) -> Child:
        return Child(
            f"{self.name}-{part}",
            command,
            spawn=self._around.spawn,
            policy=self._around.policy,
            clock=self._around.clock,
            rng=self._around.rng,
            on_change=self._around.on_change,
        )

    @property
    def ready(self) -> bool:
        # What was found of an engine says nothing of the one that took its place a moment ago.
        looked_at = self._seen_engine == self.engine.pid
        return self._readiness.ready and looked_at and self._running and not self.draining

    @property
    def placed(self) -> bool:
        return self.gpus is not None

    def fact(self) -> WorkerFact:
        return WorkerFact(self.name, self.pool.name, self.pool.revision, ready=self.ready, draining=bool(self.draining))

    def wait_for_room(self, reason: str) -> None:
        self._readiness = Readiness(ready=False, reason=reason)

    def place(self, gpus: tuple[str, ...]) -> None:
        """Give it its devices and ports: from now on it can be started."""
        self.gpus = gpus
        self._agent_ports.take(("http", "stream", "metrics", *_control(self.pool)))
        self._engine_ports.take(("engine",))
        self._engine_ports.take_row("side-channel", self.pool.ranks)
        shutil.rmtree(self._run_dir, ignore_errors=True)  # of a worker of that name under a killed runner
        self._run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._in_catalogue = True
        self.wait_for_room("starting")

    async def run(self) -> None:
        """Supervise both processes and watch the agent's readiness; ends when both have stopped."""
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self._watch(), name=f"{self.name}-watch")
            children = [group.create_task(child.run(), name=child.name) for child in (self.agent, self.engine)]
            await asyncio.wait(children)
            watch.cancel()
        self._agent_ports.release()
        self._engine_ports.release()
        shutil.rmtree(self._run_dir, ignore_errors=True)

    async def drain(self, reason: str) -> None:
        """Let it finish what it has, take it out of the catalogue, then stop it: engine first."""
        self.draining = reason
        self._around.on_change()
        if self.agent.state is ChildState.RUNNING:
            problem = await self._around.probe.drain(self._address("http"), timeout_s=self.pool.drain_timeout_s)
            if problem:
                _log.warning("a worker could not be drained", worker=self.name, problem=problem)
        self._in_catalogue = False
        self._around.on_change()
        await self.engine.stop(grace_s=_ENGINE_GRACE_S)
        await self.agent.stop(grace_s=_AGENT_GRACE_S)

    def kill(self) -> None:
        self.engine.kill()
        self.agent.kill()

    def entry(self) -> CatalogueWorker | None:
        """Return what the router should know of it; nothing before it exists and after it has drained."""
        if not self._in_catalogue:
            return None
        return CatalogueWorker(
            worker_id=self.name,
            namespace=self._namespace,
            service=self._service,
            pool=self.pool.name,
            role=self.pool.role,
            revision=self.pool.revision,
            http_address=self._address("http"),
            stream_address=self._address("stream"),
        )

    def for_adapters(self) -> AdapterWorker:
        """Return what loads adapters onto it, once it has been placed."""
        address = self._address("control") if self.pool.offers else ""
        return AdapterWorker(self.name, address, self.pool.offers)

    def status(self) -> WorkerStatus:
        phase = self._phase()
        status = WorkerStatus(
            name=self.name,
            pool=self.pool.name,
            role=self.pool.role.value,
            revision=self.pool.revision,
            phase=phase,
            reason="" if phase is WorkerPhase.READY else self._reason(),
            ready_once=self._ready_once,
        )
        if not self.placed:
            return status
        return status.model_copy(
            update={
                "http": self._address("http"),
                "stream": self._address("stream"),
                "metrics": self._address("metrics"),
                "control": self._address("control") if self.pool.offers else "",
                "engine_url": f"http://{_HOST}:{self._engine_ports['engine']}",
                "gpus": self.gpus,
                "agent": self.agent.status(),
                "engine": self.engine.status(),
            }
        )

    def _phase(self) -> WorkerPhase:
        if self.draining:
            return WorkerPhase.DRAINING
        if not self.placed:
            return WorkerPhase.PENDING
        if self.ready:
            return WorkerPhase.READY
        if self.engine.crash_looping or self.agent.crash_looping:
            return WorkerPhase.CRASH_LOOP
        return WorkerPhase.NOT_READY if self._ready_once else WorkerPhase.STARTING

    def _reason(self) -> str:
        if self.draining:
            return self.draining
        down = [child.status() for child in (self.engine, self.agent) if child.state is ChildState.BACKOFF]
        if down:
            return "; ".join(f"{child.name} {child.last_exit} ({child.restarts} restarts)" for child in down)
        return self._readiness.reason

    async def _watch(self) -> None:
        while True:
            found = await self._look()
            if found != self._readiness:
                self._readiness = found
                self._ready_once = self._ready_once or found.ready
                self._around.on_change()
            limit_s = self.pool.startup_timeout_s
            if not found.ready and not self._ready_once and self.engine.lived_s > limit_s:
                self.engine.recycle(f"was not ready within {limit_s:g} s")
            if found.restart and self._seen_engine == self.engine.pid:  # not the one that was started since
                self.engine.recycle(found.reason)
            await asyncio.sleep(self._around.probe_interval_s)

    async def _look(self) -> Readiness:
        if not self._running:
            return Readiness(ready=False, reason="starting")
        found = await self._around.probe.ready(self._address("http"))
        if not found.ready or self._seen_engine == self.engine.pid:
            return found
        # A new engine process: the agent may still speak of the one before.
        engine, pid = f"{_HOST}:{self._engine_ports['engine']}", self.engine.pid
        if not await self._around.probe.healthy(engine):
            return Readiness(ready=False, reason="the engine has not answered yet")
        self._seen_engine = pid
        return await self._around.probe.ready(self._address("http"))

    @property
    def _running(self) -> bool:
        return all(child.state is ChildState.RUNNING for child in (self.agent, self.engine))

    def _address(self, purpose: str) -> str:
        return f"{_HOST}:{self._agent_ports[purpose]}"

    def _agent_command(self) -> Command:
        if self._agent_ports.hand_over():
            self._around.on_change()  # the catalogue must name the new ports
        return self._command("agent", self.pool.agent)

    def _engine_command(self) -> Command:
        if self._engine_ports.hand_over():
            self.agent.recycle("its engine moved to another port")
        return self._command("engine", self.pool.engine)

    @property
    def _run_dir(self) -> Path:
        return self._around.run_root / self.name

    def _command(self, part: str, container: Manifest) -> Command:
        own = container_environment(container, self._values())
        name = f"{self.name}-{part}"
        devices = {"CUDA_VISIBLE_DEVICES": ",".join(self.gpus)} if self.gpus and part == "engine" else {}
        environment = {**self._around.environment, **own, **devices}
        return Command(name, container_command(container, own), environment, self._around.log_of(name))

    def _values(self) -> dict[str, str]:
        """Return what takes the place of a Pod's own ports, addresses and folders."""
        return {
            names.WORKER_ID: self.name,
            names.NAMESPACE: self._namespace,
            names.ZONE: "",
            names.ADDRESS: _HOST,
            names.BIND_HOST: _HOST,
            names.HTTP_PORT: str(self._agent_ports["http"]),
            names.STREAM_PORT: str(self._agent_ports["stream"]),
            names.METRICS_PORT: str(self._agent_ports["metrics"]),
            names.ENGINE_PORT: str(self._engine_ports["engine"]),
            names.SIDE_CHANNEL_PORT: str(self._engine_ports["side-channel"]),
            names.RUN_DIR: str(self._run_dir),
            names.MODEL_CACHE: str(self._around.model_cache),
            **store_values(self._around.run_root),
            **({names.CONTROL_PORT: str(self._agent_ports["control"])} if self.pool.offers else {}),
        }


def _control(pool: LocalPool) -> tuple[str, ...]:
    """Name the port on which adapters are loaded, if there are any."""
    return ("control",) if pool.offers else ()


def moved(worker: Worker, pool: LocalPool) -> None:
    """Take over what changes without a restart (drain and start-up limits, replica bounds)."""
    worker.pool = replace(pool, agent=worker.pool.agent, engine=worker.pool.engine, offers=worker.pool.offers)
