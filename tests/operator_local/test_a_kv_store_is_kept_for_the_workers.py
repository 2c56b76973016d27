"""The KV store of an instance: its files and their modes, what its process is told, what the status says of it."""

import asyncio
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from inferplane_kvstore.config import load
from inferplane_operator.local.backoff import RestartPolicy
from inferplane_operator.local.blueprint import LocalStore
from inferplane_operator.local.kv_places import store_values
from inferplane_operator.local.kv_store_process import KvStoreProcess
from inferplane_operator.local.statedir import StateDir
from inferplane_operator.local.testing import FakePorts, FakeProbe, FakeSpawner
from inferplane_operator.local.worker import Surroundings
from inferplane_operator.render import names

pytestmark = pytest.mark.anyio

Make = Callable[[], KvStoreProcess]


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    made = StateDir(tmp_path / "state")
    made.create()
    return made


@pytest.fixture
def spawner() -> FakeSpawner:
    return FakeSpawner()


@pytest.fixture
def make(state: StateDir, spawner: FakeSpawner, tmp_path: Path) -> Make:
    run_root = tmp_path / "run"
    run_root.mkdir()
    around = Surroundings(
        spawn=spawner,
        hold_port=FakePorts(),
        port_complaint=lambda _: "",
        probe=FakeProbe(),
        policy=RestartPolicy(first_s=0.0, limit_s=0.0),
        clock=lambda: 0.0,
        rng=Random(0),
        on_change=lambda: None,
        log_of=state.log,
        run_root=run_root,
        model_cache=tmp_path,
        environment={},
    )
    store = LocalStore(
        "cache",
        {
            "minHits": 2,
            "dram": {"path": "", "capacityBytes": 1 << 20},
            "ssd": {"path": str(tmp_path / "disk"), "capacityBytes": 1 << 20},
        },
    )
    return lambda: KvStoreProcess(state, around, store)


def target(place: str) -> Path:
    return Path(place).resolve()


async def started(process: KvStoreProcess, spawner: FakeSpawner, count: int = 1) -> None:
    """Let its first process start, then end it."""
    async with asyncio.TaskGroup() as group:
        group.create_task(process.run())
        await spawner.nth(count)
        await process.stop()


async def test_the_secret_is_made_once_and_for_its_owner_alone(
    state: StateDir, make: Make, spawner: FakeSpawner
) -> None:
    await started(make(), spawner)
    first = state.kv_secret.read_text()
    await started(make(), spawner, 2)

    assert state.kv_secret.read_text() == first
    assert len(bytes.fromhex(first.strip())) == 32
    assert stat.S_IMODE(state.kv_secret.stat().st_mode) == 0o600


async def test_another_instance_has_another_secret(state: StateDir, make: Make, spawner: FakeSpawner) -> None:
    await started(make(), spawner)
    first = state.kv_secret.read_text()
    state.kv_secret.unlink()
    await started(make(), spawner, 2)

    assert state.kv_secret.read_text() != first


async def test_the_secret_is_in_no_argument_and_no_variable(state: StateDir, make: Make, spawner: FakeSpawner) -> None:
    await started(make(), spawner)
    command = spawner.started[0].command
    secret = state.kv_secret.read_text().strip()

    assert secret not in " ".join(command.argv)
    assert secret not in "".join(command.env.values())
    assert secret not in state.kv_config.read_text()


async def test_store_and_engines_are_told_the_same_places(
    tmp_path: Path, state: StateDir, make: Make, spawner: FakeSpawner
) -> None:
    await started(make(), spawner)
    told, places = load(state.kv_config), store_values(tmp_path / "run")

    assert str(told.socket) == places[names.KV_SOCKET]
    assert target(places[names.KV_SECRET]) == state.kv_secret
    assert (Path(places[names.KV_PATH]) / "inferplane_kv_connector" / "connector.py").exists()
    assert told.dram.path.parent == Path("/dev/shm")  # noqa: S108 - where memory is a file
    assert told.ssd is not None
    assert told.ssd.path.parent == tmp_path / "disk"
    assert json.loads(state.kv_config.read_text())["minHits"] == 2


async def test_the_memory_goes_with_the_instance(state: StateDir, make: Make, spawner: FakeSpawner) -> None:
    await started(make(), spawner)
    arena = load(state.kv_config).dram.path
    arena.touch()
    await started(make(), spawner, 2)

    assert not arena.exists()
    assert str(os.getuid()) in arena.name


async def test_the_status_names_the_store_and_says_how_its_process_is(make: Make, spawner: FakeSpawner) -> None:
    process = make()

    assert process.status().name == "cache"
    assert process.status().process.state == "waiting"

    await started(process, spawner)

    assert process.status().process.state == "stopped"
