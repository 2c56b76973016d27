"""The arithmetic of block identity: one 64-bit hash per block, each depending on all before it.

Two lanes take two tokens each per step, so that a block's multiplications overlap; what is left of a block whose size
is no multiple of four goes through one lane.  The chain value then absorbs both lanes and the block's extra key and is
finalised by a bijective mixer.  Tokens are multiplied before they enter a lane: without that, tokens that differ in
high bits only could be cancelled by the next ones.

The constants and the order of operations are part of the protocol: agents and routers of different releases compute
the same hashes.  `tests/engine_identity` holds a naive version and frozen values.
"""

import numpy as np
from numpy.typing import NDArray

from inferplane_engine.compiled import inline, kernel

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_NEVER_ZERO = _P5
_R29, _R31, _R32, _R33, _R35 = np.uint64(29), np.uint64(31), np.uint64(32), np.uint64(33), np.uint64(35)
_ZERO, _1, _2, _3, _4 = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@inline
def mix(value: np.uint64) -> np.uint64:
    """Spread every input bit over the whole word; a bijection."""
    value ^= value >> _R33
    value *= _P2
    value ^= value >> _R29
    value *= _P3
    value ^= value >> _R32
    return value


@kernel
def chain_blocks(
    tokens: NDArray[np.int32], block_size: int, start: np.uint64, extras: NDArray[np.uint64], out: NDArray[np.uint64]
) -> None:
    """Fill `out`, whose length is the number of blocks; `extras` is empty or has an entry for each block."""
    value = start
    quads, rest = np.uint64(block_size & ~3), np.uint64(block_size & 3)
    with_extras = extras.shape[0] != 0
    at = _ZERO  # unsigned: numba checks signed indices for being negative, which costs a third here
    for block in range(out.shape[0]):
        a, b = _P4, _P5
        end = at + quads
        while at < end:
            x = np.uint64(np.uint32(tokens[at])) | (np.uint64(np.uint32(tokens[at + _1])) << _R32)
            y = np.uint64(np.uint32(tokens[at + _2])) | (np.uint64(np.uint32(tokens[at + _3])) << _R32)
            a = (a ^ (x * _P2)) * _P1
            a = (a << _R31) | (a >> _R33)
            b = (b ^ (y * _P3)) * _P2
            b = (b << _R29) | (b >> _R35)
            at += _4
        end = at + rest
        while at < end:
            a = (a ^ (np.uint64(np.uint32(tokens[at])) * _P3)) * _P1
            a = (a << _R29) | (a >> _R35)
            at += _1
        value ^= a ^ ((b << _R31) | (b >> _R33))
        if with_extras and extras[block] != _ZERO:
            value = mix(value) ^ (extras[block] * _P1)
        value = mix(value)
        if value == _ZERO:
            value = _NEVER_ZERO
        out[block] = value
