"""Following what a store holds: each answer waits until there is something to tell.

`watch {since, wait_s}` is answered with `{store, remote, until, whole, stored, removed, stat}`: the store's own name,
the name of the Redis behind it ("" without one), the number to ask from next, and by tier the marks (packed 64-bit
little-endian, hex) that came and went.  `stat` are the figures of the store, for whoever shows them.
"""

import struct
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from inferplane_kv_connector.wire import Message
from inferplane_kvstore.store import Store

LONGEST_WAIT_S: Final = 10.0


class Watching:
    def __init__(self, store: Store, stat: Callable[[Message], Message], *, host: str) -> None:
        """`host` tells this machine from others whose stores have the same files."""
        self._store = store
        self._stat = stat
        self._name = _short(f"{host} {store.config.dram.path}")
        redis = store.config.redis
        self._remote = "" if redis is None else _short(f"{redis.host}:{redis.port}/{redis.database}")

    def watch(self, message: Message) -> Message:
        """Answer when there is something new after `since`, or after `wait_s` seconds."""
        since, wait_s = int(message.get("since", -1)), float(message.get("wait_s", 0.0))
        store = self._store
        with store.changed:
            store.changed.wait_for(lambda: store.closing or store.journal.until != since, min(wait_s, LONGEST_WAIT_S))
            changes = store.journal.since(since)
        return {
            "store": self._name,
            "remote": self._remote,
            "until": changes.until,
            "whole": changes.whole,
            "stored": {tier: _packed(marks) for tier, marks in changes.stored.items()},
            "removed": {tier: _packed(marks) for tier, marks in changes.removed.items()},
            "stat": self._stat({}),
        }


def _packed(marks: list[int]) -> str:
    return struct.pack(f"<{len(marks)}Q", *marks).hex()


def _short(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()
