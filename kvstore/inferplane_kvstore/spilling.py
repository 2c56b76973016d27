"""Copying admitted blocks down, in the background: one thread a tier, a bounded queue, batches.

Problem: a slow disk or a slow Redis must not slow an engine, and flash wears out.
Idea: only what was used often enough is offered; what does not fit into the queue is dropped and counted, and offered
again at its next use.  All writing to a tier happens in its thread, so that slots are blanked and written in one order.
Invariant: a block is found in a tier only when its bytes are durable there.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import structlog

from inferplane_kv_connector.envelope import Header
from inferplane_kvstore.counters import REDIS, SSD
from inferplane_kvstore.errors import TierError
from inferplane_kvstore.remote import Remote
from inferplane_kvstore.store import Store
from inferplane_kvstore.stretch import DiskStretch
from inferplane_kvstore.tier_index import Entry, Reservation, TierIndex

QUEUE: Final = 4096
"""Blocks that wait to be written."""
BATCH: Final = 32
_log = structlog.get_logger()
_T = TypeVar("_T")


class Writer(Protocol):
    def write(self, entries: Sequence[Entry], /) -> int:
        """Write blocks and return how many were taken.  Raises TierError."""
        ...

    def forget(self, keys: Sequence[bytes], /) -> None:
        """Remove blocks.  Raises TierError."""
        ...


@dataclass(frozen=True, slots=True)
class _Forget:
    keys: tuple[bytes, ...]
    done: threading.Event


class Spiller:
    """Has what it is offered written by `writer`, in its own thread."""

    def __init__(self, store: Store, tier: str, writer: Writer) -> None:
        self._store = store
        self._tier = tier
        self._writer = writer
        self._queue: queue.Queue[bytes | _Forget | None] = queue.Queue(QUEUE)
        self._waiting: set[bytes] = set()
        self._thread = threading.Thread(target=self._run, name=f"spill-{tier}")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, then end."""
        self._queue.put(None)
        self._thread.join()

    def offer(self, key: bytes) -> None:
        if key in self._waiting:
            return
        self._waiting.add(key)
        try:
            self._queue.put_nowait(key)
        except queue.Full:
            self._waiting.discard(key)
            self._store.counters.tiers[self._tier].dropped += 1

    def forget(self, keys: Sequence[bytes]) -> None:
        """Have blocks removed after what was offered before; waits until they are."""
        wish = _Forget(tuple(keys), threading.Event())
        self._queue.put(wish)
        wish.done.wait()

    def settle(self) -> None:
        """Wait until everything offered so far is written or given up."""
        self.forget(())

    def _run(self) -> None:
        ended = False
        while not ended:
            batch = [self._queue.get()]
            while len(batch) < BATCH and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            ended = None in batch
            keys = [each for each in batch if isinstance(each, bytes)]
            self._copy(keys)
            self._waiting.difference_update(keys)
            for each in batch:
                if isinstance(each, _Forget):
                    self._remove(each)

    def _remove(self, wish: _Forget) -> None:
        try:
            if wish.keys:
                self._guarded(lambda: self._writer.forget(wish.keys))
        finally:
            wish.done.set()

    def _copy(self, keys: Sequence[bytes]) -> None:
        entries = list(self._store.held(keys))
        try:
            written = self._guarded(lambda: self._writer.write(entries))
            self._store.counters.tiers[self._tier].written += written or 0
        finally:
            for entry in entries:
                self._store.release(entry, bad=False)

    def _guarded(self, work: Callable[[], _T]) -> _T | None:
        try:
            return work()
        except TierError as error:
            self._store.counters.tiers[self._tier].failed += 1
            _log.warning("a tier cannot be written", tier=self._tier, error=str(error))
            return None


class DiskWriter:
    def __init__(self, store: Store, index: TierIndex, disk: DiskStretch) -> None:
        self._store = store
        self._index = index
        self._disk = disk

    def write(self, entries: Sequence[Entry], /) -> int:
        """Write blocks and publish them when they are durable.  Raises TierError."""
        made = [(above, reserved) for above in entries if (reserved := self._reserve(above)) is not None]
        arena = self._store.arena
        try:
            for _, reserved in made:
                self._prepare(reserved)
            self._disk.write(
                [
                    (below.offset, Header(above.label, above.tag), arena.payload(above.offset, above.label.size))
                    for above, reserved in made
                    if (below := reserved.entry) is not None
                ]
            )
        except TierError:
            with self._store.changed:
                for above, _ in made:
                    self._index.drop(above.label.key)
            raise
        with self._store.changed:
            return sum(self._index.publish(above.label.key, above.tag) is not None for above, _ in made)

    def forget(self, keys: Sequence[bytes], /) -> None:
        with self._store.changed:
            gone = [entry.offset for key in keys if (entry := self._index.drop(key)) is not None]
        self._disk.blank(gone)

    def _reserve(self, above: Entry) -> Reservation | None:
        with self._store.changed:
            return self._index.reserve(above.label, self._store.clock())

    def _prepare(self, reserved: Reservation) -> None:
        self._disk.blank([entry.offset for entry in reserved.evicted])
        if reserved.entry is not None and reserved.new_region:
            self._disk.begin_region(self._index.space.region_start(reserved.entry.offset), reserved.entry.stride)


class RemoteWriter:
    def __init__(self, store: Store, remote: Remote) -> None:
        self._store = store
        self._remote = remote
        self._known: dict[bytes, None] = {}
        """Written lately, so not written again at every use.  Forgotten when the server fails: it may be empty."""
        self._lock = threading.Lock()
        """Of what is known: others delete."""
        self._failures = remote.failures
        remote.on_deleted = self.forget

    def write(self, entries: Sequence[Entry], /) -> int:
        arena = self._store.arena
        if self._failures != self._remote.failures:
            with self._lock:
                self._known.clear()
            self._failures = self._remote.failures
            self._mark_none()
        fresh = [entry for entry in entries if entry.origin != REDIS and entry.label.key not in self._known]
        taken = self._remote.store([(e.label.key, arena.record(e.offset, e.label.size)) for e in fresh])
        if taken == len(fresh):
            self._note(fresh)
            self._mark(fresh)
        return taken

    def _note(self, written: Sequence[Entry]) -> None:
        with self._lock:
            self._known.update(dict.fromkeys(entry.label.key for entry in written))
            while len(self._known) > QUEUE:
                del self._known[next(iter(self._known))]

    def _mark(self, written: Sequence[Entry]) -> None:
        store = self._store
        with store.changed:
            store.remote_marks.seen([entry.label for entry in written], store.clock())
            store.changed.notify_all()

    def _mark_none(self) -> None:
        with self._store.changed:
            self._store.remote_marks.clear()
            self._store.changed.notify_all()

    def forget(self, keys: Sequence[bytes], /) -> None:
        """Write these again when they are used: whoever deletes asks the server itself."""
        with self._lock:
            for key in keys:
                self._known.pop(key, None)


def spillers(store: Store) -> list[Spiller]:
    """Make the writers of the tiers that there are, and have the store offer them what is hot."""
    made: list[Spiller] = []
    if store.ssd is not None and store.disk is not None:
        made.append(Spiller(store, SSD, DiskWriter(store, store.ssd, store.disk)))
    if store.remote is not None:
        made.append(Spiller(store, REDIS, RemoteWriter(store, store.remote)))

    def offer(keys: Sequence[bytes]) -> None:
        for key in keys:
            if store.admitted(key):
                for spiller in made:
                    spiller.offer(key)

    store.hot = offer
    return made
