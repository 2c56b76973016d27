"""Both sides of a router of several processes in one, without sockets: what one sends, the other has at once."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from inferplane_api.catalogue import Catalogue
from inferplane_api.proto import worker_pb2 as wire
from inferplane_router.core.arena import Arena
from inferplane_router.core.naming import ServiceKey
from inferplane_router.core.router import RouterCore
from inferplane_router.core.tables import Tables
from inferplane_router.core.testing import EPOCH, FakeWorker, catalogue, service
from inferplane_router.processes.follower import Follower
from inferplane_router.processes.frames import Kind
from inferplane_router.processes.read_tables import TableReader
from inferplane_router.processes.relay import Relay
from inferplane_router.processes.seat_map import SeatMap
from inferplane_router.processes.written_tables import TableWriter
from inferplane_runtime.clock import FakeClock

ARENA_BYTES = 1 << 26


@dataclass
class SharedMemory:
    """What is made before forking."""

    arena: Arena = field(default_factory=lambda: Arena(ARENA_BYTES))
    seat_map: SeatMap = field(default_factory=SeatMap)


class IndexSide:
    """What the index process does with what it hears."""

    def __init__(self, memory: SharedMemory) -> None:
        self.memory = memory
        self.tables = TableWriter(memory.arena, memory.seat_map)
        self.core = _core(self.tables.tables_of)
        self.relay = Relay(self.core, self.tables)

    def apply(self, *workers: FakeWorker) -> None:
        self.relay.apply_catalogue(catalogue((service(),), workers), 0.0)

    def connect(self, *workers: FakeWorker) -> None:
        """Begin the stream of each worker and let it say that it is ready."""
        for worker in workers:
            worker.sequence = 0
            self.relay.worker_connected(worker.worker_id, 0.0)
            self.hear(worker, worker.identity(), worker.status())

    def hear(self, worker: FakeWorker, *messages: wire.WorkerMessage) -> None:
        for message in messages:
            self.relay.on_worker_message(worker.worker_id, message, 0.0)


class GatewaySide:
    """What a gateway process does with what it is told; give it to `Relay.join`."""

    def __init__(self, memory: SharedMemory) -> None:
        tables = TableReader(memory.arena)
        self.core = _core(tables.tables_of)
        self.kinds: list[Kind] = []
        self.catalogues = list[Catalogue]()
        self.follower = Follower(
            self.core, tables, clock=FakeClock(monotonic=0.0), applied=self.catalogues.append, heard=_nothing
        )

    def send(self, kind: Kind, body: bytes = b"", *, hurry: bool = True) -> None:
        del hurry
        self.kinds.append(kind)
        self.follower.take(kind, body)


def _nothing(_: object) -> None: ...


def _core(tables_of: Callable[[ServiceKey], Tables]) -> RouterCore:
    rng = Random(1)  # noqa: S311  # tests want the same every time
    return RouterCore(epoch=EPOCH, rng=rng, wall_clock=lambda: 1_700_000_000.0, tables_of=tables_of)
