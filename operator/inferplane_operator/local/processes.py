"""Starting programs so that none of them outlives the runner, and ending what a killed runner left.

Each child leads its own session: a signal to its group reaches what it forked (an engine's core process), and the
group's number stays its own as long as one member lives.  Three nets, from the usual to the worst case:

1. a runner that ends stops its children;
2. a runner that is killed: the kernel sends its children SIGTERM (Linux, see `launch`);
3. what survived even that is found by the next runner, from the recorded pid *and* start time (pids are reused), with a
   marker in the environment as proof that a session without its leader is ours.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from inferplane_operator.local import launch
from inferplane_operator.local.statedir import StateDir, replace_file

INSTANCE_MARKER = "INFERPLANE_INSTANCE"
"""Environment variable of every child: the state folder that it belongs to."""
_ROTATE_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Command:
    """A program to run: `env` is its whole environment, `log` takes both outputs."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    log: Path


class Running(Protocol):
    """A started program."""

    @property
    def pid(self) -> int: ...

    async def wait(self) -> int:
        """Return the exit status; negative: ended by that signal."""
        ...

    def signal(self, number: int) -> None:
        """Send to the whole group; nothing happens when nobody is left."""
        ...


class Spawner(Protocol):
    async def __call__(self, command: Command, /) -> Running: ...


@dataclass(frozen=True, slots=True)
class _Group:
    process: asyncio.subprocess.Process

    @property
    def pid(self) -> int:
        return self.process.pid

    async def wait(self) -> int:
        return await self.process.wait()

    def signal(self, number: int) -> None:
        signal_group(self.process.pid, number)


async def spawn(command: Command) -> Running:
    """Start `command` in its own session, bound to this process's life."""
    _rotate(command.log)
    with command.log.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *launch_argv(command.argv),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(command.env),
            start_new_session=True,
        )
    return _Group(process)


def launch_argv(argv: Sequence[str]) -> list[str]:
    """Wrap `argv` so that it ends with this process."""
    return [sys.executable, "-I", "-S", str(launch.__file__), str(os.getpid()), *argv]


def _rotate(log: Path) -> None:
    """Keep one older log: a child that crashes for days must not fill the disk."""
    if log.exists() and log.stat().st_size > _ROTATE_BYTES:
        log.replace(log.with_suffix(".log.1"))


def signal_group(leader: int, number: int) -> None:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):  # macOS says EPERM for a group of zombies
        return


@dataclass(frozen=True, slots=True)
class ChildRecord:
    """A child as a later runner can recognise it."""

    name: str
    pid: int
    started: str


def write_records(state: StateDir, records: Iterable[ChildRecord]) -> None:
    replace_file(state.children, json.dumps([asdict(record) for record in records]))


def read_records(state: StateDir) -> list[ChildRecord]:
    """Return what the last runner recorded; a missing or damaged file means that nothing is known."""
    try:
        found = json.loads(state.children.read_text(encoding="utf-8"))
        return [ChildRecord(str(entry["name"]), int(entry["pid"]), str(entry["started"])) for entry in found]
    except (OSError, ValueError, TypeError, KeyError):
        return []


def start_time(pid: int) -> str:
    """Return when the process started, as text to compare; empty when there is no such process."""
    if sys.platform == "linux":
        fields = _stat_fields(pid)
        return fields[19] if fields and fields[0] != "Z" else ""
    done = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603, S607  fixed arguments
    return done.stdout.strip()


def _stat_fields(pid: int) -> list[str]:
    """Return /proc/PID/stat from the state field on (the name before it may hold spaces and parentheses)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _marked(pid: int, marker: str) -> bool:
    try:
        return f"{INSTANCE_MARKER}={marker}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _leaderless(leader: int, marker: str) -> bool:
    """Whether members of the leader's session live on without it and are ours."""
    if sys.platform != "linux":
        try:
            os.killpg(leader, 0)
        except OSError:
            return False
        return True
    return any(_session(pid) == leader and _marked(pid, marker) for pid in _pids())


def session_members(leader: int) -> list[int]:
    """Return the live processes of a child's session: what it forked holds most of an engine's memory."""
    if sys.platform != "linux":
        return [leader]
    return [pid for pid in _pids() if _session(pid) == leader]


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())


def _session(pid: int) -> int:
    fields = _stat_fields(pid)
    return int(fields[3]) if fields and fields[0] != "Z" else -1


def _survives(record: ChildRecord, marker: str) -> bool:
    now = start_time(record.pid)
    return now == record.started if now else _leaderless(record.pid, marker)


def end_orphans(state: StateDir, *, grace_s: float = 10.0) -> list[str]:
    """End what an earlier runner left, politely first; return the names of what was found.

    Blocks for at most `grace_s` and a little: nothing else runs yet when it is called.
    """
    marker = str(state.root)
    left = [record for record in read_records(state) if record.started and _survives(record, marker)]
    found = [record.name for record in left]
    for record in left:
        signal_group(record.pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = [record for record in left if _survives(record, marker)]
    for record in left:
        signal_group(record.pid, signal.SIGKILL)
    state.children.unlink(missing_ok=True)
    return found
