"""How many copies of which blocks one attention group holds in one medium."""

from dataclasses import dataclass, field
from typing import Final, TypeVar

from inferplane_engine.kv_events.planes import Pending, Plane
from inferplane_engine.kv_events.windows import WHOLE_PREFIX
from inferplane_engine.kv_events.wire import BlockStored, EngineHash

_Key = TypeVar("_Key")
_WINDOWED: Final = frozenset({"sliding_window", "sliding_window_mla", "chunked_local_attention"})
_STATE: Final = frozenset({"mamba"})


@dataclass(slots=True)
class Residency:
    """Copies by our hash, and by the engine's where ours is not known."""

    plane: Plane
    pending: Pending
    full: bool
    """The group attends to everything before a token, not to a window."""
    peers: "tuple[Residency, ...]" = ()
    """The other full-attention groups in the same medium."""
    counts: dict[int, int] = field(default_factory=dict[int, int])
    unnamed: dict[EngineHash, int] = field(default_factory=dict[EngineHash, int])


def decrement(counts: dict[_Key, int], key: _Key) -> int | None:
    """Take one copy away and return how many are left; None when there was none."""
    copies = counts.get(key)
    if copies is None:
        return None
    if copies == 1:
        del counts[key]
    else:
        counts[key] = copies - 1
    return copies - 1


def window_blocks(event: BlockStored, block_size: int) -> int | None:
    """Return how many blocks in a row a group needs at the end of a prefix; None for full attention."""
    if event.kv_cache_spec_kind in _STATE:
        return 1
    if event.kv_cache_spec_kind not in _WINDOWED:
        return None
    window = event.kv_cache_spec_sliding_window
    if window is None or event.block_size != block_size:
        return WHOLE_PREFIX
    return -(-(window - 1) // event.block_size)
