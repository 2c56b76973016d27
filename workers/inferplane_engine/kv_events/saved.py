"""A block map as plain values, to be written down and read again by another process.

What is derived (planes, runs of windows) is left out and worked out again.  Whoever reads this did not necessarily
write it: `checked` holds it to what a block map can be.
"""

from collections.abc import Collection, Iterable

import msgspec
import numpy as np

from inferplane_engine.kv_events.planes import Plane

_PLANES = frozenset(map(int, Plane))


class SavedGroup(msgspec.Struct, frozen=True):
    """What one attention group holds in one medium."""

    group: int
    plane: int
    windowed: bool
    need: int | None
    """Blocks in a row that its window needs, where that matters."""
    words: list[tuple[int | None, str | None]]
    """Group and medium as the engine's events write them."""
    blocks: bytes
    """uint64 each, as many as `copies`."""
    copies: bytes
    unnamed: list[tuple[int | bytes, int]]


class SavedMap(msgspec.Struct, frozen=True):
    """Everything that later events are understood by."""

    engine_names: list[int | bytes]
    names: bytes
    children: bytes
    parents: bytes
    groups: list[SavedGroup]


class SavedMapError(ValueError):
    """What was read is no block map."""


def pack(values: Collection[int]) -> bytes:
    return np.fromiter(values, "<u8", len(values)).tobytes()


def unpack(raw: bytes) -> list[int]:
    numbers: list[int] = np.frombuffer(raw, "<u8").tolist()
    return numbers


def checked(saved: SavedMap, *, max_blocks: int) -> SavedMap:
    """Return it as it is; raises SavedMapError where lengths or values cannot be."""
    _same_length("names", len(saved.engine_names), saved.names)
    _same_length("parents", _length("children", saved.children), saved.parents)
    for group in saved.groups:
        _same_length("copies", _length("blocks", group.blocks), group.copies)
        if group.plane not in _PLANES:
            raise SavedMapError(f"plane {group.plane} is not known")
        if group.need is not None and group.need < 0:
            raise SavedMapError(f"a window of {group.need} blocks cannot be")
        _positive(unpack(group.copies))
        _positive(copies for _, copies in group.unnamed)
        if len(saved.engine_names) + len(group.unnamed) > max_blocks:
            raise SavedMapError(f"more than {max_blocks} blocks")
    return saved


def _length(what: str, raw: bytes) -> int:
    if len(raw) % 8:
        raise SavedMapError(f"{what} are cut off")
    return len(raw) // 8


def _same_length(what: str, expected: int, raw: bytes) -> None:
    if _length(what, raw) != expected:
        raise SavedMapError(f"{what}: {len(raw) // 8} instead of {expected}")


def _positive(copies: Iterable[int]) -> None:
    if any(count < 1 for count in copies):
        raise SavedMapError("a block is held less than once")
