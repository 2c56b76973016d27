"""Bringing blocks into DRAM for an engine that wants them, whichever tier they are in.

Room is reserved under the store's lock, bytes are read outside it, and a block becomes readable when it is whole.  Two
engines that want one block wait for one read.  Whatever goes wrong on the way, the answer for that block is "gone".
"""

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Final

from inferplane_kv_connector.envelope import Header
from inferplane_kvstore.counters import REDIS, SSD
from inferplane_kvstore.errors import TierError
from inferplane_kvstore.store import Store
from inferplane_kvstore.tier_index import Entry, State

WAIT_S: Final = 10.0
"""Longest wait for what another is bringing; engines give up earlier."""


class Promoter:
    def __init__(self, store: Store, executor: Executor) -> None:
        """`executor` reads from disk, several blocks at once."""
        self._store = store
        self._executor = executor

    def bring(self, keys: Sequence[bytes]) -> list[Entry | None]:
        """Return each block in DRAM, held for the caller; None for what cannot be had."""
        self._from_disk(keys)
        self._from_remote(keys)
        return [self._settled(key) for key in keys]

    def _from_disk(self, keys: Sequence[bytes]) -> None:
        store = self._store
        if store.ssd is None:
            return
        jobs: list[tuple[Entry, Entry]] = []
        with store.changed:
            for key in keys:
                below = store.ssd.look(key) if key not in store.dram.entries else None
                above = below and store.reserve_dram(below.label, origin=SSD)
                if below is not None and above is not None:
                    store.ssd.hold(below)
                    jobs.append((below, above))
        began = store.clock()
        for (below, above), whole in zip(jobs, self._executor.map(self._read, jobs), strict=True):
            self._finish(above, below.tag if whole else None)
            with store.changed:
                store.ssd.let_go(below)
        self._timed(SSD, [above for _, above in jobs], began)

    def _read(self, job: tuple[Entry, Entry]) -> bool:
        below, above = job
        store = self._store
        assert store.disk is not None  # noqa: S101 - its books exist
        try:
            header = store.disk.read(below.offset, store.arena.payload(above.offset, above.label.size))
        except TierError:
            return False
        return header == Header(below.label, below.tag)

    def _from_remote(self, keys: Sequence[bytes]) -> None:
        store = self._store
        if store.remote is None:
            return
        with store.changed:
            missing = [key for key in keys if key not in store.dram.entries]
        jobs: list[Entry] = []
        headers = store.remote.headers(missing)
        with store.changed:
            for key, header in zip(missing, headers, strict=True):
                if header is None or header.label.key != key:
                    continue
                entry = store.reserve_dram(header.label, origin=REDIS)
                if entry is not None:
                    jobs.append(entry)
        wanted = [(job.label.key, store.arena.payload(job.offset, job.label.size)) for job in jobs]
        began = store.clock()
        for job, header in zip(jobs, store.remote.fetch(wanted), strict=True):
            self._finish(job, header.tag if header is not None and header.label == job.label else None)
        self._timed(REDIS, jobs, began)
        with store.changed:
            store.remote_marks.seen([job.label for job in jobs if job.state is State.READY], store.clock())
            store.changed.notify_all()

    def _timed(self, tier: str, jobs: Sequence[Entry], began: float) -> None:
        store = self._store
        whole = sum(job.label.size for job in jobs if job.state is State.READY)
        if whole:
            with store.changed:
                store.counters.tiers[tier].note_read(whole, store.clock() - began)

    def _finish(self, entry: Entry, tag: bytes | None) -> None:
        store = self._store
        with store.changed:
            if tag is not None:
                store.publish_dram(entry, tag)
                return
            store.counters.tiers[entry.origin].failed += 1
        store.abort(entry.label.key)

    def _settled(self, key: bytes) -> Entry | None:
        store = self._store
        with store.changed:
            store.changed.wait_for(lambda: not self._coming(key), WAIT_S)
            entry = store.dram.look(key)
            if entry is not None:
                store.dram.hold(entry)
            return entry

    def _coming(self, key: bytes) -> bool:
        entry = self._store.dram.entries.get(key)
        return entry is not None and entry.state is State.WRITING and bool(entry.origin)
