"""The runner's loop with processes, ports and probes that live in memory."""

import asyncio
import dataclasses
import errno
import json
import shutil
import signal
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from inferplane_api.catalogue import Catalogue, CatalogueService, WorkerRole
from inferplane_operator.adapters.testing import FakeAgents
from inferplane_operator.local.agent_client import Readiness
from inferplane_operator.local.backoff import RestartPolicy
from inferplane_operator.local.blueprint import Blueprint, LocalAdapter, LocalPool
from inferplane_operator.local.desired import Desired, change_desired
from inferplane_operator.local.instance import Instance
from inferplane_operator.local.machine import Machine
from inferplane_operator.local.statedir import StateDir, StateError
from inferplane_operator.local.status import InstancePhase, Status, WorkerPhase, read_status
from inferplane_operator.local.testing import FakePorts, FakeProbe, FakeProcess, FakeSpawner
from inferplane_operator.local.worker import Surroundings

pytestmark = pytest.mark.anyio

CONTAINER: dict[str, Any] = {
    "command": ["prog"],
    "args": ["--port", "$(INFERPLANE_ENGINE_PORT)", "--id", "$(INFERPLANE_POD_NAME)"],
    "env": [{"name": "INFERPLANE_ENGINE_PORT", "value": "8200"}, {"name": "INFERPLANE_POD_NAME", "valueFrom": {}}],
}
DECODE = LocalPool(
    name="decode",
    role=WorkerRole.DECODE,
    replicas=1,
    min_replicas=0,
    max_replicas=8,
    revision="a",
    agent=CONTAINER,
    engine=CONTAINER,
    drain_timeout_s=5,
)


@dataclass
class World:
    """An instance over fakes; `pools` is what the next desired state means."""

    state: StateDir
    pools: list[LocalPool] = field(default_factory=lambda: [DECODE])
    machine: Machine = field(default_factory=Machine)
    spawner: FakeSpawner = field(default_factory=FakeSpawner)
    probe: FakeProbe = field(default_factory=FakeProbe)
    agents: FakeAgents = field(default_factory=FakeAgents)
    adapters: tuple[LocalAdapter, ...] = ()
    ports: FakePorts = field(default_factory=FakePorts)
    memory: int | None = None
    policy: RestartPolicy = field(default_factory=lambda: RestartPolicy(first_s=0.001, limit_s=0.001, loop_after=2))
    problem: str = ""
    folder_held: bool = True

    def assemble(self, desired: Desired, *, before: Blueprint | None) -> Blueprint:
        del desired, before
        if self.problem:
            raise StateError(self.problem)
        service = CatalogueService(name="demo", served_names=("m",))
        return Blueprint(service, tuple(self.pools), adapters=self.adapters)

    def around(self, on_change: Callable[[], None]) -> Surroundings:
        return Surroundings(
            spawn=self.spawner,
            hold_port=self.ports,
            port_complaint=lambda port: "port is in use by somebody" if port in self.ports.taken else "",
            probe=self.probe,
            policy=self.policy,
            clock=lambda: 0.0,
            rng=Random(0),
            on_change=on_change,
            log_of=self.state.log,
            run_root=self.state.root / "run",
            model_cache=Path("/models"),
            environment={"PATH": "/bin"},
            probe_interval_s=0.005,
        )

    def want(self, *pools: LocalPool, port: int = 0) -> None:
        self.pools = list(pools)
        change_desired(self.state, lambda _: Desired(manifests=[], gateway_port=port))

    def instance(self) -> Instance:
        return Instance(
            self.state,
            assemble=self.assemble,
            machine=self.machine,
            around=self.around,
            agents=self.agents,
            wall_clock=lambda: 1.0,
            folder_held=lambda: self.folder_held,
            memory_available=lambda: self.memory,
            poll_s=0.01,
        )

    async def until(self, condition: Callable[[Status], bool]) -> Status:
        """Wait for a status; the test's time limit is the deadline."""
        while (status := read_status(self.state)) is None or not condition(status):  # noqa: ASYNC110  it is a file
            await asyncio.sleep(0.005)
        return status

    async def ready(self, generation: int) -> Status:
        return await self.until(lambda it: it.phase is InstancePhase.READY and it.observed_generation == generation)

    def process(self, name: str) -> FakeProcess:
        """Return the newest process of a child."""
        return self.processes(name)[-1]

    async def nth(self, name: str, count: int) -> FakeProcess:
        await self.until(lambda _: len(self.processes(name)) >= count)
        return self.processes(name)[count - 1]

    def processes(self, name: str) -> list[FakeProcess]:
        return [process for process in self.spawner.started if process.command.name == name]

    def written(self) -> Catalogue:
        return Catalogue.model_validate_json(self.state.catalogue.read_text())

    def catalogue(self) -> list[str]:
        return [worker.worker_id for worker in self.written().workers]


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    found = StateDir(tmp_path)
    found.create()
    return found


