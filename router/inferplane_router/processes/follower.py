"""What a gateway process does with what the index process tells it: its core hears workers as if they spoke to it.

Invariant: the core hears each worker's messages numbered without a gap, since a channel loses nothing; what the agent's
own numbers say of losses has been dealt with where they were heard.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Protocol

from inferplane_api.catalogue import Catalogue
from inferplane_api.proto import worker_pb2 as wire
from inferplane_engine.identity import KeySpace
from inferplane_router.core.facade import WorkerFeed
from inferplane_router.processes.frames import Kind, split_name, split_seat
from inferplane_router.processes.read_tables import TableReader, Told
from inferplane_runtime.clock import Clock

_EPOCH = 1


class Core(WorkerFeed, Protocol):
    """What is told about workers."""

    def streams_gone(self, now: float) -> None: ...


class Follower:
    """Feeds a core."""

    def __init__(
        self,
        core: Core,
        tables: TableReader,
        *,
        clock: Clock,
        applied: Callable[[Catalogue], None],
        heard: Callable[[wire.WorkerMessage], None],
    ) -> None:
        self._core = core
        self._tables = tables
        self._clock = clock
        self._applied = applied
        self._heard = heard
        self._catalogue = Catalogue()
        self._sequence: Counter[str] = Counter()
        self._connected: set[str] = set()
        self._believed: set[str] = set()
        """Workers that were connected when the last index process died: it is not known yet whether they are."""

    def take(self, kind: Kind, body: bytes) -> None:
        now = self._clock.monotonic()
        match kind:
            case Kind.CATALOGUE:
                self._apply(Catalogue.model_validate_json(body), now)
            case Kind.CONNECTED:
                self._connect(split_name(body)[0], now)
            case Kind.LOST:
                self._lose(split_name(body)[0], now)
            case Kind.MESSAGE:
                self._hear(*split_name(body), now)
            case Kind.EXPECT:
                self._expect(*split_name(body), now)
            case Kind.IDENTITY:
                self._meet(*split_name(body), now)
            case Kind.SYNCED:
                for worker_id in tuple(self._believed):
                    self._lose(worker_id, now)
            case _:
                pass  # for the process, not for its core

    def gone(self) -> None:
        """Follow the end of the index process: go on with the table and the workers that there are."""
        self._believed |= self._connected
        self._connected.clear()
        self._core.streams_gone(self._clock.monotonic())

    def _apply(self, catalogue: Catalogue, now: float) -> None:
        self._catalogue = catalogue
        self._core.apply_catalogue(catalogue, now)
        there = {worker.worker_id for worker in catalogue.workers}
        self._connected &= there
        self._believed &= there
        self._applied(catalogue)

    def _connect(self, worker_id: str, now: float) -> None:
        self._believed.discard(worker_id)
        self._connected.add(worker_id)
        self._sequence[worker_id] = 0
        self._core.worker_connected(worker_id, now)

    def _lose(self, worker_id: str, now: float) -> None:
        self._believed.discard(worker_id)
        self._connected.discard(worker_id)
        self._core.worker_lost(worker_id, now)

    def _meet(self, worker_id: str, body: bytes, now: float) -> None:
        first, place, rest = split_seat(body)
        message = wire.WorkerMessage.FromString(rest)
        who = message.identity
        for service in self._service_of(worker_id):
            key = KeySpace(who.model, who.model_revision, who.block_size)
            slots = range(first, first + (who.dp_size or 1))
            self._tables.note(worker_id, Told(service, key, place, slots))
        self._tell(worker_id, message, now)

    def _hear(self, worker_id: str, body: bytes, now: float) -> None:
        self._tell(worker_id, wire.WorkerMessage.FromString(body), now)

    def _expect(self, worker_id: str, body: bytes, now: float) -> None:
        """Hear what another gateway expects as if the worker had passed it on."""
        for expect in wire.Expects.FromString(body).expects:
            delta = wire.BlockDelta(
                dp_rank=expect.dp_rank, plane=wire.PLANE_DEVICE, expected=expect.hashes, expected_by=expect.request_id
            )
            self._tell(worker_id, wire.WorkerMessage(block_delta=delta), now)

    def _tell(self, worker_id: str, message: wire.WorkerMessage, now: float) -> None:
        self._sequence[worker_id] += 1
        message.sequence, message.epoch = self._sequence[worker_id], _EPOCH
        self._core.on_worker_message(worker_id, message, now)
        self._heard(message)

    def _service_of(self, worker_id: str) -> Iterator[tuple[str, str]]:
        for worker in self._catalogue.workers:
            if worker.worker_id == worker_id:
                yield worker.namespace, worker.service
