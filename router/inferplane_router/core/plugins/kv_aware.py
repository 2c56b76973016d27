"""The default policy: least predicted cost over all allowed (prefill, decode) combinations."""

from typing import ClassVar

import numpy as np

from inferplane_router.core import score_kernels as kernels
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
            fleet.transfers.base,
            fleet.transfers.per_token,
            fleet.identities,
            view.seed,
            chosen,
        )
        decode, *prefills = chosen.tolist()
        if decode < 0:
            return None
        return Choice(decode, tuple(slot for slot in prefills if slot >= 0), ttft_s, tpot_s)
