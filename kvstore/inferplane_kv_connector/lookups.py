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
from inferplane_kv_connector.wire import TIERS, Message

WAITING: Final = 1024
"""Lookups that may wait; more are answered "nothing" at once."""


@dataclass(slots=True)
class Lookup:
    keys: tuple[bytes, ...]
    asked_at: float
    """Seconds of the clock."""
    told: Message
    """What this engine says of itself to the store."""
    tiers: list[str] | None = None
    """Where the blocks lie that are there, from the first; None: not known yet."""


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

    def start(self, keys: Sequence[bytes], told: Message | None = None) -> Lookup:
        lookup = Lookup(tuple(keys), self.clock(), told or {})
        if not keys:
            lookup.tiers = []
            return lookup
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="inferplane-kv-lookup", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait(lookup)
        except queue.Full:
            lookup.tiers = []
        return lookup

    def poll(self, lookup: Lookup) -> list[str] | None:
        """Return the answer; None while it may still come in time."""
        if lookup.tiers is None and self.clock() - lookup.asked_at > self.deadline_s:
            lookup.tiers = []
        return lookup.tiers

    def stop(self) -> None:
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join()
        self.client.close()

    def _run(self) -> None:
        while (lookup := self._queue.get()) is not None:
            if lookup.tiers is None:
                self._ask(lookup)

    def _ask(self, lookup: Lookup) -> None:
        parts = [shard(key, rank, self.world) for key in lookup.keys for rank in range(self.world)]
        found = self.client.find(parts, told=lookup.told)
        if lookup.tiers is None:  # not given up meanwhile
            lookup.tiers = [
                _slowest(found[at : at + self.world]) for at in range(0, _whole(found, self.world), self.world)
            ]


def _whole(found: Sequence[str], world: int) -> int:
    return len(found) // world * world


def _slowest(tiers: Sequence[str]) -> str:
    """Name a block by the part of it that comes last."""
    return max(tiers, key=lambda tier: TIERS.index(tier) if tier in TIERS else len(TIERS))
