"""The default policy: least predicted cost over all allowed (prefill, decode) combinations."""

from typing import ClassVar

import numpy as np

from inferplane_router.core import score_kernels as kernels
from inferplane_router.core.decide_kernels import Numbers, decide
from inferplane_router.core.placing import Choice, View


class KvAware:
    """See `cost` for the terms and `score_kernels` for how ties are broken."""

    name: ClassVar[str] = "kv-aware"

    def pick(self, view: View) -> Choice | None:
        fleet = view.fleet
        chosen = np.empty(kernels.FALLBACKS + 1, np.int64)
        _, ttft_s, tpot_s = kernels.choose(
            view.terms,
            fleet.tags,
            view.question,
            view.prefills,
            view.decodes,
            view.appraisal.links[0],
            view.appraisal.links[1],
            fleet.identities,
            view.seed,
            chosen,
        )
        decode, *prefills = chosen.tolist()
        if decode < 0:
            return None
        return Choice(decode, tuple(slot for slot in prefills if slot >= 0), ttft_s, tpot_s)

    def decide(self, view: View, numbers: Numbers) -> Choice | None:
        """Appraise and pick at once: what `pick` finds after an appraisal."""
        fleet, known = view.fleet, view.appraisal
        decode, first, second, third, ttft_s, tpot_s = decide(
            fleet.counts,
            fleet.speeds,
            fleet.load.rows,
            fleet.tags,
            fleet.identities,
            known.links,
            fleet.question,
            known.asked,
            known.prefills.shape[0],
            numbers,
            view.seed,
            known.question,
            known.terms,
        )
        if decode < 0:
            return None
        if first < 0:
            return Choice(decode, (), ttft_s, tpot_s)
        return Choice(decode, tuple(slot for slot in (first, second, third) if slot >= 0), ttft_s, tpot_s)
