"""Builders for tests of the core and of what uses it: catalogues, workers that speak the stream, prompts, asks.

A `FakeWorker` keeps what a real agent keeps, its blocks and its sequence numbers, and says it in messages; what it
stores depends on the tokens alone, through the same block identity.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

import numpy as np

from inferplane_api.catalogue import (
    Catalogue,
    CatalogueRoute,
    CatalogueService,
    CatalogueWorker,
    RoutingMode,
    WorkerRole,
)
from inferplane_api.proto import worker_pb2
from inferplane_engine.capabilities import Capability
from inferplane_engine.identity import Adapter, KeySpace, hash_blocks, prompt_extras, seed
from inferplane_router.core.placing import Policy
from inferplane_router.core.plugins import POLICIES
from inferplane_router.core.router import RouterCore
from inferplane_router.core.values import Ask, Hashes, ResolvedModel, Tokens

EPOCH = 7
MODEL = "acme/tiny"
SERVED = "tiny"
BLOCK = 16
NO_HASHES: Hashes = np.zeros(0, np.uint64)


def service(
    name: str = "chat",
    *,
    mode: RoutingMode = RoutingMode.AUTO,
    policy: str = "kv-aware",
    served: tuple[str, ...] = (SERVED,),
    queue_limit: int = 8,
    queue_timeout_s: float = 5.0,
    ttft_s: float = 2.0,
) -> CatalogueService:
    return CatalogueService(
        name=name,
        served_names=served,
        mode=mode,
        policy=policy,
        queue_limit=queue_limit,
        queue_timeout_s=queue_timeout_s,
        ttft_s=ttft_s,
    )


@dataclass
class FakeWorker:
    """One worker's agent, as far as its stream goes."""

    worker_id: str
    role: WorkerRole = WorkerRole.DECODE
    service: str = "chat"
    revision: str = "r1"
    zone: str = "a"
    block_size: int = BLOCK
    dp_size: int = 1
    max_num_seqs: int = 0
    kv_blocks: int = 0
    hybrid: bool = False
    adapters: tuple[Adapter, ...] = ()
    can_prefill: bool = True
    model_revision: str = "abc"
    epoch: int = 1
    sequence: int = field(default=0, init=False)

    @property
    def key_space(self) -> KeySpace:
        return KeySpace(MODEL, self.model_revision, self.block_size)

    def entry(self) -> CatalogueWorker:
        return CatalogueWorker(
            worker_id=self.worker_id,
            service=self.service,
            pool=f"{self.service}-{self.role.value}",
            role=self.role,
            revision=self.revision,
            http_address=f"{self.worker_id}:8100",
            stream_address=f"{self.worker_id}:8101",
            zone=self.zone,
        )

    def hashes(self, tokens: Tokens, *, salt: str | None = None, adapter: Adapter | None = None) -> Hashes:
        return hash_blocks(tokens, self.block_size, seed(self.key_space, adapter), prompt_extras(salt))

    # Messages ----------------------------------------------------------------------------------------------------

    def identity(self) -> worker_pb2.WorkerMessage:
        identity = worker_pb2.Identity(
            worker_id=self.worker_id,
            service=self.service,
            engine_start=f"start-{self.epoch}",
            model=MODEL,
            model_revision=self.model_revision,
            served_names=[SERVED],
            adapters=[worker_pb2.Adapter(name=each.name, revision=each.revision) for each in self.adapters],
            max_model_len=32768,
            block_size=self.block_size,
            dp_size=self.dp_size,
            hybrid=self.hybrid,
            capabilities=[Capability.DECODE_CAN_PREFILL.value] if self.can_prefill else [],
            http_address=f"{self.worker_id}:8100",
            max_num_seqs=self.max_num_seqs,
            kv_blocks_per_rank=self.kv_blocks,
            tokenizer_digest="sha256:1",
        )
        return self._next(worker_pb2.WorkerMessage(identity=identity))

    def status(
        self,
        phase: worker_pb2.Phase = worker_pb2.PHASE_READY,
        kv_events: worker_pb2.KvEventsState = worker_pb2.KV_EVENTS_OK,
        canary: worker_pb2.CanaryState = worker_pb2.CANARY_PASSED,
        tier_prices: Iterable[worker_pb2.TierPrice] = (),
    ) -> worker_pb2.WorkerMessage:
        status = worker_pb2.WorkerStatus(phase=phase, kv_events=kv_events, canary=canary, tier_prices=tier_prices)
        return self._next(worker_pb2.WorkerMessage(status=status))

    def delta(
        self,
        *,
        stored: Hashes = NO_HASHES,
        removed: Hashes = NO_HASHES,
        cleared: bool = False,
        expected: Hashes = NO_HASHES,
        expected_by: str = "",
        rank: int = 0,
        plane: worker_pb2.Plane = worker_pb2.PLANE_DEVICE,
        store_id: str = "",
    ) -> worker_pb2.WorkerMessage:
        delta = worker_pb2.BlockDelta(
            dp_rank=rank,
            plane=plane,
            store_id=store_id,
            cleared=cleared,
            removed=removed.tobytes(),
            stored=stored.tobytes(),
            expected=expected.tobytes(),
            expected_by=expected_by,
        )
        return self._next(worker_pb2.WorkerMessage(block_delta=delta))

    def snapshot(
        self, hashes: Hashes, *, rank: int = 0, plane: worker_pb2.Plane = worker_pb2.PLANE_DEVICE
    ) -> worker_pb2.WorkerMessage:
        snapshot = worker_pb2.BlockSnapshot(dp_rank=rank, plane=plane, hashes=hashes.tobytes(), first=True, last=True)
        return self._next(worker_pb2.WorkerMessage(block_snapshot=snapshot))

    def load(self, *entries: worker_pb2.LoadEntry, snapshot: bool = False) -> worker_pb2.WorkerMessage:
        if snapshot:
            return self._next(worker_pb2.WorkerMessage(load_snapshot=worker_pb2.LoadSnapshot(entries=entries)))
        return self._next(worker_pb2.WorkerMessage(load_delta=worker_pb2.LoadDelta(entries=entries)))

    def report(
        self,
        request_id: str,
        *,
        prompt_tokens: int,
        cached_tokens: int | None = None,
        decode_cached_tokens: int | None = None,
        outcome: worker_pb2.Outcome = worker_pb2.OUTCOME_OK,
        prefill_s: float = 0.05,
        tpot_s: float = 0.01,
        output_tokens: int = 32,
        prefill_worker: str = "",
        rank: int = 0,
    ) -> worker_pb2.WorkerMessage:
        report = worker_pb2.RequestReport(
            request_id=request_id,
            router_epoch=EPOCH,
            dp_rank=rank,
            outcome=outcome,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            cached_tokens=cached_tokens or 0,
            cached_tokens_known=cached_tokens is not None,
            decode_cached_tokens=decode_cached_tokens or 0,
            decode_cached_tokens_known=decode_cached_tokens is not None,
            queue_s=0.0,
            prefill_s=prefill_s,
            transfer_s=0.01 if prefill_worker else float("nan"),
            tpot_s=tpot_s,
            prefill_worker=prefill_worker,
            side=worker_pb2.ROLE_PREFILL if self.role is WorkerRole.PREFILL else worker_pb2.ROLE_DECODE,
        )
        return self._next(worker_pb2.WorkerMessage(report=report))

    def heartbeat(self) -> worker_pb2.WorkerMessage:
        return self._next(worker_pb2.WorkerMessage(heartbeat=worker_pb2.Heartbeat()))

    def _next(self, message: worker_pb2.WorkerMessage) -> worker_pb2.WorkerMessage:
        self.sequence += 1
        message.sequence, message.epoch = self.sequence, self.epoch
        return message


