"""What the index process hears of workers, applied to its own core and passed on to every gateway.

Problem: gateways decide, but only one process hears the agents.  Idea: the core of the index process writes the blocks
into the shared table; each gateway gets the rest of a stream as it came, and feeds a core of its own with it.  Who
joins is told first what still counts.  Trade-off: load is counted once in every process.
Invariant: a gateway hears of a worker's place before what the worker says of itself, and of workers in the order in
which this core did.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from inferplane_api.catalogue import Catalogue
from inferplane_api.proto import worker_pb2 as wire
from inferplane_router.core.router import RouterCore
from inferplane_router.core.values import Resync
from inferplane_router.processes.frames import Kind, named, seated
from inferplane_router.processes.mirror import Mirror
from inferplane_router.processes.written_tables import TableWriter


class Member(Protocol):
    """A gateway."""

    def send(self, kind: Kind, body: bytes = b"", /, *, hurry: bool = True) -> None: ...


class Relay:
    """Implements `facade.WorkerFeed` for the index process."""

    def __init__(self, core: RouterCore, tables: TableWriter) -> None:
        self._core = core
        self._tables = tables
        self._mirrors: dict[str, Mirror] = {}
        self._catalogue = b""
        self.members: set[Member] = set()
        self.filled: set[str] = set()
        """Workers that have told all their blocks."""

    def join(self, member: Member) -> None:
        """Tell a gateway all that there is to know, and from now on what changes."""
        if self._catalogue:
            member.send(Kind.CATALOGUE, self._catalogue)
        for worker_id, mirror in self._mirrors.items():
            for kind, body in self._told(worker_id, mirror):
                member.send(kind, body)
        self.members.add(member)

    def synced(self, members: Iterable[Member]) -> None:
        for member in members:
            member.send(Kind.SYNCED)

    def pass_on(self, kind: Kind, body: bytes, *, but: Member | None = None, hurry: bool = True) -> None:
        for member in self.members:
            if member is not but:
                member.send(kind, body, hurry=hurry)

    # Feed.

    def apply_catalogue(self, catalogue: Catalogue, now: float) -> None:
        self._core.apply_catalogue(catalogue, now)
        there = {worker.worker_id for worker in catalogue.workers}
        self._mirrors = {worker: self._mirrors.get(worker) or Mirror() for worker in there}
        self.filled &= there
        self._catalogue = catalogue.model_dump_json(by_alias=True).encode()
        self.pass_on(Kind.CATALOGUE, self._catalogue)

    def worker_connected(self, worker_id: str, now: float) -> None:
        self._core.worker_connected(worker_id, now)
        if (mirror := self._mirrors.get(worker_id)) is not None:
            mirror.connect()
            self.pass_on(Kind.CONNECTED, named(worker_id))

    def worker_lost(self, worker_id: str, now: float) -> None:
        self._core.worker_lost(worker_id, now)
        self.filled.discard(worker_id)
        if (mirror := self._mirrors.get(worker_id)) is not None:
            mirror.lose()
            self.pass_on(Kind.LOST, named(worker_id))

    def on_worker_message(self, worker_id: str, message: wire.WorkerMessage, now: float) -> Resync | None:
        resync = self._core.on_worker_message(worker_id, message, now)
        if (mirror := self._mirrors.get(worker_id)) is None:
            return resync
        if message.HasField("load_snapshot"):
            self.filled.add(worker_id)  # it comes behind all blocks
        passed = mirror.hear(message)
        if passed is not None and self.members:
            self.pass_on(*self._framed(worker_id, passed))
        return resync

    # Inside.

    def _told(self, worker_id: str, mirror: Mirror) -> Iterator[tuple[Kind, bytes]]:
        if mirror.connected:
            yield Kind.CONNECTED, named(worker_id)
        if mirror.identity is not None:
            yield self._framed(worker_id, mirror.identity)
            for message in mirror.told():
                yield self._framed(worker_id, message)
        if not mirror.connected and mirror.identity is not None:
            yield Kind.LOST, named(worker_id)

    def _framed(self, worker_id: str, message: wire.WorkerMessage) -> tuple[Kind, bytes]:
        body = message.SerializeToString()
        if not message.HasField("identity"):
            return Kind.MESSAGE, named(worker_id, body)
        seat = self._core.seat_of(worker_id)
        place = self._tables.place_of(seat.service, seat.key) if seat is not None else None
        if seat is None or place is None:
            return Kind.MESSAGE, named(worker_id, body)  # a stranger, or one that cannot be read
        return Kind.IDENTITY, named(worker_id, seated(seat.slots.start, place, body))
