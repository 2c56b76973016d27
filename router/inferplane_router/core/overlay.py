"""Predicted blocks: what routed requests will store, until their workers say so.

Problem: between a decision and the engine's block events pass milliseconds to seconds; whoever decides meanwhile must
already see the blocks coming, or a burst of equal prompts spreads over all workers.  Idea: one small table beside the
index, with the same bits, that `find` reads together with it.  Every (block, target) belongs to the request that
predicted it last; it goes when the worker really stores or removes the block, when the request fails, or with time.
For a worker in approximate mode this table, with a long time to live, is all that is known.
Trade-off: the last predictor owns a block, so when it fails early an older prediction of the same block is lost.
Invariant: a bit is set exactly while some entry owns it.
"""

import heapq
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import numpy as np

from inferplane_router.core import overlay_kernels as kernels
from inferplane_router.core.index_kernels import Cells
from inferplane_router.core.table import Table
from inferplane_router.core.values import Hashes

_FULL: Final = 0.5
"""Predictions are few and most look-ups find nothing, which costs least in tables that are half empty."""
_UNBOUNDED: Final = 1 << 60
"""Predictions go with time, and with the number of blocks that an engine holds."""
_Arrivals = OrderedDict[int, None]
"""Numbers of entries in order of arrival; the first is found at once, which a dict that lost many does not promise."""


@dataclass(slots=True)
class _Entry:
    request_id: str
    target: int
    keys: Hashes
    until: float


class Overlay:
    """Predictions for the targets of one key space."""

    def __init__(self, *, words: int = 1) -> None:
        self._words = words
        self._bits = Table(words=words, full=_FULL, most_bytes=_UNBOUNDED)
        self._owners = Table(words=1, full=_FULL, most_bytes=_UNBOUNDED)
        self._none: Cells = np.zeros(words + 1, np.uint64)
        self._entries: dict[int, _Entry] = {}
        self._of_request: dict[str, tuple[int, ...]] = {}
        self._of_target: dict[int, _Arrivals] = {}
        self._blocks: dict[int, int] = {}
        self._due: list[tuple[float, int]] = []
        self._next = 1

    @property
    def cells(self) -> Cells:
        """The table that `find` reads as `guesses`."""
        return self._bits.cells if self._entries else self._none

    @property
    def nbytes(self) -> int:
        return self._bits.nbytes + self._owners.nbytes

    def blocks(self, target: int) -> int:
        """Return how many blocks are predicted for a target, those stored meanwhile included."""
        return self._blocks.get(target, 0)

    def total_blocks(self) -> int:
        return sum(self._blocks.values())

    def reserve(self, words: int) -> None:
        """Follow the index to more words of targets."""
        if words > self._words:
            moved_to = np.arange(self._words + 1, dtype=np.uint64)
            self._bits.widen(words, moved_to)
            self._words = words
            self._none = np.zeros(words + 1, np.uint64)

    def predict(self, request_id: str, target: int, keys: Hashes, until: float, *, at_most: int = 0) -> None:
        """Add what a request will store; beyond `at_most` blocks (if not 0) the target's oldest entries go."""
        if not keys.shape[0]:
            return
        number, self._next = self._next, self._next + 1
        self._entries[number] = _Entry(request_id, target, keys, until)
        self._of_request[request_id] = (*self._of_request.get(request_id, ()), number)
        if (arrivals := self._of_target.get(target)) is None:
            arrivals = self._of_target[target] = _Arrivals()
        arrivals[number] = None
        self._blocks[target] = self._blocks.get(target, 0) + keys.shape[0]
        heapq.heappush(self._due, (until, number))
        self._own(target, keys, number)
        while at_most and self._blocks[target] > at_most and len(arrivals) > 1:
            self._drop(next(iter(arrivals)))

    def shorten(self, request_id: str, target: int, until: float) -> None:
        """Let a request's entries at a target end earlier."""
        for number in self._of_request.get(request_id, ()):
            entry = self._entries[number]
            if entry.target == target and until < entry.until:
                entry.until = until
                heapq.heappush(self._due, (until, number))

    def forget(self, request_id: str, target: int | None = None) -> None:
        """Take back what a request predicted, at one target or everywhere."""
        for number in self._of_request.get(request_id, ()):
            if target is None or self._entries[number].target == target:
                self._drop(number)

    def settle(self, target: int, keys: Hashes) -> None:
        """Follow the worker: it has really stored or removed these blocks."""
        if target in self._of_target:
            self._disown(target, keys, 0)

    def drop_target(self, target: int) -> None:
        for number in tuple(self._of_target.get(target, ())):
            self._drop(number)

    def expire(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            until, number = heapq.heappop(self._due)
            entry = self._entries.get(number)
            if entry is not None and entry.until == until:
                self._drop(number)

    def next_expiry(self) -> float | None:
        return self._due[0][0] if self._due else None

    def _own(self, target: int, keys: Hashes, number: int) -> None:
        bits, owners = self._bits, self._owners
        bits.make_room(keys.shape[0])
        owners.make_room(keys.shape[0])
        taken = kernels.own(bits.cells, bits.width, owners.cells, owners.width, keys, target, number)
        bits.used += taken[0]
        owners.used += taken[1]

    def _disown(self, target: int, keys: Hashes, number: int) -> None:
        bits, owners = self._bits, self._owners
        freed = kernels.disown(bits.cells, bits.width, owners.cells, owners.width, keys, target, number)
        bits.used -= freed[0]
        owners.used -= freed[1]

    def _drop(self, number: int) -> None:
        entry = self._entries.pop(number)
        self._disown(entry.target, entry.keys, number)
        self._leave_request(entry.request_id, number)
        arrivals = self._of_target[entry.target]
        del arrivals[number]
        self._blocks[entry.target] -= entry.keys.shape[0]
        if not arrivals:
            del self._of_target[entry.target], self._blocks[entry.target]

    def _leave_request(self, request_id: str, number: int) -> None:
        others = tuple([each for each in self._of_request[request_id] if each != number])
        if others:
            self._of_request[request_id] = others
        else:
            del self._of_request[request_id]
