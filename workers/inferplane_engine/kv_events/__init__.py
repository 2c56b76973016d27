"""Engines' KV cache events: decoded, put in order, and turned into changes of the block index's planes."""

from inferplane_engine.kv_events.block_map import BlockMap
from inferplane_engine.kv_events.planes import Plane, PlaneChange
from inferplane_engine.kv_events.problem import Problem
from inferplane_engine.kv_events.saved import SavedMap, SavedMapError
from inferplane_engine.kv_events.sequencer import Sequencer, Step
from inferplane_engine.kv_events.wire import (
    AllBlocksCleared,
    BatchError,
    BlockRemoved,
    BlockStored,
    EngineHash,
    EventBatch,
    EventDecoder,
    KvEvent,
    encode_batch,
)

__all__ = [
    "AllBlocksCleared",
    "BatchError",
    "BlockMap",
    "BlockRemoved",
    "BlockStored",
    "EngineHash",
    "EventBatch",
    "EventDecoder",
    "KvEvent",
    "Plane",
    "PlaneChange",
    "Problem",
    "SavedMap",
    "SavedMapError",
    "Sequencer",
    "Step",
    "encode_batch",
]
