"""W-TinyLFU: newcomers pass through a small window and then must have been used more often than whom they replace.

The main part is split in blocks used once (probation) and more often (protected).  A scan passes through the window and
leaves the rest alone; a block that is hot over a long time stays whatever comes in between.
"""

from collections import OrderedDict
from typing import Final

from inferplane_kvstore.sketch import FrequencySketch

_PROTECTED_SHARE: Final = 0.8
_WINDOW_SHARE: Final = 0.05
_ITS_OWN_USE: Final = 1
"""A newcomer was used just now, which says nothing of it: in a loop everybody is, one after the other."""


class WTinyLFU:
    def __init__(self, sketch: FrequencySketch) -> None:
        """`sketch` counts every request for a block, also for those that are not there."""
        self._sketch = sketch
        self._window: OrderedDict[bytes, None] = OrderedDict()
        self._probation: OrderedDict[bytes, None] = OrderedDict()
        self._protected: OrderedDict[bytes, None] = OrderedDict()

    def insert(self, key: bytes, /) -> None:
        if key not in self._probation and key not in self._protected:
            self._window[key] = None

    def touch(self, key: bytes, /) -> None:
        if key in self._probation:
            del self._probation[key]
            self._protected[key] = None
            self._demote()
            return
        for part in (self._window, self._protected):
            if key in part:
                part.move_to_end(key)

    def discard(self, key: bytes, /) -> None:
        for part in (self._window, self._probation, self._protected):
            part.pop(key, None)

    def victim(self) -> bytes | None:
        room = max(1, int(_WINDOW_SHARE * len(self)))
        while len(self._window) > room + 1:  # they came while there was room for all
            self._leave_window()
        if len(self._window) <= room:
            return self._take(_first(self._probation) or _first(self._protected) or _first(self._window))
        oldest = _first(self._probation) or _first(self._protected)
        candidate = self._leave_window()
        if oldest is None or self._sketch.estimate(candidate) <= self._sketch.estimate(oldest) + _ITS_OWN_USE:
            return self._take(candidate)
        return self._take(oldest)

    def __len__(self) -> int:
        return len(self._window) + len(self._probation) + len(self._protected)

    def _leave_window(self) -> bytes:
        key, _ = self._window.popitem(last=False)
        self._probation[key] = None
        return key

    def _take(self, key: bytes | None) -> bytes | None:
        if key is not None:
            self.discard(key)
        return key

    def _demote(self) -> None:
        main = len(self._protected) + len(self._probation)
        while len(self._protected) > _PROTECTED_SHARE * main:
            key, _ = self._protected.popitem(last=False)
            self._probation[key] = None


def _first(part: OrderedDict[bytes, None]) -> bytes | None:
    return next(iter(part), None)
