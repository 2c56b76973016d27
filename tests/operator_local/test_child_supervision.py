"""One child: restarted when it ends by itself, never after it was stopped."""

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from inferplane_operator.local.backoff import RestartPolicy
from inferplane_operator.local.child import Child, ChildState, describe_exit
from inferplane_operator.local.log_tail import tail
from inferplane_operator.local.processes import Command
from inferplane_operator.local.testing import FakeSpawner

QUICK = RestartPolicy(first_s=0.001, limit_s=0.002, healthy_after_s=60, loop_after=2)
SLOW = RestartPolicy(first_s=3600, limit_s=3600)


def make(spawner: FakeSpawner, log: Path, policy: RestartPolicy = QUICK, starts: list[str] | None = None) -> Child:
    def command() -> Command:
        (starts if starts is not None else []).append("start")
        return Command("engine", ("prog",), {}, log)

    return Child(
        "engine",
        command,
        spawn=spawner,
        policy=policy,
        clock=lambda: 0.0,
        rng=Random(0),
        on_change=lambda: None,
    )


@asynccontextmanager
async def supervised(child: Child) -> AsyncGenerator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(child.run(), name="child")
        try:
            yield
        finally:
            await child.stop(grace_s=5)
            await task


@pytest.mark.anyio
async def test_a_child_that_dies_is_started_again_and_its_end_is_told(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("of a life before\n")
    spawner, starts = FakeSpawner(), list[str]()
    child = make(spawner, log, starts=starts)
    async with supervised(child):
        first = await spawner.nth(1)
        with log.open("a") as file:
            file.write("one\ntwo\n")
        first.end(3)
        await spawner.nth(2)

        status = child.status()
        assert status.restarts == 1
        assert status.last_exit == "exited with status 3"
        assert status.last_log == ("one", "two")
        assert starts == ["start", "start"]


@pytest.mark.anyio
async def test_its_group_is_killed_when_the_leader_is_gone(tmp_path: Path) -> None:
    spawner = FakeSpawner()
    async with supervised(make(spawner, tmp_path / "log")):
        first = await spawner.nth(1)
        first.end(1)
        await spawner.nth(2)

        assert first.signals == [signal.SIGKILL]


@pytest.mark.anyio
async def test_repeated_deaths_are_a_crash_loop(tmp_path: Path) -> None:
    spawner = FakeSpawner()
    child = make(spawner, tmp_path / "log")
    async with supervised(child):
        for number in (1, 2):
            assert not child.crash_looping
            (await spawner.nth(number)).end(1)
        await spawner.nth(3)

        assert child.crash_looping
        assert child.restarts == 2


@pytest.mark.anyio
async def test_a_recycled_process_is_killed_and_the_reason_is_told(tmp_path: Path) -> None:
    spawner = FakeSpawner(deaf=True)
    child = make(spawner, tmp_path / "log")
    async with supervised(child):
        first = await spawner.nth(1)
        child.recycle("not ready within 5s")
        second = await spawner.nth(2)

        assert first.signals == [signal.SIGKILL, signal.SIGKILL]
        assert child.status().last_exit == "not ready within 5s"
        second.deaf = False


@pytest.mark.anyio
async def test_a_program_that_cannot_be_started_backs_off_like_a_crash(tmp_path: Path) -> None:
    spawner = FakeSpawner(failures=[OSError("no memory")])
    child = make(spawner, tmp_path / "log")
    async with supervised(child):
        await spawner.nth(1)

        assert child.status().last_exit == "cannot be started: no memory"


@pytest.mark.anyio
async def test_stopping_ends_politely_and_is_no_crash(tmp_path: Path) -> None:
    spawner = FakeSpawner()
    child = make(spawner, tmp_path / "log")
    async with supervised(child):
        process = await spawner.nth(1)

    assert process.signals[0] == signal.SIGTERM
    assert child.state is ChildState.STOPPED
    assert child.restarts == 0
    assert len(spawner.started) == 1


@pytest.mark.anyio
async def test_a_deaf_child_is_killed_after_the_grace(tmp_path: Path) -> None:
    spawner = FakeSpawner(deaf=True)
    child = make(spawner, tmp_path / "log")
    async with asyncio.TaskGroup() as group:
        group.create_task(child.run(), name="child")
        process = await spawner.nth(1)
        await child.stop(grace_s=0.001)

    assert process.signals[:2] == [signal.SIGTERM, signal.SIGKILL]


@pytest.mark.anyio
async def test_stopping_during_back_off_does_not_wait_for_it(tmp_path: Path) -> None:
    spawner = FakeSpawner()
    child = make(spawner, tmp_path / "log", SLOW)
    async with supervised(child):
        (await spawner.nth(1)).end(1)

    assert child.state is ChildState.STOPPED


@pytest.mark.anyio
async def test_a_cancelled_supervisor_leaves_no_process(tmp_path: Path) -> None:
    spawner = FakeSpawner()
    task = asyncio.create_task(make(spawner, tmp_path / "log").run())
    process = await spawner.nth(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert signal.SIGKILL in process.signals


def test_exits_are_told_in_words() -> None:
    assert describe_exit(0) == "exited with status 0"
    assert describe_exit(-9) == "killed by SIGKILL"
    assert describe_exit(-64).startswith("killed by")


def test_the_tail_of_a_log_reads_only_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 100_000 + b"\nlast \xff\n")

    assert tail(log, 1) == ("last \ufffd",)
    assert tail(log, 9, since=100_001) == ("last \ufffd",)
    assert tail(log, 9, since=10**9)[-1] == "last \ufffd"
    assert tail(tmp_path / "none", 3) == ()
