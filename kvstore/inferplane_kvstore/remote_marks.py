"""Which blocks this store knows to be in Redis: those it wrote or found there, as far as it was told.

Redis evicts by its own rules and tells nobody, so this is a belief: a block goes from it when it is missed, when its
time to live is over, when it is deleted, and all of them when the server fails, for it may come back empty.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from inferplane_kv_connector.envelope import Label
from inferplane_kv_connector.wire import TIERS
from inferplane_kvstore.journal import Journal

MOST: Final = 1 << 20
_REDIS: Final = TIERS[-1]


@dataclass(slots=True)
class RemoteMarks:
    """Needs the store's lock."""

    journal: Journal
    ttl_s: float
    most: int = MOST
    _known: OrderedDict[bytes, tuple[Label, float]] = field(default_factory=OrderedDict[bytes, tuple[Label, float]])

    def seen(self, labels: Iterable[Label], now: float) -> None:
        """Note blocks that were written or read there."""
        for label in labels:
            if label.key in self._known:
                del self._known[label.key]
            else:
                self.journal.stored(_REDIS, label)
            self._known[label.key] = (label, now)
        while len(self._known) > self.most:
            self._forget(next(iter(self._known)))

    def knows(self, key: bytes) -> bool:
        return key in self._known

    def missed(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            if key in self._known:
                self._forget(key)

    def expire(self, now: float) -> None:
        while self._known:
            key, (_, seen_at) = next(iter(self._known.items()))
            if seen_at + self.ttl_s > now:
                return
            self._forget(key)

    def clear(self) -> None:
        self.missed(list(self._known))

    def _forget(self, key: bytes) -> None:
        label, _ = self._known.pop(key)
        self.journal.removed(_REDIS, label)
