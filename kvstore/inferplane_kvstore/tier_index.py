"""What a tier holds, who reads it and who goes: the whole book-keeping of DRAM and of SSD, without a byte of I/O.

Problem: blocks are written, read, evicted, pinned and found bad at once, by several engines.  Idea: an entry is WRITING
until whoever writes publishes it; only then others see it.  A reader holds the entry, and what is dropped while it is
held keeps its slot until the last reader lets go.
Trade-off: eviction picks among the blocks of one size; another size is robbed only when its own has none.
Invariant: a slot has at most one entry, and nobody gets a slot that a reader or writer still uses.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from inferplane_kv_connector.envelope import Header, Label
from inferplane_kvstore.ledger import Ledger
from inferplane_kvstore.policies.policy import Policy
from inferplane_kvstore.space import Space, stride_of


class State(Enum):
    WRITING = auto()
    READY = auto()
    GONE = auto()
    """No longer found; its slot comes free when nobody reads it."""


@dataclass(slots=True, eq=False)
class Entry:
    label: Label
    offset: int
    used_at: float
    """Seconds of the index's clock."""
    origin: str = ""
    """Tier that these bytes were read from; empty: an engine wrote them here."""
    tag: bytes = b""
    state: State = State.WRITING
    readers: int = 0
    pinned: bool = False
    retired: bool = False
    """Its slot is not used again: the medium may be bad there."""

    @property
    def stride(self) -> int:
        return stride_of(self.label.size)


@dataclass(frozen=True, slots=True)
class Reservation:
    """A slot to write to.  Headers of `evicted` must be blanked first, and `new_region` says that its page is due."""

    entry: Entry | None
    """None: there was not enough room after all."""
    evicted: tuple[Entry, ...]
    new_region: bool


@dataclass(slots=True)
class TierIndex:
    space: Space
    ledger: Ledger
    make_policy: Callable[[], Policy]
    entries: dict[bytes, Entry] = field(default_factory=dict[bytes, Entry], init=False)
    _pools: dict[tuple[bytes, int], Policy] = field(default_factory=dict[tuple[bytes, int], Policy], init=False)
    evictions: int = field(default=0, init=False)
    refused: int = field(default=0, init=False)
    """Blocks that had no room because their owner's quota was full."""
    on_ready: Callable[[Label], None] = field(default=lambda _: None)
    on_gone: Callable[[Label], None] = field(default=lambda _: None)
    """Told of every block that is found from now on, or no longer."""

    def look(self, key: bytes) -> Entry | None:
        entry = self.entries.get(key)
        return entry if entry is not None and entry.state is State.READY else None

    def reserve(self, label: Label, now: float, *, origin: str = "") -> Reservation | None:
        """Find room; None when the block is here already or too large."""
        stride = stride_of(label.size)
        if label.key in self.entries or not self.space.fits(stride):
            return None
        evicted: list[Entry] = []
        account = self.ledger.account(label.owner)
        while self.ledger.over(label.owner, stride):
            if not self._evict((account, stride), evicted):
                self.refused += 1
                return Reservation(None, tuple(evicted), new_region=False)
        while (slot := self.space.take(stride)) is None:
            if not self._evict(self._richest(account, stride), evicted):
                return Reservation(None, tuple(evicted), new_region=False)
        entry = Entry(label, slot[0], now, origin)
        self.entries[label.key] = entry
        self.ledger.add(label.owner, stride)
        return Reservation(entry, tuple(evicted), new_region=slot[1])

    def publish(self, key: bytes, tag: bytes) -> Entry | None:
        """Let others find what was written."""
        entry = self.entries.get(key)
        if entry is None or entry.state is not State.WRITING:
            return None
        entry.tag, entry.state = tag, State.READY
        if not entry.pinned:
            self._pool(entry).insert(key)
        self.on_ready(entry.label)
        return entry

    def adopt(self, header: Header, offset: int, now: float) -> bool:
        """Take over a block that is there since before the start; False when it is known already."""
        if header.label.key in self.entries:
            return False
        self.space.occupy(offset)
        self.ledger.add(header.label.owner, stride_of(header.label.size))
        self.entries[header.label.key] = Entry(header.label, offset, now)
        self.publish(header.label.key, header.tag)
        return True

    def touch(self, key: bytes, now: float) -> None:
        entry = self.look(key)
        if entry is not None:
            entry.used_at = now
            self._pool(entry).touch(key)

    def hold(self, entry: Entry) -> None:
        entry.readers += 1

    def let_go(self, entry: Entry) -> None:
        entry.readers -= 1
        if entry.state is State.GONE and not entry.readers and not entry.retired:
            self.space.give(entry.offset)

    def drop(self, key: bytes, *, retire: bool = False) -> Entry | None:
        """Forget a block; `retire` takes its slot out of use for good."""
        entry = self.entries.pop(key, None)
        if entry is None:
            return None
        self._pool(entry).discard(key)
        self._leave(entry, retire=retire)
        return entry

    def pin(self, key: bytes, *, on: bool) -> bool:
        """Keep a block from eviction, or no longer; False when it is not here."""
        entry = self.look(key)
        if entry is None:
            return False
        if on != entry.pinned:
            entry.pinned = on
            (self._pool(entry).discard if on else self._pool(entry).insert)(key)
        return True

    def unused_since(self, then: float) -> Iterator[bytes]:
        return (key for key, each in self.entries.items() if each.used_at < then and not each.pinned)

    def _pool(self, entry: Entry) -> Policy:
        return self._pool_of((self.ledger.account(entry.label.owner), entry.stride))

    def _pool_of(self, name: tuple[bytes, int]) -> Policy:
        pool = self._pools.get(name)
        if pool is None:
            pool = self._pools[name] = self.make_policy()
        return pool

    def _richest(self, account: bytes, stride: int) -> tuple[bytes, int]:
        """Choose whose block goes: one of the same size, of whoever has most; another size when there is none."""
        same = [name for name, pool in self._pools.items() if name[1] == stride and len(pool)]
        others = [name for name, pool in self._pools.items() if len(pool)]
        return max(same or others, key=lambda name: len(self._pools[name]), default=(account, stride))

    def _evict(self, name: tuple[bytes, int], evicted: list[Entry]) -> bool:
        pool, spared = self._pool_of(name), list[bytes]()
        found = False
        while not found and (key := pool.victim()) is not None:
            entry = self.entries[key]
            if entry.readers:
                spared.append(key)
                continue
            del self.entries[key]
            self._leave(entry)
            evicted.append(entry)
            self.evictions += 1
            found = True
        for key in spared:
            pool.insert(key)
        return found

    def _leave(self, entry: Entry, *, retire: bool = False) -> None:
        if entry.state is State.READY:
            self.on_gone(entry.label)
        entry.state, entry.retired = State.GONE, retire
        self.ledger.add(entry.label.owner, -entry.stride)
        if not entry.readers and not retire:
            self.space.give(entry.offset)