@asynccontextmanager
async def running(world: World) -> AsyncGenerator[Instance]:
    async with asyncio.TaskGroup() as group:
        instance = world.instance()
        task = group.create_task(instance.run(), name="instance")
        try:
            yield instance
        finally:
            if world.probe.drained:
                world.probe.drained.set()
            instance.stop()
            await task


def pool(**changes: Any) -> LocalPool:
    return dataclasses.replace(DECODE, **changes)


def phases(status: Status) -> dict[str, str]:
    return {worker.name: worker.phase.value for worker in status.workers}


async def test_wanted_workers_and_a_router_come_up(state: StateDir) -> None:
    world = World(state)
    world.want(pool(replicas=2))
    async with running(world):
        status = await world.ready(1)

        assert phases(status) == {"decode-0": "Ready", "decode-1": "Ready"}
        assert status.router is not None
        assert status.router.state == "running"
        assert world.catalogue() == ["decode-0", "decode-1"]
        config = json.loads(state.router_config.read_text())
        assert config["listen"]["http"] == status.url.removeprefix("http://")
        assert config["discovery"]["file"] == str(state.catalogue)

    final = read_status(state)
    assert final is not None
    assert final.phase is InstancePhase.STOPPED
    assert final.workers == ()


async def test_ports_and_names_are_put_into_the_templates_arguments(state: StateDir) -> None:
    world = World(state)
    world.want(pool())
    async with running(world):
        status = await world.ready(1)
        engine = world.process("decode-0-engine").command

        port = status.workers[0].engine_url.rpartition(":")[2]
        assert engine.argv == ("prog", "--port", port, "--id", "decode-0")
        assert engine.env["PATH"] == "/bin"


async def test_a_crashed_engine_is_started_again_and_the_status_says_why_meanwhile(state: StateDir) -> None:
    world = World(state, policy=RestartPolicy(first_s=3600, limit_s=3600))
    world.want(pool())
    async with running(world):
        await world.ready(1)
        state.log("decode-0-engine").write_text("boom\n")
        world.process("decode-0-engine").end(1)
        status = await world.until(lambda it: it.workers[0].phase is WorkerPhase.NOT_READY)

        assert status.phase is InstancePhase.DEGRADED
        assert "decode-0-engine exited with status 1 (1 restarts)" in status.message
        assert status.workers[0].engine is not None
        assert status.workers[0].engine.last_log == ("boom",)


async def test_an_engine_that_was_started_again_is_ready_only_when_it_answers_itself(state: StateDir) -> None:
    """Its agent may say ready of the process before for a moment."""
    world = World(state)
    world.want(pool())
    async with running(world):
        before = await world.ready(1)
        engine = before.workers[0].engine_url.removeprefix("http://")
        world.probe.not_ready[engine] = "loading"
        world.process("decode-0-engine").end(-9)
        await world.nth("decode-0-engine", 2)
        status = await world.until(lambda it: "the engine has not answered yet" in it.message)
        assert status.workers[0].phase is WorkerPhase.NOT_READY

        del world.probe.not_ready[engine]

        await world.ready(1)


@dataclass(eq=False)
class SlowProbe(FakeProbe):
    """Answers no question of one address while `answers` is not set."""

    slow: str = ""
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    answers: asyncio.Event = field(default_factory=asyncio.Event)

    async def ready(self, address: str) -> Readiness:
        if address == self.slow:
            self.asked.set()
            await self.answers.wait()
        return await super().ready(address)


async def test_what_was_found_of_an_engine_says_nothing_of_the_next(state: StateDir) -> None:
    probe = SlowProbe()
    world = World(state, probe=probe)
    world.want(pool())
    async with running(world):
        probe.slow = (await world.ready(1)).workers[0].http
        await probe.asked.wait()
        world.process("decode-0-engine").end(-9)
        other = (await world.nth("decode-0-engine", 2)).pid
        status = await world.until(lambda it: it.workers[0].engine is not None and it.workers[0].engine.pid == other)
        assert status.workers[0].phase is WorkerPhase.NOT_READY

        probe.answers.set()

        await world.ready(1)


async def test_a_killed_router_comes_back_on_the_same_ports(state: StateDir) -> None:
    world = World(state)
    world.want(pool())
    async with running(world):
        before = await world.ready(1)
        world.process("router").end(-9)
        after = await world.until(
            lambda it: it.phase is InstancePhase.READY and it.router is not None and it.router.restarts == 1
        )

        assert (after.url, after.grpc) == (before.url, before.grpc)


