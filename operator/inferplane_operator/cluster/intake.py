"""Takes in what watches tell: into the store, and the keys that it is about into the queue."""

from collections.abc import Callable, Iterable
from typing import Protocol

from inferplane_operator.cluster.applied import Memory
from inferplane_operator.cluster.kinds import Kind
from inferplane_operator.cluster.store import Change, Put, Store
from inferplane_operator.cluster.stored import Stored, store_form
from inferplane_operator.cluster.work_keys import WorkKey, keys_for
from inferplane_operator.reconcile.values import Manifest


class Queue(Protocol):
    def add(self, key: WorkKey, *, urgent: bool = False) -> None: ...


class Intake:
    """What kopf's handlers call; it neither waits nor fails."""

    def __init__(self, store: Store, queue: Queue, memory: Memory, *, now: Callable[[], float]) -> None:
        self._store = store
        self._queue = queue
        self._memory = memory
        self._now = now
        self._last: dict[str, float] = {}
        self.listed_again = False
        """Set when an object that is known was listed: a watch has started anew, and what went meanwhile is unknown."""

    def watched(self, kinds: Iterable[Kind]) -> None:
        """Note of which kinds there will be word."""
        self._store.watched = frozenset(kind.kind for kind in kinds)

    def seen(self, raw: Manifest, *, listed: bool) -> None:
        """Take an object that came, changed or was listed."""
        put = self._put(raw)
        self._last[put.now.id.kind] = self._now()
        if put.change is not Change.STORED:
            self.listed_again = self.listed_again or listed

    def written(self, raw: Manifest) -> Stored:
        """Take what a write of ours made of an object; its watch event will bring nothing new."""
        return self._put(raw).now

    def _put(self, raw: Manifest) -> Put:
        put = self._store.put(raw)
        if put.change is Change.STORED:
            self._queue_for(put)
        return put

    def _queue_for(self, put: Put) -> None:
        kind = put.now.id.kind
        if put.before is not None and put.before.uid != put.now.uid:
            self._memory.forget(put.now.id)
        urgent = put.before is None or put.before.generation != put.now.generation
        for key in keys_for(self._store, put.now, put.before):
            self._queue.add(key, urgent=urgent and key.kind == kind and key.name == put.now.id.name)

    def gone(self, raw: Manifest) -> None:
        """Take the last word about an object."""
        gone = store_form(raw)
        self._last[gone.id.kind] = self._now()
        known = self._store.get(gone.id)
        if known is not None and known.uid == gone.uid:
            self.dropped(known)
            self._store.remove(known.id, known.uid)

    def dropped(self, known: Stored) -> None:
        """Queue whoever must hear that an object is no more."""
        keys = list(keys_for(self._store, known))
        self._memory.forget(known.id)
        for key in keys:
            self._queue.add(key)

    def event_ages_s(self) -> dict[str, float]:
        now = self._now()
        return {kind: now - at for kind, at in self._last.items()}
