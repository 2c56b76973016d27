"""Engines' event batches: msgpack in, frozen values out; SGLang (0.5.23) writes them as vLLM does.

Problem: releases differ in how they write the same event (maps with a `type` tag today, positional arrays before; a
batch is an array), fields are added, and one odd event must not cost the rest of its batch.
Idea: the usual form goes through one typed decoder for the whole batch; only a batch that does not fit is taken apart
event by event.  Trade-off: fields nobody here knows are ignored without a look on the fast path, so they are counted
by a sample of batches.  Invariant: whatever cannot be understood is counted in `EventDecoder.counts`, never guessed.
"""

from collections import Counter
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import msgpack

EngineHash: TypeAlias = int | bytes
"""How the engine names a block: 64 bits of its hash, or the whole of it."""


class BlockStored(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """One physical copy of each block now holds reusable KV."""

    block_hashes: tuple[EngineHash, ...]
    parent_block_hash: EngineHash | None
    token_ids: tuple[int, ...]
    """Tokens of the whole stretch; longer than the blocks where the engine skips some (sliding windows)."""
    block_size: int
    lora_id: int | None = None
    medium: str | None = None
    lora_name: str | None = None
    extra_keys: tuple[tuple[Any, ...] | None, ...] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None
    locality: str | None = None
    ownership: str | None = None
    session_id: str | None = None
    cache_salt: str | None = None
    """SGLang's: of the request that stored the blocks, which in vLLM is one of the first block's extra keys."""


class BlockRemoved(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """One physical copy of each block is gone; others may be left."""

    block_hashes: tuple[EngineHash, ...]
    medium: str | None = None
    group_idx: int | None = None
    locality: str | None = None
    ownership: str | None = None


class AllBlocksCleared(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Nothing is reusable any more."""


KvEvent: TypeAlias = BlockStored | BlockRemoved | AllBlocksCleared


class EventBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one scheduler step did, on one data-parallel rank."""

    ts: float
    events: tuple[KvEvent, ...]
    data_parallel_rank: int | None = None


class BatchError(ValueError):
    """A payload that is no event batch at all."""


_TYPES: Final[dict[str, type[KvEvent]]] = {
    kind.__name__: kind for kind in (BlockStored, BlockRemoved, AllBlocksCleared)
}
_SAMPLE_EVERY: Final = 256


class EventDecoder:
    """Decodes batches; `counts` says what could not be understood: `type:NAME`, `field:NAME`, `malformed:NAME`."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._typed = msgpack.Decoder(EventBatch)
        self._batches = 0

    def decode(self, payload: bytes) -> EventBatch:
        """Decode one batch, without the events that could not be understood."""
        if self._batches % _SAMPLE_EVERY == 0:
            self._count_unknown_fields(payload)
        self._batches += 1
        try:
            return self._typed.decode(payload)
        except msgspec.DecodeError:  # not the usual form
            return self._piecewise(payload)

    def _piecewise(self, payload: bytes) -> EventBatch:
        batch = _parts(payload)
        known = tuple(event for event in map(self._event, batch.events) if event is not None)
        return EventBatch(ts=batch.ts, events=known, data_parallel_rank=batch.data_parallel_rank)

    def _event(self, raw: Any) -> KvEvent | None:
        name, fields = _named_fields(raw)
        kind = _TYPES.get(name)
        if kind is None:
            self.counts[f"type:{name}"] += 1
            return None
        try:
            return msgspec.convert(fields, kind)
        except msgspec.ValidationError:
            self.counts[f"malformed:{name}"] += 1
            return None

    def _count_unknown_fields(self, payload: bytes) -> None:
        try:
            events = _parts(payload).events
        except BatchError:
            return  # `decode` is about to say so
        for raw in events:
            name, fields = _named_fields(raw)
            if name in _TYPES:
                unknown = fields.keys() - {"type", *_TYPES[name].__struct_fields__}
                self.counts.update(f"field:{field}" for field in unknown)


def encode_batch(batch: EventBatch) -> bytes:
    """Write a batch as vLLM does (events as maps)."""
    return msgpack.encode(batch)


_Shape: TypeAlias = dict[str, Any] | list[Any]


class _Parts(msgspec.Struct, array_like=True):
    ts: float
    events: list[Any]
    data_parallel_rank: int | None = None


def _parts(payload: bytes) -> _Parts:
    """Take a batch apart without a look at its events."""
    try:
        raw: _Shape = msgpack.decode(payload, type=_Shape)
        if isinstance(raw, dict):
            raw = [raw.get(name) for name in _Parts.__struct_fields__]
        return msgspec.convert(raw, _Parts)
    except msgspec.DecodeError as error:
        raise BatchError(f"an event batch must be [ts, [events], rank] in msgpack: {error}") from error


def _named_fields(raw: Any) -> tuple[str, dict[str, Any]]:
    """Return an event's type and its fields by name, from a map or from positions."""
    try:
        shape: _Shape = msgspec.convert(raw, _Shape)
    except msgspec.ValidationError:
        return type(raw).__name__, {}
    if isinstance(shape, dict):
        return str(shape.get("type")), shape
    name, *values = shape or ("nothing",)
    names = _TYPES[name].__struct_fields__ if name in _TYPES else ()
    return str(name), {"type": name, **dict(zip(names, values, strict=False))}
