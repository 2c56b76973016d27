"""Messages of the worker stream, built once and framed per subscriber.

Problem: the same change goes to every router process, and writing it anew for each costs the most where there are many.
Idea: a body is serialised once; epoch, sequence and time are serialised per subscriber and put in front of it.  That is
sound because a protobuf message is the concatenation of its fields, in any order.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from inferplane_api.proto import worker_pb2 as pb
from inferplane_workers.agent.ledger import Change, Phase
from inferplane_workers.agent.timeline import Report

PROTOCOL_VERSION: Final = 1
HASHES_PER_MESSAGE: Final = 128 * 1024
"""1 MiB of hashes: a quarter of gRPC's default limit for one message."""
ENTRIES_PER_MESSAGE: Final = 2_000
HASH_BYTES: Final = 8


@dataclass(frozen=True, slots=True, order=True)
class PlaneKey:
    """One plane of one rank."""

    dp_rank: int
    plane: int = pb.PLANE_DEVICE
    store_id: str = ""


@dataclass(frozen=True, slots=True)
class Gauges:
    """What the engine says of one rank."""

    dp_rank: int = 0
    running: int = 0
    waiting: int = 0
    kv_usage: float = 0.0


def pack(hashes: Sequence[int]) -> bytes:
    """Pack hashes as the protocol wants them."""
    return struct.pack(f"<{len(hashes)}Q", *hashes)


def unpack(raw: bytes) -> tuple[int, ...]:
    """Read packed hashes; a stray tail is ignored."""
    count = len(raw) // HASH_BYTES
    return struct.unpack_from(f"<{count}Q", raw)


def frame(body: bytes, *, epoch: int, sequence: int, sent_at: float) -> bytes:
    """Put a stream's own fields before a body."""
    head = pb.WorkerMessage(epoch=epoch, sequence=sequence, sent_at=sent_at)
    return head.SerializeToString() + body


def identity_body(identity: pb.Identity) -> bytes:
    return pb.WorkerMessage(identity=identity).SerializeToString()


def status_body(status: pb.WorkerStatus) -> bytes:
    return pb.WorkerMessage(status=status).SerializeToString()


def heartbeat_body() -> bytes:
    return pb.WorkerMessage(heartbeat=pb.Heartbeat()).SerializeToString()


def snapshot_bodies(key: PlaneKey, hashes: bytes) -> Iterator[bytes]:
    """Cut one plane into messages; an empty plane is one message that empties it."""
    step = HASHES_PER_MESSAGE * HASH_BYTES
    starts = range(0, len(hashes), step) if hashes else (0,)
    for start in starts:
        snapshot = pb.BlockSnapshot(
            dp_rank=key.dp_rank,
            plane=_plane(key),
            store_id=key.store_id,
            hashes=hashes[start : start + step],
            first=start == 0,
            last=start + step >= len(hashes),
        )
        yield pb.WorkerMessage(block_snapshot=snapshot).SerializeToString()


def delta_bodies(key: PlaneKey, *, cleared: bool, removed: bytes, stored: bytes) -> Iterator[bytes]:
    """Cut net changes into messages: all that was removed leaves before anything that was stored."""
    step = HASHES_PER_MESSAGE * HASH_BYTES
    if len(removed) + len(stored) <= step:
        yield _delta(key, cleared=cleared, removed=removed, stored=stored)
        return
    if cleared:
        yield _delta(key, cleared=True)
    for start in range(0, len(removed), step):
        yield _delta(key, removed=removed[start : start + step])
    for start in range(0, len(stored), step):
        yield _delta(key, stored=stored[start : start + step])


def expected_body(dp_rank: int, request_id: str, hashes: bytes) -> bytes:
    delta = pb.BlockDelta(dp_rank=dp_rank, plane=pb.PLANE_DEVICE, expected=hashes, expected_by=request_id)
    return pb.WorkerMessage(block_delta=delta).SerializeToString()


