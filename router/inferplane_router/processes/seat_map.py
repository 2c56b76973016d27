"""Who has which slots and which tables, kept where it outlives the process that wrote it.

Problem: gateways know workers by the slots that the index process gave them, and the next index process must give the
same ones.  Idea: it is written, as a whole, into a piece of shared memory at each change.  There are two halves, and
one byte that says which one counts: a writer that dies in the middle leaves the other half.
Invariant: `read` returns what the last whole `write` wrote.
"""

import mmap
from dataclasses import dataclass, field
from typing import Final, TypedDict

import orjson

from inferplane_engine.identity import KeySpace
from inferplane_router.core.naming import ServiceKey

_HALF: Final = 32 << 20
"""Bytes; a worker takes some fifty, and memory is only what was written."""
_LENGTH: Final = 8


@dataclass(frozen=True, slots=True)
class Layout:
    """One service's part."""

    size: int = 64
    """How many slots its tables are made for."""
    places: dict[KeySpace, int] = field(default_factory=dict[KeySpace, int])
    seats: dict[str, range] = field(default_factory=dict[str, range])


class SeatMap:
    """Make it before forking."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE + 2 * _HALF, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)

    def read(self) -> dict[ServiceKey, Layout]:
        if not self._memory[0]:
            return {}
        start = self._start(self._memory[0])
        length = int.from_bytes(self._memory[start : start + _LENGTH], "little")
        document: list[_Written] = orjson.loads(self._memory[start + _LENGTH : start + _LENGTH + length])
        return dict(_read(entry) for entry in document)

    def write(self, layouts: dict[ServiceKey, Layout]) -> None:
        document = orjson.dumps([_written(service, layout) for service, layout in layouts.items()])
        if len(document) > _HALF - _LENGTH:
            raise ValueError(f"the slots of all workers take {len(document)} bytes; there are {_HALF - _LENGTH}")
        half = 2 if self._memory[0] == 1 else 1
        start = self._start(half)
        self._memory[start : start + _LENGTH] = len(document).to_bytes(_LENGTH, "little")
        self._memory[start + _LENGTH : start + _LENGTH + len(document)] = document
        self._memory[0] = half

    def _start(self, half: int) -> int:
        return mmap.PAGESIZE + (half - 1) * _HALF


class _Written(TypedDict):
    """A service as it is written down."""

    service: tuple[str, str]
    size: int
    places: list[tuple[str, str, int, int]]
    seats: list[tuple[str, int, int]]


def _written(service: ServiceKey, layout: Layout) -> _Written:
    return {
        "service": service,
        "size": layout.size,
        "places": [(key.model, key.model_revision, key.block_size, place) for key, place in layout.places.items()],
        "seats": [(worker, slots.start, slots.stop) for worker, slots in layout.seats.items()],
    }


def _read(entry: _Written) -> tuple[ServiceKey, Layout]:
    namespace, name = entry["service"]
    places = {KeySpace(model, revision, block_size): place for model, revision, block_size, place in entry["places"]}
    seats = {worker: range(start, stop) for worker, start, stop in entry["seats"]}
    return (namespace, name), Layout(entry["size"], places, seats)
