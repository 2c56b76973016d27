"""The workers of all services and what their streams say.

Problem: streams lose messages, agents and engines restart, and ranks come and go, while decisions go on.  Idea: one
object a worker holds where its stream stands; everything that a decision needs is written through to the service's
`Fleet` at once.  Invariants: after a gap or a new epoch nothing of what was known before remains; a message that
cannot be read never ends the stream, it asks for a snapshot.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from inferplane_api.catalogue import CatalogueWorker, WorkerRole
from inferplane_api.proto import worker_pb2
from inferplane_engine.capabilities import Capability
from inferplane_engine.identity import Adapter, KeySpace, seed
from inferplane_router.core.breaking import Breaker
from inferplane_router.core.crowd import Standing
from inferplane_router.core.fleet import Fleet, Space
from inferplane_router.core.health import EVENT_OF_PHASE, HealthEvent, after
from inferplane_router.core.index_kernels import DEVICE, DISK, HOST, RESUMABLE
from inferplane_router.core.mismatch import KvTrust
from inferplane_router.core.tier_prices import prices_of
from inferplane_router.core.values import Hashes, Health, KvMode, ModelFacts, Resync, TargetRef
from inferplane_router.core.worker_names import is_same_worker

PLANES: Final = {
    worker_pb2.PLANE_DEVICE: DEVICE,
    worker_pb2.PLANE_HOST: HOST,
    worker_pb2.PLANE_DISK: DISK,
    worker_pb2.PLANE_RESUMABLE: RESUMABLE,
}
_MOST_RANKS: Final = 1024
EXPECTED_S: Final = 5.0
"""How long predicted blocks are believed when nobody stores them."""


class UnreadableError(ValueError):
    """A message says what cannot be; the worker must start over."""


@dataclass(slots=True)
class Worker:
    """One worker: its place in the catalogue, its stream, its state."""

    entry: CatalogueWorker
    fleet: Fleet
    identity: worker_pb2.Identity | None = None
    slots: range = range(0)
    health: Health = Health.UNKNOWN
    detail: str = ""
    because: str = ""
    """What made it so, one of `HealthEvent`."""
    health_until: float | None = None
    """When a suspect worker is judged again."""
    connected: bool = False
    epoch: int = 0
    sequence: int = 0
    kv_events: worker_pb2.KvEventsState = worker_pb2.KV_EVENTS_UNSPECIFIED
    trust: KvTrust = field(default_factory=KvTrust)
    breaker: Breaker = field(default_factory=Breaker)
    transport: str = ""
    transport_degraded: bool = False
    resyncs: int = 0
    stranger: bool = False
    """Somebody else answers at this address: an address is given to another worker once its own is gone."""
    _to_resync: list[Resync] = field(default_factory=list[Resync])

    # Stream ------------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        self.connected, self.epoch, self.sequence = True, 0, 0
        if self.health is Health.SUSPECT:
            self.show()

    def lose(self, now: float, patience_s: float) -> None:
        """Follow the stream's end: what it said of blocks and of others' load is void."""
        self.connected = False
        self._forget_blocks()
        for slot in self.slots:
            self.fleet.load.unconfirm(slot, now)
        self.happen(HealthEvent.STREAM_LOST, now + patience_s)

    def hear(self, message: worker_pb2.WorkerMessage, now: float) -> Resync | None:
        """Take one message, except reports; return a snapshot to ask for."""
        self._follow(message, now)
        try:
            self._take(message, now)
        except ValueError as error:
            self.start_over(f"unreadable {message.WhichOneof('body')}: {error}", now)
        if not self._to_resync:
            return None
        self.resyncs += 1
        return self._to_resync.pop(0)

    def _follow(self, message: worker_pb2.WorkerMessage, now: float) -> None:
        expected = self.sequence + 1
        if self.sequence and message.epoch != self.epoch:
            self._forget(now)
        elif message.sequence != expected:
            self.start_over(f"sequence {message.sequence} came where {expected} was due", now)
        self.epoch, self.sequence = message.epoch, message.sequence

    def _take(self, message: worker_pb2.WorkerMessage, now: float) -> None:
        match message.WhichOneof("body"):
            case "identity":
                self._meet(message.identity)
            case _ if self.stranger:
                pass
            case "status":
                self._follow_status(message.status, now)
            case "block_snapshot" if self.slots:
                self._take_snapshot(message.block_snapshot)
            case "block_delta" if self.slots:
                self._take_delta(message.block_delta, now)
            case "load_snapshot" if self.slots:
                self.fleet.load.replace(self.slots, message.load_snapshot.entries, decodes=self.decodes)
            case "load_delta" if self.slots:
                for entry in message.load_delta.entries:
                    self.fleet.load.report(self._slot(entry.dp_rank), entry, decodes=self.decodes)
            case _:
                pass  # heartbeats; bodies of later protocol versions

    # State -------------------------------------------------------------------------------------------------------

    @property
    def decodes(self) -> bool:
        return self.entry.role is WorkerRole.DECODE

    @property
    def _adapters(self) -> frozenset[Adapter]:
        known = self.identity.adapters if self.identity is not None else ()
        return frozenset(Adapter(each.name, each.revision) for each in known)

    @property
    def space(self) -> Space | None:
        return self.fleet.space_at(self.slots.start) if self.slots else None

    def happen(self, event: HealthEvent, judged_at: float | None = None) -> None:
        """Move along the table of transitions."""
        before, self.health = self.health, after(self.health, event)
        if self.health is not before:
            self.because = event.value
        if self.health is Health.SUSPECT:
            self.health_until = judged_at if before is not Health.SUSPECT else self.health_until
        else:
            self.health_until = None
        if self.health is not before or event is HealthEvent.STREAM_LOST:
            self.show()

    def show(self) -> None:
        """Write to the fleet who may be asked."""
        self.fleet.stand(self.slots, Standing(self.decodes, self.health, self._adapters, heard=self.connected))

    def judge(self, now: float) -> None:
        """Decide about a suspect worker whose time has come."""
        if self.health_until is not None and now >= self.health_until:
            self.happen(HealthEvent.HELD_OUT if self.connected else HealthEvent.SILENT)

    def move(self, entry: CatalogueWorker) -> None:
        """Follow the catalogue: addresses, role or revision of the same worker changed."""
        self.entry = entry
        if self.identity is not None:
            self._identify(self.identity)

    def leave(self) -> None:
        """Follow the catalogue, which does not name it any more."""
        if self.slots:
            self.fleet.release(self.slots)
        self.slots = range(0)

    def show_trust(self) -> None:
        """Write to the index whether this worker's events count."""
        if (space := self.space) is not None:
            for slot in self.slots:
                space.trust(slot, exact=self.trust.mode is KvMode.EXACT)

    # Bodies ------------------------------------------------------------------------------------------------------

    def _meet(self, identity: worker_pb2.Identity) -> None:
        name, namespace = identity.worker_id, identity.namespace
        self.stranger = not is_same_worker(self.entry.worker_id, namespace=namespace, name=name)
        if not self.stranger:
            self._identify(identity)
            return
        self.leave()
        self.identity = None
        self.happen(HealthEvent.SAID_FAILED)
        self.detail = f"{namespace}/{name} answers at {self.entry.stream_address}"

    def _identify(self, identity: worker_pb2.Identity) -> None:
        ranks = identity.dp_size or 1
        if ranks > _MOST_RANKS:
            raise UnreadableError(f"dp_size {ranks} is more than {_MOST_RANKS}")
        known = self.identity
        if known is not None and known.engine_start != identity.engine_start:
            self._forget_blocks()
            self.trust.restart()
            self.breaker = Breaker()
        key_space = KeySpace(identity.model, identity.model_revision, identity.block_size)
        self.slots = self.fleet.seat(self.entry.worker_id, ranks, self.slots)
        self.identity = worker_pb2.Identity()
        self.identity.CopyFrom(identity)
        can_prefill = Capability.DECODE_CAN_PREFILL.value in identity.capabilities or not self.decodes
        for rank, slot in enumerate(self.slots):
            self.fleet.describe(
                slot,
                ref=TargetRef(self.entry.worker_id, rank, self.entry.http_address),
                key_space=key_space,
                revision=self.entry.revision,
                zone=self.entry.zone or identity.zone,
                pool=self.entry.pool,
                can_prefill=can_prefill,
                most_requests=identity.max_num_seqs,
                kv_blocks=identity.kv_blocks_per_rank,
                hybrid=identity.hybrid,
                drop_blocks=identity.speculative_drop_blocks,
            )
        self.fleet.set_adapters(self.slots, self._adapters)
        self.show()
        self.show_trust()

    def _follow_status(self, status: worker_pb2.WorkerStatus, now: float) -> None:
        self.detail = status.detail
        self.transport, self.transport_degraded = status.transport, status.transport_degraded
        self.kv_events = status.kv_events
        self.fleet.price(self.slots, prices_of(status.tier_prices))
        if self.trust.announce(status.kv_events):
            self.show_trust()
        event = EVENT_OF_PHASE.get(status.phase)
        if status.canary == worker_pb2.CANARY_FAILED:
            event, self.detail = HealthEvent.SAID_FAILED, status.detail or "the canary prompt got a wrong answer"
        if event is HealthEvent.SAID_READY and self.health is Health.SUSPECT and self.breaker.holds(now):
            return
        if event is not None:
            self.happen(event)

    def _take_snapshot(self, snapshot: worker_pb2.BlockSnapshot) -> None:
        slot, space = self._slot(snapshot.dp_rank), self._known_space()
        keys = _hashes(snapshot.hashes)
        if snapshot.plane == worker_pb2.PLANE_REMOTE:
            space.index.attach(slot, snapshot.store_id)
            if snapshot.first and not space.index.is_shared(slot, snapshot.store_id):
                space.index.clear_remote(snapshot.store_id)
            space.index.store_remote(snapshot.store_id, keys)
        elif (plane := PLANES.get(snapshot.plane)) is not None:
            if snapshot.first:
                space.index.clear(slot, plane)
            space.index.store(slot, keys, plane)
        self._note_stored(keys)

    def _take_delta(self, delta: worker_pb2.BlockDelta, now: float) -> None:
        slot, space = self._slot(delta.dp_rank), self._known_space()
        removed, stored, expected = _hashes(delta.removed), _hashes(delta.stored), _hashes(delta.expected)
        if expected.shape[0]:
            space.overlay.predict(delta.expected_by, slot, expected, now + EXPECTED_S)
        if delta.plane == worker_pb2.PLANE_REMOTE:
            space.index.attach(slot, delta.store_id)
            if delta.cleared:
                space.index.clear_remote(delta.store_id)
            space.index.remove_remote(delta.store_id, removed)
            space.index.store_remote(delta.store_id, stored)
        elif (plane := PLANES.get(delta.plane)) is not None:
            if delta.cleared:
                space.index.clear(slot, plane)
                if plane == DEVICE:
                    space.overlay.drop_target(slot)
            self._apply(space, slot, plane, removed=removed, stored=stored)
        self._note_stored(stored)

    @staticmethod
    def _apply(space: Space, slot: int, plane: int, *, removed: Hashes, stored: Hashes) -> None:
        if removed.shape[0]:
            space.index.remove(slot, removed, plane)
        if stored.shape[0]:
            space.index.store(slot, stored, plane)
        if plane == DEVICE and removed.shape[0]:
            space.overlay.settle(slot, removed)
        # While its events are not believed, the index does not count for it: our own prediction is all there is.
        if plane == DEVICE and stored.shape[0] and space.trusts(slot):
            space.overlay.settle(slot, stored)

    def _note_stored(self, keys: Hashes) -> None:
        if keys.shape[0]:
            self.trust.ever_stored = True

    def held(self) -> dict[tuple[int, int], Hashes]:
        """Return the blocks that the index has of this worker, by rank and plane."""
        if (space := self.space) is None:
            return {}
        return {
            (rank, plane): space.index.keys(slot, plane)
            for rank, slot in enumerate(self.slots)
            for plane in PLANES.values()
            if space.index.blocks(slot, plane)
        }

    # Loss --------------------------------------------------------------------------------------------------------

    def start_over(self, reason: str, now: float) -> None:
        """Forget what the stream said and ask for all of it; who hears its next message gets the question."""
        self._forget(now)
        self._to_resync = [Resync(rank, reason) for rank in range(max(1, len(self.slots)))]

    def _forget(self, now: float) -> None:
        """Forget what the stream said.  What we sent there ourselves is still there: the engine is the same."""
        if (space := self.space) is not None:
            for slot in self.slots:
                space.index.forget_blocks(slot)
        for slot in self.slots:
            self.fleet.load.unconfirm(slot, now)

    def _forget_blocks(self) -> None:
        if (space := self.space) is not None:
            for slot in self.slots:
                space.index.forget_blocks(slot)
                space.overlay.drop_target(slot)

    def _slot(self, rank: int) -> int:
        if rank >= len(self.slots):
            raise UnreadableError(f"dp_rank {rank}, but the worker has {len(self.slots)}")
        return self.slots[rank]

    def _known_space(self) -> Space:
        if (space := self.space) is None:
            raise UnreadableError("blocks came before the identity")
        return space


