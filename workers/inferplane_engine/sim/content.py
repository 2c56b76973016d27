"""What a KV block really holds, and which token follows from it.

The problem: a simulated engine that answers from the prompt's text would answer correctly even when a block was handed
over wrongly, and every test of the hand-off would pass.
The idea: every block carries a content value, the digest of the tokens that were prefilled into it and of the state
before it.  A sequence's state is folded over the contents of the blocks that it *holds*, and the next token is a
digest of that state.  So a stale, foreign or damaged block changes every token after it, as it would in a real engine.
The trade-off: 64-bit digests and a token alphabet of words; the output means nothing, but it is a pure function of
(adapter, sampling seed, tokens really prefilled), not of the salt, which only decides who may reuse a block.
The invariant: however the KV came to be (one chunk or many, cached, transferred, computed again), the state is the
same if and only if the contents are.
"""

import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

_MASK = (1 << 64) - 1
_MULTIPLIER = 0x9E3779B97F4A7C15
_STATE = struct.Struct("<Q")


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def seed_state(adapter: str) -> int:
    """State before the first block."""
    return _digest(b"seed\0" + adapter.encode())


def fold(state: int, content: int) -> int:
    """State after a block with `content` is held."""
    mixed = ((state ^ content) * _MULTIPLIER) & _MASK
    return mixed ^ (mixed >> 29)


def block_content(state: int, tokens: Sequence[int], extra: object = None) -> int:
    """Content of a block into which `tokens` are computed after `state`."""
    data = _STATE.pack(state) + array("i", tokens).tobytes()
    return _digest(data if extra is None else data + repr(extra).encode())


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens that the simulated model says, and the one that ends an answer."""

    words: tuple[int, ...]
    eos: int
    mean_length: int = 64
    """An answer ends after this many tokens on average, unless the request forbids it; 0: never by itself."""

    def next_token(self, state: int, tail: Sequence[int], sample: int, *, may_end: bool) -> int:
        """Token that follows: `tail` are the tokens of the last, incomplete block."""
        value = block_content(state, tail, sample or None)
        if may_end and self.mean_length and value % self.mean_length == 0:
            return self.eos
        return self.words[(value >> 16) % len(self.words)]


def coin(state: int, index: int, rate: float) -> bool:
    """Toss a coin that falls the same way for the same state and index."""
    return fold(state, index) % 10_000 < rate * 10_000
