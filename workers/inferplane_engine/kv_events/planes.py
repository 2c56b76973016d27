"""Net changes of the index's planes between two messages to the routers."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from inferplane_api.proto import worker_pb2


class Plane(IntEnum):
    """The planes of the wire protocol that an engine's events speak of."""

    DEVICE = worker_pb2.PLANE_DEVICE
    HOST = worker_pb2.PLANE_HOST
    DISK = worker_pb2.PLANE_DISK
    RESUMABLE = worker_pb2.PLANE_RESUMABLE


@dataclass(frozen=True, slots=True)
class PlaneChange:
    """First cleared, then removed, then stored; no hash is in both (uint64 arrays)."""

    plane: Plane
    cleared: bool
    removed: NDArray[np.uint64]
    stored: NDArray[np.uint64]


class Pending:
    """Changes of one plane that nobody has taken yet; what comes and goes in between cancels out."""

    __slots__ = ("cleared", "removed", "stored")

    def __init__(self) -> None:
        self.cleared = False
        self.removed: dict[int, None] = {}
        self.stored: dict[int, None] = {}

    def enter(self, hashes: Collection[int]) -> None:
        _cancel_or_add(hashes, self.removed, self.stored)

    def leave(self, hashes: Collection[int]) -> None:
        _cancel_or_add(hashes, self.stored, self.removed)

    def clear(self) -> None:
        self.cleared = True
        self.removed.clear()
        self.stored.clear()

    def take(self, plane: Plane) -> PlaneChange | None:
        if not (self.cleared or self.removed or self.stored):
            return None
        change = PlaneChange(plane, self.cleared, packed(self.removed), packed(self.stored))
        self.cleared = False
        self.removed, self.stored = {}, {}
        return change


def _cancel_or_add(hashes: Collection[int], opposite: dict[int, None], own: dict[int, None]) -> None:
    if not opposite:
        own.update(dict.fromkeys(hashes))
        return
    for block in hashes:
        if block in opposite:
            del opposite[block]
        else:
            own[block] = None


def packed(hashes: dict[int, None] | dict[int, int] | set[int]) -> NDArray[np.uint64]:
    """Put hashes into an array whose bytes are what the wire carries."""
    return np.fromiter(hashes, np.uint64, len(hashes))
