"""S3-FIFO: a small queue in which blocks used once die young, a main queue for the others, a memory of who left.

A block that comes back soon after it left the small queue goes to the main one at once.  Three queues and one small
counter a block; no list is reordered on a use.
"""

from collections import OrderedDict
from typing import Final

_SMALL_SHARE: Final = 0.1
_MOST_USES: Final = 3


class S3FIFO:
    def __init__(self) -> None:
        self._small: OrderedDict[bytes, None] = OrderedDict()
        self._main: OrderedDict[bytes, None] = OrderedDict()
        self._uses: dict[bytes, int] = {}
        self._ghosts: OrderedDict[bytes, None] = OrderedDict()

    def insert(self, key: bytes, /) -> None:
        if key in self._uses:
            return
        returns = key in self._ghosts
        self._ghosts.pop(key, None)
        self._uses[key] = 0
        (self._main if returns else self._small)[key] = None

    def touch(self, key: bytes, /) -> None:
        if key in self._uses:
            self._uses[key] = min(self._uses[key] + 1, _MOST_USES)

    def discard(self, key: bytes, /) -> None:
        if self._uses.pop(key, None) is not None:
            (self._small if key in self._small else self._main).pop(key)

    def victim(self) -> bytes | None:
        while self._uses:
            from_small = not self._main or len(self._small) > _SMALL_SHARE * len(self._uses)
            key = self._leave_small() if from_small and self._small else self._leave_main()
            if key is not None:
                return key
        return None

    def __len__(self) -> int:
        return len(self._uses)

    def _leave_small(self) -> bytes | None:
        key, _ = self._small.popitem(last=False)
        if self._uses[key] > 0:
            self._uses[key] = 0
            self._main[key] = None
            return None
        self._ghosts[key] = None
        while len(self._ghosts) > max(1, len(self._main)):
            self._ghosts.popitem(last=False)
        del self._uses[key]
        return key

    def _leave_main(self) -> bytes | None:
        key, _ = self._main.popitem(last=False)
        if self._uses[key] > 0:
            self._uses[key] -= 1
            self._main[key] = None
            return None
        del self._uses[key]
        return key
