"""Compile every kernel before the first request, or load it from numba's cache.

Problem: the first call of a kernel takes seconds without a cache; a request must not pay for it.  Idea: a process
calls `warm` once at its start, which drives a core of two made-up workers through everything that runs a kernel.
Invariant: the types of the calls here are those of the real ones, since they are the real ones.
"""

from random import Random

import numpy as np

from inferplane_api.catalogue import Catalogue, CatalogueService, CatalogueWorker, WorkerRole
from inferplane_api.proto import worker_pb2
from inferplane_engine.capabilities import Capability
from inferplane_router.core.plugins.round_robin import RoundRobin
from inferplane_router.core.router import RouterCore
from inferplane_router.core.values import Ask, ResolvedModel

_BLOCK = 16


def warm() -> None:
    """Run every kernel once."""
    core = RouterCore(epoch=1, rng=Random(1), wall_clock=lambda: 0.0)  # noqa: S311  # nothing here is secret
    service = CatalogueService(name="warm", served_names=("warm",))
    roles = {"p": WorkerRole.PREFILL, "d": WorkerRole.DECODE}
    entries = tuple(_entry(name, role) for name, role in roles.items())
    in_steps = CatalogueService(name="warm", served_names=("warm",), policy=RoundRobin.name)  # kernels one by one
    core.apply_catalogue(Catalogue(services=(service,), workers=entries), 0.0)
    for name in roles:
        core.worker_connected(name, 0.0)
        for sequence, message in enumerate(_messages(), start=1):
            message.sequence, message.epoch = sequence, 1
            core.on_worker_message(name, message, 0.0)
    model = core.resolve_model("warm")
    if not isinstance(model, ResolvedModel):
        raise TypeError("the core does not know the service that it was just given")
    tokens = np.arange(3 * _BLOCK, dtype=np.int32)
    core.pick(Ask("warm", model, tokens, salt="warm"), 0.0)
    core.apply_catalogue(Catalogue(services=(in_steps,), workers=entries), 0.0)
    core.pick(Ask("in steps", model, tokens, salt="warm"), 0.0)
    core.explain("warm")
    report = worker_pb2.RequestReport(
        request_id="warm", router_epoch=1, outcome=worker_pb2.OUTCOME_OK, cached_tokens_known=True, prefill_worker="p"
    )
    report.decode_cached_tokens_known = True
    core.on_worker_message("d", worker_pb2.WorkerMessage(report=report, sequence=len(_messages()) + 1, epoch=1), 0.0)
    core.poll(10.0)
    core.complete("warm", worker_pb2.OUTCOME_ENGINE_ERROR, 0.0)
    core.apply_catalogue(Catalogue(), 0.0)


def _entry(name: str, role: WorkerRole) -> CatalogueWorker:
    return CatalogueWorker(
        worker_id=name, service="warm", pool=role.value, role=role, revision="1", http_address=name, stream_address=name
    )


def _messages() -> list[worker_pb2.WorkerMessage]:
    keys = np.arange(1, 2000, dtype=np.uint64).tobytes()  # more than a new table holds: it is rebuilt once
    device = worker_pb2.PLANE_DEVICE
    identity = worker_pb2.Identity(
        model="warm", block_size=_BLOCK, hybrid=True, capabilities=[Capability.DECODE_CAN_PREFILL.value]
    )
    return [
        worker_pb2.WorkerMessage(identity=identity),
        worker_pb2.WorkerMessage(status=worker_pb2.WorkerStatus(phase=worker_pb2.PHASE_READY)),
        worker_pb2.WorkerMessage(block_snapshot=worker_pb2.BlockSnapshot(plane=device, hashes=keys, first=True)),
        worker_pb2.WorkerMessage(block_delta=worker_pb2.BlockDelta(plane=device, removed=keys, stored=keys[:8])),
        worker_pb2.WorkerMessage(block_delta=worker_pb2.BlockDelta(plane=device, cleared=True)),
    ]
