"""One runner per state folder.

The lock is the kernel's (`flock`): it ends with its holder however that dies, so a lock file left by `kill -9` is no
obstacle and needs no guessing about pids.  Children never inherit it (descriptors are close-on-exec), or an orphan
would keep a dead runner's lock.
"""

import fcntl
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import BinaryIO

from inferplane_operator.local.statedir import StateDir, StateError

_ATTEMPTS = 5
_PAUSE_S = 0.02


class InstanceRunningError(StateError):
    """Another runner holds the folder."""


@contextmanager
def hold_runner_lock(state: StateDir) -> Generator[Callable[[], bool]]:
    """Hold the folder's lock and have our pid in `runner.pid` meanwhile.

    The value says whether the folder is still there and still ours: one that was deleted takes its lock along, and
    nobody would find this runner any more.
    """
    with state.lock.open("a+b") as file:
        _take(file, state)
        state.pid.write_text(f"{os.getpid()}\n", encoding="ascii")
        ours = os.fstat(file.fileno()).st_ino

        def held() -> bool:
            try:
                return state.lock.stat().st_ino == ours
            except OSError:
                return False

        try:
            yield held
        finally:
            if held():
                state.pid.unlink(missing_ok=True)


def _take(file: BinaryIO, state: StateDir) -> None:
    """Take the lock; a few tries, because `runner_is_alive` of another process holds it for an instant."""
    for attempt in range(_ATTEMPTS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt + 1 == _ATTEMPTS:
                message = f"{state.root}: a runner (pid {runner_pid(state) or '?'}) already serves it"
                raise InstanceRunningError(message) from None
            time.sleep(_PAUSE_S)
        else:
            return


def runner_is_alive(state: StateDir) -> bool:
    """Whether some process holds the folder's lock."""
    try:
        with state.lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def runner_pid(state: StateDir) -> int | None:
    """Return the pid that the last runner wrote; meaningful only while it is alive."""
    try:
        return int(state.pid.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
