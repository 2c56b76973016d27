"""What a worker's agent tells routers, reduced to the words: messages of the worker stream, in order.

The production agent reads an engine's events off a socket and names their blocks; here they bear their names already.
As there, duplicate physical blocks are counted, so that only the first copy is stored and only the last one removed,
and what happens at one moment goes out together.
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

from inferplane_api.catalogue import WorkerRole
from inferplane_api.proto import worker_pb2
from inferplane_engine.capabilities import Capability
from inferplane_engine.identity import KeySpace
from inferplane_engine.sim.events import BlocksRemoved, BlocksStored, CacheEvent
from inferplane_router.core.values import Hashes
from inferplane_simulator.scenario import PoolSpec

_ROLES = {WorkerRole.PREFILL: worker_pb2.ROLE_PREFILL, WorkerRole.DECODE: worker_pb2.ROLE_DECODE}


@dataclass(slots=True)
class Blocks:
    """Which blocks are there, and what has changed since routers were told."""

    copies: dict[int, int] = field(default_factory=dict[int, int])
    stored: dict[int, None] = field(default_factory=dict[int, None])
    removed: dict[int, None] = field(default_factory=dict[int, None])

    def follow(self, events: Iterable[CacheEvent]) -> None:
        for event in events:
            if isinstance(event, BlocksStored):
                self.store(event.hashes)
            elif isinstance(event, BlocksRemoved):
                self.remove(event.hashes)

    def store(self, names: Iterable[int]) -> None:
        copies = self.copies
        for name in names:
            had = copies.get(name, 0)
            copies[name] = had + 1
            if not had and self.removed.pop(name, self) is self:
                self.stored[name] = None

    def remove(self, names: Iterable[int]) -> None:
        copies = self.copies
        for name in names:
            left = copies[name] - 1
            if left:
                copies[name] = left
                continue
            del copies[name]
            if self.stored.pop(name, self) is self:
                self.removed[name] = None

    def take(self) -> worker_pb2.BlockDelta | None:
        """Return what has changed, once."""
        if not self.stored and not self.removed:
            return None
        delta = worker_pb2.BlockDelta(
            plane=worker_pb2.PLANE_DEVICE, stored=_packed(self.stored), removed=_packed(self.removed)
        )
        self.stored.clear()
        self.removed.clear()
        return delta


class Agent:
    """One worker's words since its engine started; `epoch` differs with every start."""

    def __init__(self, worker_id: str, pool: PoolSpec, *, key_space: KeySpace, epoch: int, kv_blocks: int) -> None:
        self.worker_id = worker_id
        self.epoch = epoch
        self.blocks = Blocks()
        self._pool = pool
        self._key_space = key_space
        self._kv_blocks = kv_blocks
        self._loads: list[worker_pb2.LoadEntry] = []
        self._reports: list[worker_pb2.RequestReport] = []
        self._sequences: dict[int, int] = {}

    def identity(self, max_model_len: int) -> worker_pb2.WorkerMessage:
        return worker_pb2.WorkerMessage(
            identity=worker_pb2.Identity(
                worker_id=self.worker_id,
                role=_ROLES[self._pool.role],
                engine_start=f"{self.worker_id}-{self.epoch}",
                model=self._key_space.model,
                model_revision=self._key_space.model_revision,
                block_size=self._key_space.block_size,
                max_model_len=max_model_len,
                dp_size=1,
                capabilities=[Capability.DECODE_CAN_PREFILL.value],
                zone=self._pool.zone,
                max_num_seqs=self._pool.max_num_seqs,
                max_num_batched_tokens=self._pool.max_num_batched_tokens,
                kv_blocks_per_rank=self._kv_blocks,
                engine="sim",
            )
        )

    @staticmethod
    def status(phase: worker_pb2.Phase) -> worker_pb2.WorkerMessage:
        status = worker_pb2.WorkerStatus(
            phase=phase, kv_events=worker_pb2.KV_EVENTS_OK, canary=worker_pb2.CANARY_PASSED
        )
        return worker_pb2.WorkerMessage(status=status)

    def load(self, entry: worker_pb2.LoadEntry) -> None:
        self._loads.append(entry)

    def report(self, report: worker_pb2.RequestReport) -> None:
        self._reports.append(report)

    def take(self) -> list[worker_pb2.WorkerMessage]:
        """Return what is to be said now, for every router; numbered when it is delivered."""
        messages: list[worker_pb2.WorkerMessage] = []
        delta = self.blocks.take()
        if delta is not None:
            messages.append(worker_pb2.WorkerMessage(block_delta=delta))
        if self._loads:
            messages.append(worker_pb2.WorkerMessage(load_delta=worker_pb2.LoadDelta(entries=self._loads)))
            self._loads = []
        messages += [worker_pb2.WorkerMessage(report=report) for report in self._reports]
        self._reports = []
        return messages

    def numbered(self, message: worker_pb2.WorkerMessage, router: int) -> worker_pb2.WorkerMessage:
        """Give a message its place in the stream to one router; a core takes it in before the next one is numbered."""
        sequence = self._sequences.get(router, 0) + 1
        self._sequences[router] = sequence
        message.sequence, message.epoch = sequence, self.epoch
        return message


def expected(request_id: str, hashes: Hashes) -> worker_pb2.WorkerMessage:
    """Tell routers other than the one that sent a request which blocks it will store."""
    delta = worker_pb2.BlockDelta(plane=worker_pb2.PLANE_DEVICE, expected=hashes.tobytes(), expected_by=request_id)
    return worker_pb2.WorkerMessage(block_delta=delta)


def _packed(names: Iterable[int]) -> bytes:
    return array("Q", names).tobytes()
