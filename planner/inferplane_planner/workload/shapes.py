"""Shapes of prompts: who shares which beginning with whom.

Names of pieces are drawn from disjoint ranges, so that no two kinds of text are ever equal by accident.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from inferplane_planner.workload.arrivals import check_positive
from inferplane_planner.workload.lengths import Fixed, Lengths
from inferplane_planner.workload.prompts import Piece, Prompt

_KIND = 1 << 40
"""Names of one kind; a run has fewer requests than that."""


def named(kind: int, number: int) -> int:
    return kind * _KIND + number


SYSTEM, PREFIX, OWN, ANSWER, HOT, TOOL, UNHEARD = range(1, 8)


@dataclass(frozen=True, slots=True)
class Unshared:
    """Nothing in common with anybody, as reasoning tasks have it."""

    lengths: Lengths

    def prompt(self, rng: np.random.Generator, *, number: int, at_s: float) -> Prompt:
        del at_s
        return Prompt((Piece(named(OWN, number), self.lengths.draw(rng)),))


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """Groups (customers, applications) with a long beginning each, and a question of one's own behind it.

    `skew` 0: groups are equally busy; 1: as Zipf has it.  Every `shift_s` (None: never) others become popular.
    """

    groups: int
    prefix: Lengths
    question: Lengths
    skew: float = 0.0
    shift_s: float | None = None

    def __post_init__(self) -> None:
        check_positive("groups", self.groups)

    def prompt(self, rng: np.random.Generator, *, number: int, at_s: float) -> Prompt:
        rank = draw_rank(rng, self.groups, self.skew)
        turn = int(at_s // self.shift_s) if self.shift_s else 0
        group = (rank + turn * max(1, self.groups // 2)) % self.groups
        beginning = self.prefix.draw(np.random.default_rng((group, 0x51A5)))  # a group's own, at every draw
        question = Piece(named(OWN, number), self.question.draw(rng))
        return Prompt((Piece(named(PREFIX, group), beginning), question))


_SHORT: Final = Fixed(64)


@dataclass(frozen=True, slots=True)
class FlashCrowd:
    """A shape, and one text that a share of all requests begins with between two moments."""

    usual: SharedPrefix | Unshared
    hot_tokens: int
    share: float
    begin_s: float
    end_s: float
    question: Lengths = _SHORT

    def prompt(self, rng: np.random.Generator, *, number: int, at_s: float) -> Prompt:
        if self.begin_s <= at_s < self.end_s and rng.random() < self.share:
            question = Piece(named(OWN, number), self.question.draw(rng))
            return Prompt((Piece(named(HOT, 0), self.hot_tokens), question))
        return self.usual.prompt(rng, number=number, at_s=at_s)


def draw_rank(rng: np.random.Generator, count: int, skew: float) -> int:
    """Draw a rank from 0 to count - 1, with probability falling as 1 / (rank + 1) ** skew."""
    if skew <= 0:
        return int(rng.integers(count))
    weights = 1.0 / np.arange(1, count + 1, dtype=np.float64) ** skew
    edges = weights.cumsum()
    return int(edges.searchsorted(rng.random() * float(edges[-1]), side="right"))