async def test_ready_is_said_when_the_router_routes_by_the_newest_catalogue(state: StateDir) -> None:
    world = World(state)
    world.want(pool())
    async with running(world):
        await world.ready(1)
        world.probe.catalogue = world.written().generation
        world.want(pool(replicas=2))
        status = await world.until(lambda it: it.message.startswith("router: "))

        assert phases(status) == {"decode-0": "Ready", "decode-1": "Ready"}
        assert status.phase is InstancePhase.PROGRESSING
        assert status.gateway_reason == ""

        world.probe.catalogue = world.written().generation
        await world.ready(2)


async def test_a_full_disk_ends_nothing_and_what_could_not_be_written_is_written_later(
    state: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(state)
    world.want(pool())
    async with running(world):
        await world.ready(1)
        with monkeypatch.context() as full:
            refused = refuse_writes(full)
            world.process("decode-0-engine").end(-9)
            while len(world.processes("decode-0-engine")) < 2:  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.005)
            while not refused:  # noqa: ASYNC110  a list, not an event
                await asyncio.sleep(0.005)

        status = await world.until(lambda it: it.workers[0].engine is not None and it.workers[0].engine.restarts == 1)
        assert status.service == "demo"
        await world.ready(1)


def refuse_writes(patch: pytest.MonkeyPatch) -> list[str]:
    """Let every file of a state folder meet a full disk; return the files that did."""
    refused: list[str] = []

    def full(*_: object, prefix: str, **__: object) -> tuple[int, str]:
        refused.append(prefix)
        raise OSError(errno.ENOSPC, "No space left on device")

    patch.setattr(tempfile, "mkstemp", full)
    return refused


async def test_a_crash_loop_is_called_one(state: StateDir) -> None:
    world = World(state, probe=FakeProbe(all_ready=False))
    world.want(pool())
    async with running(world):
        (await world.nth("decode-0-engine", 1)).end(1)
        (await world.nth("decode-0-engine", 2)).end(1)
        status = await world.until(lambda it: phases(it) == {"decode-0": "CrashLoop"})

        assert status.phase is InstancePhase.DEGRADED


async def test_scale_down_drains_before_it_stops_and_leaves_the_catalogue_in_between(state: StateDir) -> None:
    world = World(state)
    world.want(pool(replicas=2))
    async with running(world):
        await world.ready(1)
        world.probe.drained = asyncio.Event()
        world.want(pool(replicas=1))
        await world.until(lambda it: phases(it) == {"decode-0": "Ready", "decode-1": "Draining"})
        engine, agent = world.process("decode-1-engine"), world.process("decode-1-agent")

        assert engine.signals == []
        assert world.catalogue() == ["decode-0", "decode-1"]

        world.probe.drained.set()
        await world.ready(2)

        assert world.catalogue() == ["decode-0"]
        assert engine.signals[0] == signal.SIGTERM
        assert agent.signals[0] == signal.SIGTERM
        assert len(world.probe.drains) == 1


async def test_a_new_revision_is_ready_before_the_old_is_drained(state: StateDir) -> None:
    world = World(state)
    world.want(pool())
    async with running(world):
        await world.ready(1)
        world.probe.all_ready = True
        new_address = f"127.0.0.1:{world.ports.next}"
        world.probe.not_ready[new_address] = "loading weights"
        world.want(pool(revision="b"))
        status = await world.until(lambda it: it.message == "decode-1 is Starting: loading weights")
        assert phases(status) == {"decode-0": "Ready", "decode-1": "Starting"}
        assert status.observed_generation == 2
        assert status.phase is InstancePhase.PROGRESSING

        del world.probe.not_ready[new_address]
        status = await world.ready(2)

        assert phases(status) == {"decode-1": "Ready"}
        assert status.workers[0].revision == "b"


async def test_devices_are_handed_out_and_who_gets_none_waits_and_says_so(state: StateDir) -> None:
    world = World(state, machine=Machine(("0",)))
    world.want(pool(replicas=2, gpus=1))
    async with running(world):
        status = await world.until(lambda it: phases(it) == {"decode-0": "Ready", "decode-1": "Pending"})

        assert world.process("decode-0-engine").command.env["CUDA_VISIBLE_DEVICES"] == "0"
        assert status.workers[1].reason.startswith("needs 1 GPUs, 0 of 1 are free")
        assert world.catalogue() == ["decode-0"]

        world.want(pool(replicas=1, gpus=1))
        await world.ready(2)


async def test_on_one_device_a_rollout_makes_room_first(state: StateDir) -> None:
    world = World(state, machine=Machine(("0",)))
    world.want(pool(gpus=1))
    async with running(world):
        await world.ready(1)
        world.want(pool(gpus=1, revision="b"))
        status = await world.ready(2)

        assert [worker.revision for worker in status.workers] == ["b"]


