"""Real processes: groups, the parent-death signal, and orphans of a killed runner."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from inferplane_operator.local.processes import (
    INSTANCE_MARKER,
    ChildRecord,
    Command,
    end_orphans,
    read_records,
    spawn,
    start_time,
    write_records,
)
from inferplane_operator.local.statedir import StateDir

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
# A leader that leaves a grandchild behind in its session and exits.
ABANDON = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}]); "
linux = pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal and /proc are Linux's")


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    found = StateDir(tmp_path / "state")
    found.create()
    return found


def start_orphan(state: StateDir, program: str) -> subprocess.Popen[str]:
    """Start a process as a runner of `state` would have, and wait for its first line."""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, INSTANCE_MARKER: str(state.root)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def group_exists(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    return True


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for what another process does; the test's own time limit is the deadline."""
    while not condition():  # noqa: ASYNC110  nothing in this process knows when it happens
        await asyncio.sleep(0.01)


def reap(process: subprocess.Popen[str]) -> int:
    if process.stdout is not None:
        process.stdout.close()
    return process.wait(timeout=170)


def command(tmp_path: Path, program: str) -> Command:
    return Command("child", (sys.executable, "-c", program), dict(os.environ), tmp_path / "child.log")


@pytest.mark.anyio
async def test_a_child_runs_with_its_environment_and_logs_both_outputs(tmp_path: Path) -> None:
    program = "import os, sys; print(os.environ['COLOUR']); print('err', file=sys.stderr); sys.exit(7)"
    log = tmp_path / "child.log"
    running = await spawn(Command("child", (sys.executable, "-c", program), {"COLOUR": "blue"}, log))

    assert await running.wait() == 7
    assert sorted(log.read_text().split()) == ["blue", "err"]


@pytest.mark.anyio
async def test_a_program_that_does_not_exist_says_so_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    running = await spawn(Command("child", ("/no/such/program",), {}, log))

    assert await running.wait() == 127
    assert log.read_text() == "/no/such/program: cannot be started: No such file or directory\n"


@pytest.mark.anyio
async def test_a_signal_reaches_what_the_child_forked(tmp_path: Path) -> None:
    program = f"{ABANDON} import time; time.sleep(600)"
    log = tmp_path / "child.log"
    running = await spawn(command(tmp_path, program))
    await eventually(lambda: log.exists() and "up" in log.read_text())
    running.signal(signal.SIGKILL)
    await running.wait()
    await eventually(lambda: not group_exists(running.pid))  # init reaps the grandchild a moment later


@linux
def test_children_get_sigterm_when_their_runner_is_killed(tmp_path: Path) -> None:
    child_says = tmp_path / "said"
    child = (
        "import pathlib, signal, sys, time\n"
        f"said = pathlib.Path({str(child_says)!r})\n"
        "signal.signal(signal.SIGTERM, lambda *_: (said.write_text('bye'), sys.exit(0)))\n"
        "print('up', flush=True)\n"
        "time.sleep(600)\n"
    )
    runner = (
        "import asyncio, os, pathlib, sys, time\n"
        "from inferplane_operator.local.processes import Command, spawn\n"
        "async def main():\n"
        f"    log = pathlib.Path({str(tmp_path / 'child.log')!r})\n"
        f"    running = await spawn(Command('c', (sys.executable, '-c', {child!r}), dict(os.environ), log))\n"
        "    while not log.exists() or 'up' not in log.read_text(): time.sleep(0.01)\n"
        "    print(running.pid, flush=True)\n"
        "    time.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", runner], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.kill()
    reap(process)
    while start_time(pid):
        os.sched_yield()

    assert child_says.read_text() == "bye"


def test_orphans_of_a_killed_runner_are_ended(state: StateDir) -> None:
    orphan = start_orphan(state, SLEEP)
    write_records(state, [ChildRecord("engine", orphan.pid, start_time(orphan.pid))])

    assert end_orphans(state) == ["engine"]
    assert reap(orphan) == -signal.SIGTERM
    assert read_records(state) == []


def test_a_deaf_orphan_is_killed(state: StateDir) -> None:
    orphan = start_orphan(state, DEAF)
    write_records(state, [ChildRecord("engine", orphan.pid, start_time(orphan.pid))])
    end_orphans(state, grace_s=0.05)

    assert reap(orphan) == -signal.SIGKILL


def test_a_process_that_merely_has_the_same_pid_is_left_alone(state: StateDir) -> None:
    innocent = start_orphan(state, SLEEP)
    write_records(state, [ChildRecord("engine", innocent.pid, "another start time")])

    assert end_orphans(state) == []
    assert innocent.poll() is None
    innocent.kill()
    reap(innocent)


@linux
def test_members_without_their_leader_are_found_by_session_and_marker(state: StateDir) -> None:
    leader = start_orphan(state, ABANDON)
    started = "gone"
    assert leader.wait(timeout=170) == 0
    write_records(state, [ChildRecord("engine", leader.pid, started)])

    assert end_orphans(state) == ["engine"]
    assert leader.stdout is not None
    assert leader.stdout.read() == ""  # ends when the last holder of the pipe has gone
    leader.stdout.close()


@pytest.mark.parametrize("text", ["", "{", "[1]", '[{"name": "x"}]'])
def test_damaged_records_mean_that_nothing_is_known(state: StateDir, text: str) -> None:
    state.children.write_text(text)

    assert end_orphans(state) == []
