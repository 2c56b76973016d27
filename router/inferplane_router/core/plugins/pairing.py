"""For policies that rank targets one by one: the first ranked decode target and prefill targets of its revision."""

from collections.abc import Callable

import numpy as np

from inferplane_router.core import score_kernels as kernels
from inferplane_router.core.placing import Choice, View
from inferplane_router.core.score_kernels import Slots


def combine(view: View, *, order: Callable[[Slots], Slots]) -> Choice | None:
    """Hand off wherever that is allowed and somebody has room; else the decode target prefills itself."""
    decodes = order(np.array([slot for slot in view.decodes.tolist() if view.has_room(slot)], np.int64))
    if view.question[kernels.PAIRED]:
        prefills = order(_with_room(view, view.prefills))
        revisions = view.fleet.tags[:, kernels.REVISION]
        for decode in decodes.tolist():
            matching = prefills[revisions[prefills] == revisions[decode]][: kernels.FALLBACKS].tolist()
            if matching:
                return _choice(view, decode, tuple(matching))
    if view.question[kernels.ALONE]:
        roomy = set(_with_room(view, decodes).tolist())
        for decode in decodes.tolist():
            if decode in roomy and view.fleet.tags[decode, kernels.CAN_PREFILL]:
                return _choice(view, decode, ())
    return None


def _with_room(view: View, slots: Slots) -> Slots:
    """Return who may get a prompt now; the same for every policy."""
    roomy: Slots = slots[kernels.may_prefill(view.terms, view.question, slots)]
    return roomy


def _choice(view: View, decode: int, prefills: tuple[int, ...]) -> Choice:
    ttft_s = view.ttft_s(decode, prefills[0] if prefills else None)
    return Choice(decode, prefills, ttft_s, float(view.terms[decode, kernels.TPOT_S]))
