"""One download of a repository at a time, among all Pods that share a folder.

The lock is the kernel's, on a file in the folder: whoever dies gives it back.  Network file systems that know no locks
are used without one: files are still placed whole, only the traffic doubles.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import structlog

_WITHOUT_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS})
_log = structlog.get_logger("inferplane.fetch")


@contextmanager
def locked(path: Path, *, wait: Callable[[], None]) -> Generator[None]:
    """Hold the lock of `path`; `wait` passes the time between two tries."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Group-writable, as Pods of one cache may run as different users of one group.
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o664)
    try:
        _take(file, wait)
        yield
    finally:
        os.close(file)


def _take(file: int, wait: Callable[[], None]) -> None:
    told = False
    while not _try(file):
        if not told:
            _log.info("another Pod downloads into this folder: waiting for it")
            told = True
        wait()


def _try(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            raise
        _log.warning("this file system has no locks: several Pods may download the same", error=error.strerror)
    return True