def load_snapshot_bodies(entries: Iterable[Change], gauges: Iterable[Gauges]) -> Iterator[bytes]:
    """Say the whole load: a snapshot replaces what was known, so what does not fit follows as a delta."""
    messages = [_entry(entry) for entry in entries]
    snapshot = pb.LoadSnapshot(entries=messages[:ENTRIES_PER_MESSAGE], gauges=[_gauges(gauge) for gauge in gauges])
    yield pb.WorkerMessage(load_snapshot=snapshot).SerializeToString()
    for start in range(ENTRIES_PER_MESSAGE, len(messages), ENTRIES_PER_MESSAGE):
        delta = pb.LoadDelta(entries=messages[start : start + ENTRIES_PER_MESSAGE])
        yield pb.WorkerMessage(load_delta=delta).SerializeToString()


def load_delta_bodies(entries: Sequence[Change], gauges: Sequence[Gauges]) -> Iterator[bytes]:
    for start in range(0, max(len(entries), 1), ENTRIES_PER_MESSAGE):
        delta = pb.LoadDelta(entries=[_entry(entry) for entry in entries[start : start + ENTRIES_PER_MESSAGE]])
        if start == 0:
            delta.gauges.extend(_gauges(gauge) for gauge in gauges)
        yield pb.WorkerMessage(load_delta=delta).SerializeToString()


def report_body(report: Report) -> bytes:
    routing = report.routing
    message = pb.RequestReport(
        request_id=routing.request_id,
        router_epoch=routing.router_epoch,
        dp_rank=routing.dp_rank,
        outcome=pb.Outcome.Name(report.outcome),
        status=report.status,
        model=report.model,
        tenant=routing.tenant,
        adapter=routing.adapter,
        adapter_revision=routing.adapter_revision,
        prompt_tokens=report.prompt_tokens,
        output_tokens=report.output_tokens,
        cached_tokens=report.cached_tokens or 0,
        decode_cached_tokens=report.decode_cached_tokens or 0,
        transferred_tokens=report.transferred_tokens,
        cached_tokens_known=report.cached_tokens is not None,
        decode_cached_tokens_known=report.decode_cached_tokens is not None,
        queue_s=report.queue_s,
        prefill_s=report.prefill_s,
        transfer_s=report.transfer_s,
        decode_s=report.decode_s,
        ttft_s=report.ttft_s,
        tpot_s=report.tpot_s,
        prefill_worker=report.prefill_worker,
        failed_prefill_workers=report.failed_prefill_workers,
        damaged_prefill_workers=report.damaged_prefill_workers,
        side=pb.Role.Name(report.side),
        streamed=report.streamed,
        nonce=routing.nonce,
    )
    return pb.WorkerMessage(report=message).SerializeToString()


def _delta(key: PlaneKey, *, cleared: bool = False, removed: bytes = b"", stored: bytes = b"") -> bytes:
    delta = pb.BlockDelta(
        dp_rank=key.dp_rank, plane=_plane(key), store_id=key.store_id, cleared=cleared, removed=removed, stored=stored
    )
    return pb.WorkerMessage(block_delta=delta).SerializeToString()


def _plane(key: PlaneKey) -> pb.Plane:
    return pb.Plane.Name(key.plane)  # type: ignore[return-value]


def _entry(change: Change) -> pb.LoadEntry:
    entry, phase, output_tokens = change
    return pb.LoadEntry(
        request_id=entry.request_id,
        router_epoch=entry.router_epoch,
        dp_rank=entry.dp_rank,
        phase=pb.LoadPhase.Name(phase),
        prompt_tokens=entry.prompt_tokens,
        uncached_tokens=entry.uncached_tokens if phase is Phase.ACCEPTED else 0,
        output_tokens=output_tokens,
        tenant=entry.tenant,
        adapter=entry.adapter,
        adapter_revision=entry.adapter_revision,
        priority=entry.priority,
        nonce=entry.nonce,
    )


def _gauges(gauges: Gauges) -> pb.EngineGauges:
    return pb.EngineGauges(
        dp_rank=gauges.dp_rank, running=gauges.running, waiting=gauges.waiting, kv_usage=gauges.kv_usage
    )
