"""The tables of all services, as the process that writes them sees them.

Problem: when a writer has died the next one must not show tables that are not filled yet, and must give workers the
slots by which gateways know them.  Idea: what the last writer had is read from the seat map; those seats are kept free
for their workers, and those tables are held back until `settle`.  Trade-off: meanwhile both tables take memory.
Invariant: the seat map says what is; a place is not used for another key space as long as there are unused ones.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from inferplane_engine.identity import KeySpace
from inferplane_router.core.arena import PLACES, Arena, Place
from inferplane_router.core.block_index import BlockIndex
from inferplane_router.core.naming import ServiceKey
from inferplane_router.core.seats import Seats
from inferplane_router.core.table import MOST_BYTES
from inferplane_router.processes.seat_map import Layout, SeatMap

_NOTHING: Final = Layout()


class TableWriter:
    """All tables of a router; one process has one."""

    def __init__(self, arena: Arena, seat_map: SeatMap, *, most_bytes: int = MOST_BYTES) -> None:
        arena.adopt()
        self._arena = arena
        self._seat_map = seat_map
        self._most_bytes = most_bytes
        self._inherited = seat_map.read()
        self._services: dict[ServiceKey, WrittenTables] = {}
        self._next_place = 1 + max(
            (max(each.places.values(), default=0) for each in self._inherited.values()), default=0
        )
        self.settled = not self._inherited
        """Nothing of the last writer's is held on to."""

    @property
    def awaited(self) -> frozenset[str]:
        """Workers whose blocks the last writer had."""
        inherited = () if self.settled else self._inherited.values()
        return frozenset(worker for layout in inherited for worker in layout.seats)

    def tables_of(self, service: ServiceKey) -> "WrittenTables":
        """Return the tables of a service that is new."""
        layout = _NOTHING if self.settled else self._inherited.get(service, _NOTHING)
        tables = self._services[service] = WrittenTables(layout, self._open, self._note)
        return tables

    def place_of(self, service: ServiceKey, key: KeySpace) -> int | None:
        tables = self._services.get(service)
        opened = tables.opened.get(key) if tables is not None else None
        return None if opened is None else opened.number

    def settle(self) -> None:
        """Show what has been filled, and let go of what is the last writer's alone."""
        if self.settled:
            return
        self.settled = True
        taken = {opened.number for tables in self._services.values() for opened in tables.opened.values()}
        for layout in self._inherited.values():
            for number in set(layout.places.values()) - taken:
                Place(self._arena, number).close()
        for tables in self._services.values():
            tables.settle()
        self._note()

    def _open(self, number: int | None) -> "Opened":
        inherited = number is not None
        if number is None:
            number = self._unused_place()
        place = Place(self._arena, number, holding_back=inherited)
        return Opened(number, place, BlockIndex(memory=place, most_bytes=self._most_bytes))

    def _unused_place(self) -> int:
        """Go round, so that who still reads at a place that was closed finds nothing there."""
        used = {opened.number for tables in self._services.values() for opened in tables.opened.values()}
        if not self.settled:
            used |= {number for layout in self._inherited.values() for number in layout.places.values()}
        for step in range(PLACES):
            number = (self._next_place + step) % PLACES
            if number not in used:
                self._next_place = number + 1
                return number
        raise ValueError(f"there are more than {PLACES} models, revisions and block sizes; the index has no table left")

    def _note(self) -> None:
        layouts = {} if self.settled else dict(self._inherited)
        for service, tables in self._services.items():
            if tables.opened or tables.seats:
                layouts[service] = tables.layout()
            else:
                layouts.pop(service, None)
        self._seat_map.write(layouts)


@dataclass(frozen=True, slots=True)
class Opened:
    """One key space's table."""

    number: int
    place: Place
    index: BlockIndex


@dataclass(slots=True)
class WrittenTables:
    """Implements `tables.Tables` for one service."""

    _inherited: Layout
    _open: Callable[[int | None], Opened]
    _note: Callable[[], None]
    opened: dict[KeySpace, Opened] = field(default_factory=dict[KeySpace, Opened])
    _seats: Seats = field(default_factory=Seats)
    _unclaimed: set[str] = field(default_factory=set[str])
    least_size: int = 64

    def __post_init__(self) -> None:
        self.least_size = self._inherited.size
        for worker, slots in self._inherited.seats.items():
            self._seats.hold(worker, slots)
            self._unclaimed.add(worker)

    @property
    def seats(self) -> dict[str, range]:
        return self._seats.held

    def layout(self) -> Layout:
        places = self._inherited.places | {key: opened.number for key, opened in self.opened.items()}
        seats = self._seats.held
        highest = max((slots.stop for slots in seats.values()), default=0)
        return Layout(max(self.least_size, -(-highest // 64) * 64), places, seats)

    def open(self, key: KeySpace) -> BlockIndex:
        opened = self.opened[key] = self._open(self._inherited.places.get(key))
        self._note()
        return opened.index

    def close(self, key: KeySpace) -> None:
        self.opened.pop(key).place.close()
        self._inherited.places.pop(key, None)
        self._note()

    def keeps(self, worker_id: str, held: range, ranks: int) -> bool:
        return len(held) == ranks and self._seats.of(worker_id) == held

    def allot(self, worker_id: str, ranks: int) -> range:
        kept = self._seats.of(worker_id)
        if worker_id in self._unclaimed and kept is not None and len(kept) == ranks:
            self._unclaimed.discard(worker_id)
            return kept
        self._unclaimed.discard(worker_id)
        slots = self._seats.allot(worker_id, ranks)
        self._note()
        return slots

    def release(self, slots: range) -> None:
        self._seats.release(slots)
        self._note()

    def settle(self) -> None:
        """Show every table, and free the seats of workers that have not come back."""
        for worker in self._unclaimed:
            if (slots := self._seats.of(worker)) is not None:
                self._seats.release(slots)
        self._unclaimed.clear()
        self._inherited = Layout(self._inherited.size)
        for opened in self.opened.values():
            opened.place.show()
