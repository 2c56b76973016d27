"""Asking the store what it has, without making the engine's scheduler wait.

A lookup starts when a request arrives and is usually answered before the request's turn comes.  After `deadline_s` the
answer counts as "nothing".
"""

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from inferplane_kv_connector.client import StoreClient
from inferplane_kv_connector.keys import shard

WAITING: Final = 1024
"""Lookups that may wait; more are answered "nothing" at once."""


@dataclass(slots=True)
class Lookup:
    keys: tuple[bytes, ...]
    asked_at: float
    """Seconds of the clock."""
    found: int | None = None
    """Blocks that are there, from the first; None: not known yet."""


@dataclass(slots=True)
class Lookups:
    """Runs its own thread; `start` and `poll` never block."""

    client: StoreClient
    world: int
    """Parallel workers, each of which has a part of every block."""
    deadline_s: float
    clock: Callable[[], float]
    _queue: "queue.Queue[Lookup | None]" = field(default_factory=lambda: queue.Queue(WAITING), init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def start(self, keys: Sequence[bytes]) -> Lookup:
        lookup = Lookup(tuple(keys), self.clock())
        if not keys:
            lookup.found = 0
            return lookup
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="inferplane-kv-lookup", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait(lookup)
        except queue.Full:
            lookup.found = 0
        return lookup

    def poll(self, lookup: Lookup) -> int | None:
        """Return the answer; None while it may still come in time."""
        if lookup.found is None and self.clock() - lookup.asked_at > self.deadline_s:
            lookup.found = 0
        return lookup.found

    def stop(self) -> None:
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join()
        self.client.close()

    def _run(self) -> None:
        while (lookup := self._queue.get()) is not None:
            if lookup.found is None:
                self._ask(lookup)

    def _ask(self, lookup: Lookup) -> None:
        parts = [shard(key, rank, self.world) for key in lookup.keys for rank in range(self.world)]
        found = len(self.client.find(parts)) // self.world
        if lookup.found is None:  # not given up meanwhile
            lookup.found = found
