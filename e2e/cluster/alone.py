"""What one process does at a time on this machine, whichever checkout or lane of tests it belongs to."""

import fcntl
from collections.abc import Generator
from contextlib import contextmanager

from e2e.cluster.places import cache


@contextmanager
def alone(what: str) -> Generator[None]:
    """Wait for whoever does the same; who has waited looks again whether it is still to be done."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f".{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
