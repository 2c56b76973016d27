"""What people ask a store: how full, what is in it, is it sound, and away with it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from inferplane_kv_connector.envelope import Header, check
from inferplane_kv_connector.wire import Message
from inferplane_kvstore.config import tenant_owner
from inferplane_kvstore.counters import DRAM, REDIS, SSD
from inferplane_kvstore.errors import TierError
from inferplane_kvstore.spilling import QUEUE, Spiller
from inferplane_kvstore.store import Store
from inferplane_kvstore.tier_index import Entry, TierIndex

MOST_LISTED: Final = 10_000
_DRAINED_AT_ONCE: Final = QUEUE // 2


class Inspector:
    def __init__(self, store: Store, spillers: Sequence[Spiller]) -> None:
        self._store = store
        self._spillers = spillers
        self.answers: Mapping[str, Callable[[Message], Message]] = {
            "stat": self.stat,
            "list": self.listing,
            "verify": self.verify,
            "purge": self.purge,
            "pin": self.pin,
            "drain": self.drain,
            "settle": self.settle,
            "expire": self.expire,
        }

    def stat(self, _: Message) -> Message:
        store = self._store
        remote = None if store.remote is None else store.remote.used_bytes()
        with store.changed:
            tiers: list[dict[str, Any]] = [self._tier(name, index) for name, index in self._local()]
            if store.remote is not None:
                tiers.append({"name": REDIS, "usedBytes": remote, "reachable": remote is not None})
            owners = {owner.hex(): size for owner, size in store.ledger.used().items()}
            return {
                "tiers": tiers,
                "counters": store.counters.as_json(),
                "owners": owners,
                "engines": list(store.told.values()),
                "worth": {
                    name: sum((int(told.get(name, 0)) for told in store.told.values()), before)
                    for name, before in store.worth.items()
                },
            }

    def listing(self, message: Message) -> Message:
        """List blocks, hottest first."""
        limit = min(int(message.get("limit", 100)), MOST_LISTED)
        store = self._store
        with store.changed:
            found = [
                (store.sketch.estimate(key), tier, entry)
                for tier, index in self._local()
                for key, entry in index.entries.items()
            ]
        found.sort(key=lambda each: -each[0])
        return {"blocks": [_row(uses, tier, entry) for uses, tier, entry in found[:limit]], "of": len(found)}

    def verify(self, _: Message) -> Message:
        """Check every block of this node against its checksum; bad ones are dropped and counted."""
        verdicts = [sound for tier, index in self._local() for sound in self._verdicts(tier, index)]
        return {"checked": len(verdicts), "bad": verdicts.count(False)}

    def _verdicts(self, tier: str, index: TierIndex) -> Iterator[bool]:
        store = self._store
        with store.changed:
            keys = list(index.entries)
        for key in keys:
            with store.changed:
                entry = index.look(key)
                if entry is None:
                    continue
                index.hold(entry)
            sound = self._sound(tier, entry)
            store.release_from(tier, entry, bad=not sound)
            yield sound

    def _sound(self, tier: str, entry: Entry) -> bool:
        store, payload = self._store, memoryview(bytearray(entry.label.size))
        stretch = store.disk if tier == SSD else store.arena
        assert stretch is not None  # noqa: S101 - its books exist
        try:
            header = stretch.read(entry.offset, payload)
        except TierError:
            return False
        return header == Header(entry.label, entry.tag) and check(entry.label, entry.tag, payload, store.config.secret)

    def purge(self, message: Message) -> Message:
        """Forget a tenant's blocks, or all, on this node; in Redis those that this node knows of."""
        owner = None if message.get("tenant") is None else tenant_owner(str(message["tenant"]))
        gone = self._forget(lambda entry: owner is None or entry.label.owner == owner)
        return {"purged": gone}

    def expire(self, _: Message) -> Message:
        """Forget what was not used for as long as the configuration says."""
        then = self._store.clock() - self._store.config.ttl_s
        with self._store.changed:
            self._store.remote_marks.expire(self._store.clock())
        return {"expired": self._forget(lambda entry: entry.used_at < then and not entry.pinned, remote=False)}

    def pin(self, message: Message) -> Message:
        """Keep blocks from eviction, or no longer: those whose names begin as told, or a tenant's."""
        begins, on = tuple(str(text) for text in message.get("keys", ())), bool(message["on"])
        owner = None if message.get("tenant") is None else tenant_owner(str(message["tenant"]))
        keys = set[bytes]()
        with self._store.changed:
            for _, index in self._local():
                chosen = [key for key, entry in index.entries.items() if _is_meant(key, entry, begins, owner)]
                keys.update(key for key in chosen if index.pin(key, on=on))
        return {"pinned": len(keys)}

    def drain(self, _: Message) -> Message:
        """Copy all blocks of memory to the tiers below, used often or not; say how many of them are there then."""
        store = self._store
        with store.changed:
            keys = [key for key, entry in store.dram.entries.items() if entry.tag]
        for start in range(0, len(keys), _DRAINED_AT_ONCE):
            for spiller in self._spillers:
                for key in keys[start : start + _DRAINED_AT_ONCE]:
                    spiller.offer(key)
            self.settle({})
        with store.changed:
            below = sum(store.is_below(key) for key in keys)
        return {"blocks": len(keys), "below": below}

    def settle(self, _: Message) -> Message:
        """Wait until the tiers below have what they were offered."""
        for spiller in self._spillers:
            spiller.settle()
        return {}

    def _forget(self, chosen: Callable[[Entry], bool], *, remote: bool = True) -> int:
        store = self._store
        with store.changed:
            dram = [key for key, entry in store.dram.entries.items() if entry.tag and chosen(entry)]
            for key in dram:
                entry = store.dram.drop(key)
                if entry is not None:
                    store.arena.blank([entry.offset])
            ssd = [] if store.ssd is None else [k for k, e in store.ssd.entries.items() if e.tag and chosen(e)]
        for spiller in self._spillers:
            spiller.forget(ssd)
        known = list(dict.fromkeys([*dram, *ssd]))
        if remote and store.remote is not None:
            store.remote.delete(known)
            with store.changed:
                store.remote_marks.missed(known)
        return len(known)

    def _local(self) -> list[tuple[str, TierIndex]]:
        store = self._store
        return [(DRAM, store.dram), *([(SSD, store.ssd)] if store.ssd is not None else [])]

    def _tier(self, name: str, index: TierIndex) -> dict[str, Any]:
        space = index.space
        return {
            "name": name,
            "capacityBytes": space.capacity,
            "usedBytes": space.used,
            "blocks": len(index.entries),
            "evictions": index.evictions,
            "refused": index.refused,
        }


def _is_meant(key: bytes, entry: Entry, begins: tuple[str, ...], owner: bytes | None) -> bool:
    return entry.label.owner == owner or (bool(begins) and key.hex().startswith(begins))


def _row(uses: int, tier: str, entry: Entry) -> dict[str, Any]:
    label = entry.label
    return {
        "key": label.key.hex(),
        "tier": tier,
        "owner": label.owner.hex(),
        "bytes": label.size,
        "uses": uses,
        "pinned": entry.pinned,
    }
