"""Slots in order of a score, least first; equal ones in an order that differs from prompt to prompt."""

from collections.abc import Callable

import numpy as np

from inferplane_router.core import score_kernels as kernels
from inferplane_router.core.placing import View
from inferplane_router.core.score_kernels import Floats, Slots

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def ranked(view: View, score: Callable[[Slots], Floats]) -> Callable[[Slots], Slots]:
    """Return what `combine` orders slots with."""

    def order(slots: Slots) -> Slots:
        shuffled = (view.fleet.identities[slots] ^ view.seed) * _MULTIPLIER
        return slots[np.lexsort((shuffled, score(slots)))]

    return order


def running(view: View, slots: Slots) -> Floats:
    """Return the requests that each has, those that wait for their prompt's computation included."""
    counts: Floats = view.fleet.load.rows[slots, kernels.IN_FLIGHT]
    return counts


def ahead_tokens(view: View, slots: Slots) -> Floats:
    """Return the prompt tokens that each has been given and has not computed yet."""
    tokens: Floats = view.fleet.load.rows[slots, kernels.AHEAD_TOKENS]
    return tokens


def hit_tokens(view: View, slots: Slots) -> Floats:
    tokens: Floats = view.terms[slots, kernels.HIT_TOKENS].astype(np.float64)
    return tokens


def prompt_tokens(view: View) -> float:
    return float(view.question[kernels.PROMPT])