async def test_a_desired_state_that_cannot_be_carried_out_changes_nothing_and_is_told(state: StateDir) -> None:
    world = World(state)
    world.want(pool())
    async with running(world):
        await world.ready(1)
        world.problem = "spec.model: does not fit; do this"
        world.want(pool(replicas=3))
        status = await world.until(lambda it: it.phase is InstancePhase.DEGRADED)

        assert status.message == "spec.model: does not fit; do this"
        assert phases(status) == {"decode-0": "Ready"}


async def test_a_gateway_port_that_is_taken_is_told_with_the_fix(state: StateDir) -> None:
    world = World(state, ports=FakePorts(taken={45_999}))
    world.want(pool(), port=45_999)
    async with running(world):
        status = await world.until(lambda it: phases(it) == {"decode-0": "Ready"} and it.router is not None)
        status = await world.until(lambda it: "in use by somebody" in it.message)

        assert status.phase is InstancePhase.DEGRADED
        world.ports.taken.clear()
        await world.ready(1)


async def test_another_gateway_port_means_another_router(state: StateDir) -> None:
    world = World(state)
    world.want(pool(), port=0)
    async with running(world):
        await world.ready(1)
        first = world.process("router")
        world.want(pool(), port=45_999)
        status = await world.until(lambda it: it.url.endswith(":45999") and it.phase is InstancePhase.READY)

        assert signal.SIGTERM in first.signals
        assert phases(status) == {"decode-0": "Ready"}


async def test_a_desired_stop_drains_the_gateway_first(state: StateDir) -> None:
    world = World(state)
    world.want(pool())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(world.instance().run(), name="instance")
        await world.ready(1)
        change_desired(state, lambda it: (it or Desired(manifests=[])).model_copy(update={"stopped": True}))
        await task
    router, engine = world.process("router"), world.process("decode-0-engine")

    assert router.signals[0] == signal.SIGTERM
    assert engine.signals[0] == signal.SIGTERM
    assert len(world.probe.drains) == 1
    status = read_status(state)
    assert status is not None
    assert (status.phase, status.observed_generation) == (InstancePhase.STOPPED, 2)


def remove(path: Path) -> None:
    path.unlink()


def damage_it(path: Path) -> None:
    path.write_text("x")


@pytest.mark.parametrize("damage", [remove, damage_it], ids=["removed", "damaged"])
async def test_files_that_somebody_removed_or_damaged_are_written_again(
    state: StateDir, damage: Callable[[Path], object]
) -> None:
    world = World(state)
    world.want(pool())
    async with running(world):
        await world.ready(1)
        files = (state.status, state.catalogue, state.children)
        before = {path: path.read_text() for path in files}
        for path in files:
            damage(path)
        while any(not path.exists() or path.read_text() != before[path] for path in files):  # noqa: ASYNC110  files
            await asyncio.sleep(0.005)


async def test_a_runner_whose_folder_was_removed_drains_and_ends(state: StateDir) -> None:
    world = World(state)
    world.want(pool())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(world.instance().run(), name="instance")
        await world.ready(1)
        shutil.rmtree(state.root)
        world.folder_held = False
        await task

    assert len(world.probe.drains) == 1
    assert not state.root.exists()


async def test_a_second_signal_kills_without_waiting_for_drains(state: StateDir) -> None:
    world = World(state, spawner=FakeSpawner(deaf=True))
    world.want(pool(drain_timeout_s=3600))
    async with asyncio.TaskGroup() as group:
        instance = world.instance()
        task = group.create_task(instance.run(), name="instance")
        await world.ready(1)
        instance.stop()
        await world.until(lambda it: it.phase is InstancePhase.STOPPING)
        instance.kill()
        await task

    assert all(signal.SIGKILL in process.signals for process in world.spawner.started)


async def test_an_engine_that_is_not_ready_in_time_is_started_anew(state: StateDir) -> None:
    world = World(state, probe=FakeProbe(all_ready=False))
    world.want(pool(startup_timeout_s=-1.0))
    async with running(world):
        status = await world.until(
            lambda it: bool(it.workers) and it.workers[0].engine is not None and it.workers[0].engine.restarts > 0
        )

        assert status.workers[0].engine is not None
        assert status.workers[0].engine.last_exit == "was not ready within -1 s"


async def test_ports_are_given_back_when_a_worker_has_gone(state: StateDir) -> None:
    world = World(state)
    world.want(pool(ranks=2))
    async with running(world):
        await world.ready(1)
        held = len(world.ports.held)
        assert held == 3 + 3 + 3  # router: grpc, metrics, gateway; agent: three; engine: one and a row of two

    assert all(port.released for port in world.ports.held)
