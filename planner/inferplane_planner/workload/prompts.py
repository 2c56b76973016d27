"""A prompt as named pieces, and the tokens that stand for them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inferplane_engine.compiled import kernel
from inferplane_runtime.values import value

Tokens = NDArray[np.int32]

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT, _LATE_SHIFT = np.uint64(31), np.uint64(33)
_VOCABULARY = np.uint64(32_000)
_SPECIAL = 3
"""Tokens below are left to begin, end and pad."""


@value(frozen=True, slots=True)
class Piece:
    """`tokens` tokens of the text with this name; the beginning of a longer text of that name is the same."""

    name: int
    tokens: int


@value(frozen=True, slots=True)
class Prompt:
    pieces: tuple[Piece, ...]

    @property
    def tokens(self) -> int:
        return sum(piece.tokens for piece in self.pieces)

    def token_ids(self) -> Tokens:
        """Return int32[tokens]."""
        return spell(self.pieces)

    def followed_by(self, *pieces: Piece) -> "Prompt":
        return Prompt(self.pieces + pieces)


def text(name: int, tokens: int) -> Tokens:
    """Return the first `tokens` tokens of a text, as int32."""
    return spell((Piece(name, tokens),))


def spell(pieces: Sequence[Piece]) -> Tokens:
    """Return the tokens of pieces in a row, as int32: each a hash of its piece's name and its place there."""
    names = np.array([piece.name & 0xFFFFFFFFFFFFFFFF for piece in pieces], np.uint64)
    lengths = np.array([piece.tokens for piece in pieces], np.int64)
    out = np.empty(int(lengths.sum()), np.int32)
    _spell(names, lengths, out)
    return out


@kernel
def _spell(names: NDArray[np.uint64], lengths: NDArray[np.int64], out: Tokens) -> None:
    words = _VOCABULARY - np.uint64(_SPECIAL)
    at = 0
    for piece in range(names.shape[0]):
        start = names[piece] * _SECOND
        spelt = out[at : at + lengths[piece]]
        at += lengths[piece]
        for place in range(spelt.shape[0]):
            mixed = (np.uint64(place) + start) * _MULTIPLIER
            mixed = (mixed ^ (mixed >> _SHIFT)) * _SECOND
            spelt[place] = np.int32(((mixed >> _LATE_SHIFT) * words) >> _SHIFT) + np.int32(_SPECIAL)


@value(frozen=True, slots=True)
class Request:
    """One request as it arrives; times in seconds since the run began."""

    number: int
    """Rises by one in order of arrival; names the request in results."""
    at_s: float
    prompt: Prompt
    output_tokens: int
    session: int = -1
    """Conversation it belongs to; -1: none."""
    priority: int = 0
    answer: int = 0
    """Name of the answer's text, as a later prompt may contain it; 0: nobody will."""


def shared_tokens(one: Sequence[Piece], other: Sequence[Piece]) -> int:
    """Return how many tokens two prompts begin with alike."""
    total = 0
    for left, right in zip(one, other, strict=False):
        if left.name != right.name:
            break
        total += min(left.tokens, right.tokens)
        if left.tokens != right.tokens:
            break
    return total
