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
        roomy = view.prefills[view.terms[view.prefills, kernels.WAIT_S] <= view.question[kernels.HOLD]]
        prefills = order(roomy)
        revisions = view.fleet.tags[:, kernels.REVISION]
        for decode in decodes.tolist():
            matching = prefills[revisions[prefills] == revisions[decode]][: kernels.FALLBACKS].tolist()
            if matching:
                return _choice(view, decode, tuple(matching))
    if view.question[kernels.ALONE]:
        for decode in decodes.tolist():
            can = view.fleet.tags[decode, kernels.CAN_PREFILL]
            if can and view.terms[decode, kernels.WAIT_S] <= view.question[kernels.HOLD]:
                return _choice(view, decode, ())
    return None


def _choice(view: View, decode: int, prefills: tuple[int, ...]) -> Choice:
    ttft_s = view.ttft_s(decode, prefills[0] if prefills else None)
    return Choice(decode, prefills, ttft_s, float(view.terms[decode, kernels.TPOT_S]))
