"""Lines of progress while files come in, from what lies in the folder: on disk is what counts."""

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import structlog

_MIB = 1024 * 1024
_log = structlog.get_logger("inferplane.fetch")


def bytes_in(folder: Path) -> int:
    """Add up a folder's files, those that are not whole included."""
    total = 0
    for path in folder.glob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # a part that has become a whole file
            continue
    return total


@contextmanager
def told(folder: Path, total: int, *, interval_s: float) -> Generator[None]:
    """Tell every `interval_s` how much of `total` bytes has come into `folder`."""
    over = threading.Event()

    def tell() -> None:
        began, before = time.monotonic(), bytes_in(folder)
        while not over.wait(interval_s):
            now = bytes_in(folder)
            rate = (now - before) / max(time.monotonic() - began, 1e-3)
            _log.info("downloading", done_mib=now // _MIB, of_mib=total // _MIB, mib_per_s=round(rate / _MIB, 1))

    thread = threading.Thread(target=tell, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
