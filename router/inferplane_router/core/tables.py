"""Where the indexes of one service live and who says which slots its workers have.

Problem: a process that decides needs an index, but in a router of several processes another one writes it.  Idea: the
core asks this seam for tables and slots.  Alone, it gets tables of its own; next to a writer, it gets tables that only
read, and slots that the writer has given.  Trade-off: what is written to a table that only reads goes nowhere: its
writer has heard the same.
"""

from typing import Protocol

from inferplane_engine.identity import KeySpace
from inferplane_router.core.block_index import BlockIndex
from inferplane_router.core.index_kernels import DEVICE, Cells
from inferplane_router.core.prefix_kernels import Counts
from inferplane_router.core.seats import Seats
from inferplane_router.core.values import Hashes


class Index(Protocol):
    """The index of one key space; see `block_index.BlockIndex`."""

    @property
    def words(self) -> int: ...

    @property
    def used(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def refused(self) -> int: ...

    def reserve(self, targets: int) -> None: ...

    def describe(self, target: int, *, hybrid: bool, drop_blocks: int) -> None: ...

    def attach(self, target: int, store_id: str) -> None: ...

    def is_shared(self, target: int, store_id: str) -> bool: ...

    def store(self, target: int, keys: Hashes, plane: int = DEVICE) -> int: ...

    def remove(self, target: int, keys: Hashes, plane: int = DEVICE) -> int: ...

    def clear(self, target: int, plane: int) -> None: ...

    def blocks(self, target: int, plane: int = DEVICE) -> int: ...

    def store_remote(self, store_id: str, keys: Hashes) -> None: ...

    def remove_remote(self, store_id: str, keys: Hashes) -> None: ...

    def clear_remote(self, store_id: str) -> None: ...

    def forget_blocks(self, target: int) -> None: ...

    def drop(self, target: int) -> None: ...

    def held(self, target: int, keys: Hashes) -> int: ...

    def keys(self, target: int, plane: int = DEVICE) -> Hashes: ...

    def find(self, keys: Hashes, trusted: Hashes, guesses: Cells, counts: Counts) -> None: ...


class Tables(Protocol):
    """Tables and slots of one service."""

    @property
    def least_size(self) -> int:
        """How many slots the service has at least."""
        ...

    def open(self, key: KeySpace) -> Index:
        """Return the index of a key space that the service did not have."""
        ...

    def close(self, key: KeySpace) -> None:
        """Give it back."""
        ...

    def keeps(self, worker_id: str, held: range, ranks: int) -> bool:
        """Say whether a worker with so many ranks stays where it is."""
        ...

    def allot(self, worker_id: str, ranks: int) -> range:
        """Return slots for a worker's ranks; a ValueError when it may have none."""
        ...

    def release(self, slots: range) -> None: ...


class OwnTables:
    """Tables in the memory of the process alone."""

    least_size = 64

    def __init__(self) -> None:
        self._seats = Seats()

    def open(self, key: KeySpace) -> BlockIndex:
        del key
        return BlockIndex()

    def close(self, key: KeySpace) -> None: ...

    def keeps(self, worker_id: str, held: range, ranks: int) -> bool:
        del worker_id
        return len(held) == ranks

    def allot(self, worker_id: str, ranks: int) -> range:
        return self._seats.allot(worker_id, ranks)

    def release(self, slots: range) -> None:
        self._seats.release(slots)


__all__ = ["Index", "OwnTables", "Tables"]
