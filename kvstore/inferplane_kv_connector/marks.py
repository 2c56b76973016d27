"""Blocks by the names that routers know: 64 bits that follow from model, tokens and salt, and not from the engine.

A block is stored under its 256-bit key; beside it stands its mark, so that whoever lists a store can tell routers which
prefixes it holds, whichever engine wrote them.  A mark decides where a request goes and never whose bytes are read.
The arithmetic is that of `inferplane_engine.identity`, which engines do not have; a test holds the two together.
Blocks under an adapter bear no mark: an engine does not know which revision of an adapter a name stands for.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

UNMARKED: Final = 0
_VERSION: Final = b"inferplane-block-1"
_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_WORD: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Marker:
    """Marks the blocks of one prompt."""

    seed: int
    salt: int
    block_size: int

    @staticmethod
    def of(model: str, revision: str, block_size: int, salt: str) -> "Marker":
        """`model` and `revision` as the worker beside the engine gives them to routers."""
        seed = _folded((_VERSION, model, revision, block_size, ()))
        return Marker(seed, _folded((salt,)) if salt else 0, block_size)

    def extend(self, marks: Sequence[int], tokens: Sequence[int]) -> list[int]:
        """Return the marks of the whole blocks in `tokens`, which follow the blocks with these marks."""
        count = len(tokens) // self.block_size
        value = marks[-1] if marks else self.seed
        made: list[int] = []
        for index, lanes in enumerate(_lanes(tokens[: count * self.block_size], self.block_size)):
            value ^= lanes
            if not marks and not index and self.salt:
                value = _mixed(value) ^ (self.salt * _P1 & _WORD)
            value = _mixed(value) or _P5
            made.append(value)
        return made


def _lanes(tokens: Sequence[int], block_size: int) -> list[int]:
    """Fold each block's tokens, all blocks at once."""
    words = np.array(tokens, np.uint64).reshape(-1, block_size)
    a, b = (np.full(len(words), start, np.uint64) for start in (_P4, _P5))
    quads = block_size & ~3
    for at in range(0, quads, 4):
        x = words[:, at] | (words[:, at + 1] << np.uint64(32))
        y = words[:, at + 2] | (words[:, at + 3] << np.uint64(32))
        a = _rotated((a ^ (x * np.uint64(_P2))) * np.uint64(_P1), 31)
        b = _rotated((b ^ (y * np.uint64(_P3))) * np.uint64(_P2), 29)
    for at in range(quads, block_size):
        a = _rotated((a ^ (words[:, at] * np.uint64(_P3))) * np.uint64(_P1), 29)
    folded: list[int] = (a ^ _rotated(b, 31)).tolist()
    return folded


def _rotated(words: NDArray[np.uint64], by: int) -> NDArray[np.uint64]:
    return (words << np.uint64(by)) | (words >> np.uint64(64 - by))


def _mixed(value: int) -> int:
    value ^= value >> 33
    value = value * _P2 & _WORD
    value ^= value >> 29
    value = value * _P3 & _WORD
    return value ^ value >> 32


_Part = bytes | str | int | tuple[()]


def _folded(parts: Sequence[_Part]) -> int:
    state = blake2b(b"l" + struct.pack("<q", len(parts)), digest_size=8)
    for piece in _encoded(parts):
        state.update(piece)
    return int.from_bytes(state.digest(), "little") or 1


def _encoded(parts: Sequence[_Part]) -> Iterator[bytes]:
    for part in parts:
        if isinstance(part, tuple):
            yield b"l" + struct.pack("<q", 0)
            continue
        kind, raw = _raw(part)
        yield kind + struct.pack("<q", len(raw)) + raw


def _raw(part: bytes | str | int) -> tuple[bytes, bytes]:
    if isinstance(part, bytes):
        return b"b", part
    return (b"i", str(part).encode()) if isinstance(part, int) else (b"s", part.encode("utf-8", "surrogatepass"))
