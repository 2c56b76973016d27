"""An index that another process writes, behind the same face as one's own.

What a core tells it about blocks goes nowhere, since the writer hears the same streams; what it asks is read from the
table that the writer shows.  Invariant: targets have the numbers that the writer gave them.
"""

import numpy as np

from inferplane_router.core.arena import Arena
from inferplane_router.core.index_kernels import DEVICE, Cells
from inferplane_router.core.index_reader import IndexReader
from inferplane_router.core.prefix_kernels import Counts
from inferplane_router.core.values import Hashes


class FollowedIndex:
    """Implements `tables.Index` by reading."""

    used = nbytes = refused = 0
    """Its writer counts them."""

    def __init__(self, arena: Arena, place: int) -> None:
        self._arena = arena
        self.words = 1
        self.look_at(place)

    def look_at(self, place: int) -> None:
        """Read at this place of the arena from now on."""
        self.place = place
        self._reader = IndexReader(self._arena, place)

    def reserve(self, targets: int) -> None:
        self.words = max(self.words, -(-targets // 64))

    def held(self, target: int, keys: Hashes) -> int:
        return self._reader.held(target, keys)

    def find(self, keys: Hashes, trusted: Hashes, guesses: Cells, counts: Counts) -> None:
        self._reader.find(keys, trusted, guesses, counts)

    def blocks(self, target: int, plane: int = DEVICE) -> int:
        """Return 0: who has how much is the writer's to count."""
        del target, plane
        return 0

    def keys(self, target: int, plane: int = DEVICE) -> Hashes:
        """Return nothing, for the same reason."""
        del target, plane
        return np.zeros(0, np.uint64)

    def is_shared(self, target: int, store_id: str) -> bool:
        del target, store_id
        return True

    # What the writer does.

    def describe(self, target: int, *, hybrid: bool, drop_blocks: int) -> None: ...

    def attach(self, target: int, store_id: str) -> None: ...

    def store(self, target: int, keys: Hashes, plane: int = DEVICE) -> int:
        del target, keys, plane
        return 0

    def remove(self, target: int, keys: Hashes, plane: int = DEVICE) -> int:
        del target, keys, plane
        return 0

    def clear(self, target: int, plane: int) -> None: ...

    def store_remote(self, store_id: str, keys: Hashes) -> None: ...

    def remove_remote(self, store_id: str, keys: Hashes) -> None: ...

    def clear_remote(self, store_id: str) -> None: ...

    def forget_blocks(self, target: int) -> None: ...

    def drop(self, target: int) -> None: ...
