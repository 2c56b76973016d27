"""The tables of all services, as a process that only reads them sees them.

Invariant: before a core hears of a worker's identity, `note` has said where the writer keeps that worker's blocks.
"""

from dataclasses import dataclass

from inferplane_engine.identity import KeySpace
from inferplane_router.core.arena import Arena
from inferplane_router.core.followed_index import FollowedIndex
from inferplane_router.core.naming import ServiceKey
from inferplane_router.core.seats import Seats


@dataclass(frozen=True, slots=True)
class Told:
    """What the writer says of one worker."""

    service: ServiceKey
    key: KeySpace
    place: int
    slots: range


class TableReader:
    """What the writer has said."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.places: dict[tuple[ServiceKey, KeySpace], int] = {}
        self.seats: dict[str, range] = {}
        self.followed: dict[tuple[ServiceKey, KeySpace], FollowedIndex] = {}

    def note(self, worker_id: str, told: Told) -> None:
        """Take the writer's word for where a worker stands."""
        self.seats[worker_id] = told.slots
        known = told.service, told.key
        self.places[known] = told.place
        index = self.followed.get(known)
        if index is not None and index.place != told.place:
            index.look_at(told.place)

    def tables_of(self, service: ServiceKey) -> "ReadTables":
        return ReadTables(self, service)


class ReadTables:
    """Implements `tables.Tables` for one service."""

    least_size = 64

    def __init__(self, reader: TableReader, service: ServiceKey) -> None:
        self._reader = reader
        self._service = service
        self._seats = Seats()

    def open(self, key: KeySpace) -> FollowedIndex:
        known = self._service, key
        if known not in self._reader.places:
            raise ValueError(f"no table is known for {key}")
        index = self._reader.followed[known] = FollowedIndex(self._reader.arena, self._reader.places[known])
        return index

    def close(self, key: KeySpace) -> None:
        self._reader.followed.pop((self._service, key), None)

    def keeps(self, worker_id: str, held: range, ranks: int) -> bool:
        return len(held) == ranks and self._reader.seats.get(worker_id) == held

    def allot(self, worker_id: str, ranks: int) -> range:
        slots = self._reader.seats.get(worker_id)
        if slots is None or len(slots) != ranks:
            raise ValueError(f"{worker_id} has {ranks} ranks, but its slots are {slots}")
        self._seats.hold(worker_id, slots)
        return slots

    def release(self, slots: range) -> None:
        self._seats.release(slots)
