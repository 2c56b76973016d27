"""The store of one node: DRAM above SSD above Redis, for any number of engines.

Problem: engines come, go and are killed; disks hang; Redis dies.  None of it may fail a request or give wrong bytes.
Idea: one lock guards the books and no I/O happens under it.  Engines write into DRAM and publish; blocks that were used
`min_hits` times are copied down by background writers; what is only below is brought up when an engine wants it.
Write-through below DRAM once a block is admitted, so evicting from DRAM writes nothing.
Trade-off: a block used once lives in DRAM only.
Invariant: a block is found only after its bytes are complete, and its slot is not reused while anyone reads it.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import structlog

from inferplane_kv_connector.envelope import Header, Label
from inferplane_kvstore.config import StoreConfig
from inferplane_kvstore.counters import DRAM, REDIS, SSD, Counters
from inferplane_kvstore.errors import TierError
from inferplane_kvstore.journal import Journal
from inferplane_kvstore.ledger import Ledger
from inferplane_kvstore.policies import POLICIES
from inferplane_kvstore.remote import Remote
from inferplane_kvstore.remote_marks import RemoteMarks
from inferplane_kvstore.sketch import FrequencySketch
from inferplane_kvstore.space import PAGE, Space
from inferplane_kvstore.stretch import DiskStretch, MemoryStretch, survivors
from inferplane_kvstore.tier_index import Entry, Reservation, State, TierIndex

_MOST_REGION: Final = 64 << 20
_REGIONS: Final = 8
WORTH: Final = ("fetched", "declined")
_TYPICAL_BLOCK: Final = 256 << 10
"""Bytes; only sizes the frequency sketch."""
_log = structlog.get_logger()


class Store:
    """Thread-safe.  `hot` is told of blocks that may go down a tier."""

    def __init__(
        self,
        config: StoreConfig,
        *,
        arena: MemoryStretch,
        disk: DiskStretch | None,
        remote: Remote | None,
        clock: Callable[[], float],
    ) -> None:
        self.config = config
        self.arena = arena
        self.disk = disk
        self.remote = remote
        self.clock = clock
        self.changed = threading.Condition()
        """The lock of all books; notified when a block becomes readable or goes."""
        self.counters = Counters()
        self.journal = Journal()
        self.remote_marks = RemoteMarks(self.journal, config.ttl_s)
        self.told: dict[int, dict[str, Any]] = {}
        """What connected engines said of themselves last, by session."""
        self.worth = dict.fromkeys(WORTH, 0)
        """Sums over engines that have gone."""
        self.ledger = Ledger(config.quotas)
        blocks = (config.dram.capacity + (config.ssd.capacity if config.ssd else 0)) // _TYPICAL_BLOCK
        self.sketch = FrequencySketch(blocks)
        self.dram = self._tier(DRAM, config.dram.capacity)
        self.ssd = self._tier(SSD, config.ssd.capacity) if config.ssd and disk is not None else None
        self.closing = False
        self.hot: Callable[[Sequence[bytes]], None] = lambda _: None
        self._adopt()

    def find(self, keys: Sequence[bytes]) -> list[str]:
        """Return in which tier each is, up to the first that is nowhere; counts a use of all."""
        with self.changed:
            for key in keys:
                self.sketch.record(key)
            tiers = self._local_run(keys)
        while self.remote is not None and len(tiers) < len(keys):
            asked = keys[len(tiers) :]
            found = self.remote.present(asked)
            tiers += [REDIS] * found
            with self.changed:
                self.remote_marks.missed(asked[found : found + 1])
                more = self._local_run(keys[len(tiers) :])
            tiers += more
            if not found or not more:
                break
        self._count(len(keys), tiers)
        self.hot([key for key, tier in zip(keys, tiers, strict=False) if tier == DRAM])
        return tiers

    def engine_gone(self, session: int) -> None:
        """Keep what an engine counted.  Needs the lock."""
        said = self.told.pop(session, {})
        for name in WORTH:
            self.worth[name] += int(said.get(name, 0))

    def close(self) -> None:
        """Let nobody wait for changes any more."""
        with self.changed:
            self.closing = True
            self.changed.notify_all()

    def put(self, label: Label) -> int | None:
        """Return where the bytes of a block go (its header's offset); None when it is here or there is no room."""
        with self.changed:
            entry = self.reserve_dram(label)
            return None if entry is None else entry.offset

    def commit(self, key: bytes, tag: bytes) -> None:
        with self.changed:
            entry = self.dram.entries.get(key)
            if entry is None or entry.state is not State.WRITING:
                return
            self.publish_dram(entry, tag)
            self.counters.tiers[DRAM].written += 1
        self.hot([key])

    def abort(self, key: bytes) -> None:
        """Give back the room of a block that nobody completed."""
        with self.changed:
            entry = self.dram.entries.get(key)
            if entry is not None and entry.state is State.WRITING:
                self.dram.drop(key)
                self.changed.notify_all()

    def release(self, entry: Entry, *, bad: bool) -> None:
        """Let go of a block of DRAM that was read; `bad`: its bytes are not what was sealed."""
        self.release_from(DRAM, entry, bad=bad)

    def release_from(self, tier: str, entry: Entry, *, bad: bool) -> None:
        source = None
        with self.changed:
            index = self.ssd if tier == SSD and self.ssd is not None else self.dram
            if bad and entry.state is State.READY:
                source = self._quarantine(tier, entry)
            index.let_go(entry)
        if source is not None:
            self._erase(entry, source)

    def is_below(self, key: bytes) -> bool:
        """Whether a block is in a tier below DRAM, as far as this node knows.  Needs the lock."""
        return (self.ssd is not None and self.ssd.look(key) is not None) or self.remote_marks.knows(key)

    def admitted(self, key: bytes) -> bool:
        """Whether a block was used often enough for a tier below DRAM."""
        return self.config.min_hits <= 1 or self.sketch.estimate(key) >= self.config.min_hits

    def reserve_dram(self, label: Label, *, origin: str = "") -> Entry | None:
        """Needs the lock."""
        made = self.dram.reserve(label, self.clock(), origin=origin)
        return None if made is None else self._prepared(made)

    def publish_dram(self, entry: Entry, tag: bytes) -> None:
        """Needs the lock."""
        self.arena.stamp(entry.offset, Header(entry.label, tag))
        self.dram.publish(entry.label.key, tag)
        self.changed.notify_all()

    def held(self, keys: Sequence[bytes]) -> Iterator[Entry]:
        """Hold those of the keys that DRAM has."""
        with self.changed:
            for key in keys:
                entry = self.dram.look(key)
                if entry is not None:
                    self.dram.hold(entry)
                    yield entry

    def _prepared(self, made: Reservation) -> Entry | None:
        self.arena.blank([entry.offset for entry in made.evicted])
        if made.entry is not None and made.new_region:
            self.arena.begin_region(self.dram.space.region_start(made.entry.offset), made.entry.stride)
        return made.entry

    def _local_run(self, keys: Sequence[bytes]) -> list[str]:
        tiers: list[str] = []
        for key in keys:
            if self.dram.look(key) is not None:
                tiers.append(DRAM)
            elif self.ssd is not None and self.ssd.look(key) is not None:
                tiers.append(SSD)
            else:
                break
        now = self.clock()
        # From the last to the first: of a prefix its end goes before its beginning, without which it is worth nothing.
        for key in reversed(keys[: len(tiers)]):
            self.dram.touch(key, now)
            if self.ssd is not None:
                self.ssd.touch(key, now)
        return tiers

    def _count(self, asked: int, tiers: Sequence[str]) -> None:
        with self.changed:
            self.counters.lookups += asked
            self.counters.misses += asked - len(tiers)
            for tier in tiers:
                self.counters.tiers[tier].hits += 1

    def _quarantine(self, tier: str, entry: Entry) -> tuple[str, Entry | None]:
        """Forget a bad block where it came from and here; take the slot that spoilt it out of use."""
        key, source = entry.label.key, entry.origin or tier
        self.counters.tiers[source].corrupt += 1
        if tier == DRAM:
            self.arena.blank([entry.offset])
            self.dram.drop(key, retire=source == DRAM)
        below = self.ssd.drop(key, retire=True) if source == SSD and self.ssd is not None else None
        return source, below

    def _erase(self, entry: Entry, source: tuple[str, Entry | None]) -> None:
        """Make sure that a restart does not find a bad block again; its slot is nobody's, so no lock is needed."""
        tier, below = source
        _log.error("a stored block is corrupt", tier=tier, key=entry.label.key.hex()[:16], offset=entry.offset)
        if below is not None and self.disk is not None:
            with contextlib.suppress(TierError):
                self.disk.blank([below.offset])
        if tier == REDIS and self.remote is not None:
            self.remote.delete([entry.label.key])

    def _tier(self, name: str, capacity: int) -> TierIndex:
        region = min(_MOST_REGION, capacity // _REGIONS // PAGE * PAGE)
        return TierIndex(
            Space(capacity, region),
            self.ledger,
            lambda: POLICIES[self.config.policy](self.sketch),
            on_ready=lambda label: self._tell(self.journal.stored, name, label),
            on_gone=lambda label: self._tell(self.journal.removed, name, label),
        )

    def _tell(self, note: Callable[[str, Label], None], tier: str, label: Label) -> None:
        note(tier, label)
        self.changed.notify_all()

    def _adopt(self) -> None:
        """Take over what a store before this one left in memory and on disk."""
        now = self.clock()
        with self.changed:
            for header_offset, header in survivors(self.arena, self.dram.space):
                if not self.dram.adopt(header, header_offset, now):
                    self.arena.blank([header_offset])
            if self.disk is not None and self.ssd is not None:
                for offset, header in survivors(self.disk, self.ssd.space):
                    self.ssd.adopt(header, offset, now)