def _hashes(packed: bytes) -> Hashes:
    if len(packed) % 8:
        raise UnreadableError(f"{len(packed)} bytes are no whole number of hashes")
    return np.frombuffer(packed, "<u8").astype(np.uint64, copy=False)


def gather_facts(workers: Iterable[Worker], adapter: Adapter | None) -> ModelFacts | None:
    """Say what most workers say of their model; those that may be asked count first."""
    known = [(worker, worker.identity) for worker in workers if worker.identity is not None]
    if not known:
        return None
    usable = [pair for pair in known if pair[0].health in {Health.READY, Health.SUSPECT}] or known
    spaces = [worker.space.key for worker, _ in usable if worker.space is not None]
    if not spaces:
        return None
    key_space = max(spaces, key=spaces.count)
    alike = [pair for pair in usable if pair[0].space is not None and pair[0].space.key == key_space]
    digests = [identity.tokenizer_digest for _, identity in alike if identity.tokenizer_digest]
    digest = max(digests, key=digests.count, default="")
    return ModelFacts(
        key_space=key_space,
        seed=seed(key_space, adapter),
        max_model_len=min(identity.max_model_len for _, identity in alike),
        tokenizer_digest=digest,
        file_sources=tuple(
            worker.entry.http_address for worker, identity in alike if digest and identity.tokenizer_digest == digest
        ),
    )
