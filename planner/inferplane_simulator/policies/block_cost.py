"""`block-cost`: fewest blocks to compute and to decode over, after NVIDIA Dynamo's KV router.

cost = scale x max(blocks of prompts in the works + blocks of this prompt - cached blocks, 0) + blocks decoded over,
with those of this prompt that are not there yet; least cost wins (temperature 0).  Taken from the description of its
defaults; differences: decoding blocks are counted request by request, so that shared ones count twice, and the index
is ours.
"""

from typing import ClassVar

import numpy as np

from inferplane_router.core import score_kernels as kernels
from inferplane_router.core.placing import Choice, View
from inferplane_router.core.plugins.pairing import combine
from inferplane_router.core.score_kernels import Floats, Slots
from inferplane_simulator.policies.ranking import ahead_tokens, hit_tokens, prompt_tokens, ranked


class BlockCost:
    """`prefill_scale` weighs computing against decoding."""

    name: ClassVar[str] = "block-cost"

    def __init__(self, prefill_scale: float = 1.0) -> None:
        self._scale = prefill_scale

    def pick(self, view: View) -> Choice | None:
        return combine(view, order=ranked(view, lambda slots: self._cost(view, slots)))

    def _cost(self, view: View, slots: Slots) -> Floats:
        size = np.maximum(1, view.fleet.tags[slots, kernels.BLOCK_SIZE])
        missing = prompt_tokens(view) - hit_tokens(view, slots)
        computing = np.maximum(0.0, ahead_tokens(view, slots) + missing)
        decoding = view.fleet.load.rows[slots, kernels.CONTEXT_TOKENS] + np.maximum(0.0, missing)
        cost: Floats = (self._scale * computing + decoding) / size
        return cost
