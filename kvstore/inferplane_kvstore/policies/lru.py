"""Least recently used: cheap and known, and swept clean by one long scan."""

from collections import OrderedDict


class LRU:
    def __init__(self) -> None:
        self._order: OrderedDict[bytes, None] = OrderedDict()

    def insert(self, key: bytes, /) -> None:
        self._order[key] = None

    def touch(self, key: bytes, /) -> None:
        if key in self._order:
            self._order.move_to_end(key)

    def discard(self, key: bytes, /) -> None:
        self._order.pop(key, None)

    def victim(self) -> bytes | None:
        return self._order.popitem(last=False)[0] if self._order else None

    def __len__(self) -> int:
        return len(self._order)
