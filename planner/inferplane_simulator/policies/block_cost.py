"""`block-cost`: fewest blocks to compute and to decode over, after NVIDIA Dynamo's KV router.

cost = scale x max(blocks of prompts in the works + blocks of this prompt - cached blocks, 0) + full blocks decoded
over, those of this prompt included and shared ones counted once; least cost wins (temperature 0).  Taken from the
description of its defaults, and compared with the selection core of its package; the index is ours.
"""

from typing import ClassVar

import numpy as np

from inferplane_router.core import score_kernels as kernels
from inferplane_router.core.placing import Choice, View
from inferplane_router.core.plugins.pairing import combine
from inferplane_router.core.score_kernels import Floats, Slots
from inferplane_simulator.policies.ranking import ahead_tokens, hit_tokens, prompt_tokens, ranked
from inferplane_simulator.policies.remembered import names_of
from inferplane_simulator.policies.underway import Underway


class BlockCost:
    """`prefill_scale` weighs computing against decoding."""

    name: ClassVar[str] = "block-cost"

    def __init__(self, prefill_scale: float = 1.0) -> None:
        self._scale = prefill_scale
        self._underway = Underway()

    def pick(self, view: View) -> Choice | None:
        names = names_of(view)
        choice = combine(view, order=ranked(view, lambda slots: self.score(view, slots, names)))
        if choice is not None:
            self.sent(view, choice.decode, names)
        return choice

    def sent(self, view: View, slot: int, names: list[int]) -> None:
        """Count a prompt with these blocks where it is decoded over."""
        self._underway.sent(view, slot, names)

    def score(self, view: View, slots: Slots, names: list[int]) -> Floats:
        """Return float[slots], in blocks; the least is taken."""
        size = np.maximum(1, view.fleet.tags[slots, kernels.BLOCK_SIZE])
        missing = prompt_tokens(view) - hit_tokens(view, slots)
        computing = np.maximum(0.0, ahead_tokens(view, slots) + missing)
        decoding = np.array([self._underway.blocks(view, slot, names) for slot in slots.tolist()], np.float64)
        cost: Floats = self._scale * computing / size + decoding
        return cost
