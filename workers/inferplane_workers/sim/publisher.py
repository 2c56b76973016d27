"""KV events over ZMQ, frame for frame as vLLM sends them.

PUB: topic | sequence (8 bytes, big endian) | msgpack [timestamp, [events], rank].
ROUTER: asked with a first sequence, it repeats what it still has (10,000 batches by default) and ends with sequence -1.
The difference is the fault plan: batches can be lost, forgotten, doubled, late or wrong.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import zmq
import zmq.asyncio

from inferplane_api.sim_faults import SimFaultKind
from inferplane_engine.sim.events import BlocksRemoved, BlocksStored, CacheEvent
from inferplane_engine.sim.faults import FaultPlan
from inferplane_workers.sim.options import EventsConfig, OptionsError

_END = (-1).to_bytes(8, "big", signed=True)
_MEDIUM = "GPU"
_ASK_FRAMES = 3


class _Event(msgspec.Struct, omit_defaults=True, gc=False, tag=True):
    pass


class BlockStored(_Event):
    block_hashes: Sequence[int]
    parent_block_hash: int | None
    token_ids: Sequence[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: Sequence[tuple[Any, ...] | None] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None


class BlockRemoved(_Event):
    block_hashes: Sequence[int]
    medium: str | None
    group_idx: int | None = None


class AllBlocksCleared(_Event):
    pass


def encode_event(event: CacheEvent, *, positional: bool) -> object:
    """One event as today's map, or as the array that older engines sent."""
    if isinstance(event, BlocksStored):
        stored = BlockStored(
            event.hashes,
            event.parent,
            event.token_ids,
            event.block_size,
            event.adapter_id,
            _MEDIUM,
            event.adapter or None,
            event.extra_keys,
            event.group,
            event.kind.value,
            event.window,
        )
        if not positional:
            return stored
        return ["BlockStored", *(getattr(stored, name) for name in BlockStored.__struct_fields__[:7])]
    if isinstance(event, BlocksRemoved):
        if positional:
            return ["BlockRemoved", event.hashes, _MEDIUM]
        return BlockRemoved(event.hashes, _MEDIUM, event.group)
    return ["AllBlocksCleared"] if positional else AllBlocksCleared()


def rank_endpoint(endpoint: str, rank: int) -> str:
    """Endpoint of a rank, as vLLM derives it."""
    if rank == 0:
        return endpoint
    if "inproc" in endpoint:
        return f"{endpoint}_dp{rank}"
    if "tcp" in endpoint:
        base, _, port = endpoint.rpartition(":")
        return endpoint if int(port) == 0 else f"{base}:{int(port) + rank}"
    raise OptionsError("--kv-events-config: Invalid endpoint: must contain 'inproc' or 'tcp' with several ranks")


def _binds(endpoint: str) -> bool:
    return "*" in endpoint or "::" in endpoint or endpoint.startswith(("ipc://", "inproc://"))


class EventPublisher:
    """Publishes one rank's batches and answers replay requests."""

    def __init__(self, config: EventsConfig, rank: int, faults: FaultPlan, now: Callable[[], float]) -> None:
        self._config = config
        self._rank = rank
        self._faults = faults
        self._now = now
        self._topic = config.topic.encode()
        self._sequence = 0
        self._buffer: deque[tuple[int, bytes]] = deque(maxlen=config.buffer_steps)
        self._held: list[tuple[int, bytes]] = []
        self._encoder = msgspec.msgpack.Encoder()
        self._context = zmq.asyncio.Context()
        self._pub: zmq.Socket[bytes] = zmq.Context(self._context).socket(zmq.PUB)
        self._pub.set_hwm(config.hwm)
        self._router: zmq.asyncio.Socket | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Bind or connect; raises OptionsError when an address is taken."""
        endpoint = rank_endpoint(self._config.endpoint, self._rank)
        try:
            if _binds(endpoint):
                self._pub.bind(endpoint)
            else:
                self._pub.connect(endpoint)
            if self._config.replay_endpoint is not None:
                self._router = self._context.socket(zmq.ROUTER)
                self._router.bind(rank_endpoint(self._config.replay_endpoint, self._rank))
                self._task = asyncio.create_task(self._replay(self._router), name=f"kv-replay-{self._rank}")
        except zmq.ZMQError as error:
            raise OptionsError(f"--kv-events-config: cannot use {endpoint}: {error}") from None

    @property
    def endpoint(self) -> str:
        return rank_endpoint(self._config.endpoint, self._rank)

    def publish(self, events: Sequence[CacheEvent]) -> None:
        """Send one step's events as one batch."""
        now = self._now()
        sent = list(events)
        if self._faults.chance(SimFaultKind.SILENT_EVENTS, now):
            sent = sent[1:]
        encoded = [encode_event(event, positional=self._config.positional) for event in self._wronged(sent, now)]
        sequence, self._sequence = self._sequence, self._sequence + 1
        payload = self._encoder.encode([time.time(), encoded, self._rank])
        if self._faults.chance(SimFaultKind.FORGOTTEN_EVENTS, now):
            return
        self._buffer.append((sequence, payload))
        if self._faults.chance(SimFaultKind.LOST_EVENTS, now):
            return
        if self._faults.chance(SimFaultKind.REORDERED_EVENTS, now):
            self._held.append((sequence, payload))
            return
        self._send(sequence, payload)
        if self._faults.chance(SimFaultKind.DUPLICATE_EVENTS, now):
            self._send(sequence, payload)
        held, self._held = self._held, []
        for late in held:
            self._send(*late)

    def _wronged(self, events: list[CacheEvent], now: float) -> list[CacheEvent]:
        if not self._faults.chance(SimFaultKind.WRONG_EVENTS, now):
            return events
        return [_with_wrong_hashes(event) for event in events]

    def _send(self, sequence: int, payload: bytes) -> None:
        frames: Sequence[bytes] = (self._topic, sequence.to_bytes(8, "big"), payload)
        self._pub.send_multipart(frames, zmq.NOBLOCK)

    async def _replay(self, router: zmq.asyncio.Socket) -> None:
        while True:
            frames = await router.recv_multipart()
            if len(frames) != _ASK_FRAMES:
                continue
            client, _, start = frames
            first = int.from_bytes(start, "big")
            for sequence, payload in list(self._buffer):
                if sequence >= first:
                    await _send(router, client, b"", self._topic, sequence.to_bytes(8, "big"), payload)
            await _send(router, client, b"", b"", _END, b"")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._pub.close(linger=0)
        if self._router is not None:
            self._router.close(linger=0)
        self._context.term()


def _with_wrong_hashes(event: CacheEvent) -> CacheEvent:
    if isinstance(event, BlocksStored | BlocksRemoved):
        return replace(event, hashes=tuple(value ^ 1 for value in event.hashes))
    return event


async def _send(socket: zmq.asyncio.Socket, *frames: bytes) -> None:
    await socket.send_multipart(frames)  # pyright: ignore[reportUnknownMemberType]  # pyzmq leaves the frames untyped