def catalogue(
    services: Iterable[CatalogueService], workers: Iterable[FakeWorker], routes: Iterable[CatalogueRoute] = ()
) -> Catalogue:
    return Catalogue(
        services=tuple(services), routes=tuple(routes), workers=tuple(worker.entry() for worker in workers)
    )


def connect(core: RouterCore, *workers: FakeWorker, now: float = 0.0) -> None:
    """Begin the stream of each worker and let it say that it is ready."""
    for worker in workers:
        worker.sequence = 0
        core.worker_connected(worker.worker_id, now)
        core.on_worker_message(worker.worker_id, worker.identity(), now)
        core.on_worker_message(worker.worker_id, worker.status(), now)


def make_core(
    *workers: FakeWorker,
    services: Iterable[CatalogueService] | None = None,
    routes: Iterable[CatalogueRoute] = (),
    rng_seed: int = 1,
    policies: Mapping[str, Callable[[], Policy]] = POLICIES,
) -> RouterCore:
    """Make a core whose workers are connected and ready."""
    rng = Random(rng_seed)  # noqa: S311  # tests want the same every time
    core = RouterCore(epoch=EPOCH, rng=rng, wall_clock=lambda: 1_700_000_000.0, policies=policies)
    core.apply_catalogue(catalogue((service(),) if services is None else services, workers, routes), 0.0)
    connect(core, *workers)
    return core


def prompt(number: int, tokens: int) -> Tokens:
    """Make a prompt that shares nothing with those of other numbers."""
    return np.random.default_rng(number).integers(0, 30_000, tokens).astype(np.int32)


def resolve(core: RouterCore, name: str = SERVED) -> ResolvedModel:
    model = core.resolve_model(name)
    if not isinstance(model, ResolvedModel):
        raise TypeError(f"{name!r} is not known; known are {model.known_names}")
    return model


def ask(
    core: RouterCore,
    request_id: str,
    tokens: Tokens | None,
    *,
    name: str = SERVED,
    salt: str | None = None,
    max_tokens: int = 32,
    deadline_s: float | None = None,
    exclude: frozenset[str] = frozenset(),
    only: frozenset[str] = frozenset(),
    templated: bool = False,
) -> Ask:
    return Ask(
        request_id,
        resolve(core, name),
        tokens,
        salt=salt,
        max_tokens=max_tokens,
        deadline_s=deadline_s,
        exclude=exclude,
        only=only,
        templated=templated,
    )


def accepted(
    request_id: str, *, epoch: int = EPOCH, prompt_tokens: int = 100, uncached: int = 100
) -> worker_pb2.LoadEntry:
    return worker_pb2.LoadEntry(
        request_id=request_id,
        router_epoch=epoch,
        phase=worker_pb2.LOAD_PHASE_ACCEPTED,
        prompt_tokens=prompt_tokens,
        uncached_tokens=uncached,
    )


def finished(request_id: str, *, epoch: int = EPOCH) -> worker_pb2.LoadEntry:
    return worker_pb2.LoadEntry(request_id=request_id, router_epoch=epoch, phase=worker_pb2.LOAD_PHASE_FINISHED)
