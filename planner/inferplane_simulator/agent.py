"""What a worker's agent tells routers, reduced to the words: messages of the worker stream, in order.

The production agent reads an engine's events off a socket, names their blocks and counts duplicates; here they bear
their names already, and the engine says only the first copy stored and the last one removed.  As there, what happens at
one moment goes out together.
"""

from dataclasses import dataclass, field

import numpy as np

from inferplane_api.catalogue import WorkerRole
from inferplane_api.proto import worker_pb2
from inferplane_engine.capabilities import Capability
from inferplane_engine.identity import KeySpace
from inferplane_engine.sim.events import KeysChanged
from inferplane_router.core.values import Hashes
from inferplane_simulator.scenario import PoolSpec

_ROLES = {WorkerRole.PREFILL: worker_pb2.ROLE_PREFILL, WorkerRole.DECODE: worker_pb2.ROLE_DECODE}


@dataclass(slots=True)
class Changes:
    """Blocks that have come and gone since routers were told; a duplicate is none, and the engine does not say it."""

    events: list[KeysChanged] = field(default_factory=list[KeysChanged])

    def take(self) -> worker_pb2.BlockDelta | None:
        """Return what has changed, once."""
        if not self.events:
            return None
        changed = self.events[0] if len(self.events) == 1 else _added_up(self.events)
        self.events.clear()
        return worker_pb2.BlockDelta(
            plane=worker_pb2.PLANE_DEVICE, stored=changed.stored.tobytes(), removed=changed.removed.tobytes()
        )


def _added_up(events: list[KeysChanged]) -> KeysChanged:
    """Return what became of each block in the end."""
    there: dict[int, bool] = {}
    for event in events:
        there.update(dict.fromkeys(event.removed.tolist(), False))
        there.update(dict.fromkeys(event.stored.tolist(), True))
    stored, removed = (
        np.array([name for name, is_there in there.items() if is_there is wanted], np.uint64)
        for wanted in (True, False)
    )
    return KeysChanged(events[-1].at, stored, removed)


class Agent:
    """One worker's words since its engine started; `epoch` differs with every start."""

    def __init__(self, worker_id: str, pool: PoolSpec, *, key_space: KeySpace, epoch: int, kv_blocks: int) -> None:
        self.worker_id = worker_id
        self.epoch = epoch
        self.blocks = Changes()
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

    @property
    def speaks(self) -> bool:
        """Whether there is something to be said."""
        return bool(self.blocks.events or self._loads or self._reports)

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
