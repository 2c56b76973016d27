"""`sticky`: stay with the prefix until its worker is saturated, after llm-d's prefix-affinity filter.

Workers with at least `affinity` of the prompt cached are preferred unless they have more than `saturated_tokens` of
uncached prompts in the works; among those that remain the fewest tokens to compute win.  The threshold is peak prefill
throughput times the delay that is allowed for affinity's sake; the default is the published one for a 32B model on two
H100 (20,480 tokens a second for 14 s).
"""

from typing import ClassVar

import numpy as np

from inferplane_router.core.placing import Choice, View
from inferplane_router.core.plugins.pairing import combine
from inferplane_router.core.score_kernels import Floats, Slots
from inferplane_simulator.policies.ranking import ahead_tokens, hit_tokens, prompt_tokens, ranked

_NOT_PREFERRED = 1e15


class Sticky:
    name: ClassVar[str] = "sticky"

    def __init__(self, affinity: float = 0.8, saturated_tokens: float = 286_720.0) -> None:
        self._affinity = affinity
        self._saturated_tokens = saturated_tokens

    def pick(self, view: View) -> Choice | None:
        return combine(view, order=ranked(view, lambda slots: self._score(view, slots)))

    def _score(self, view: View, slots: Slots) -> Floats:
        prompt, hits, ahead = prompt_tokens(view), hit_tokens(view, slots), ahead_tokens(view, slots)
        at_home = (hits >= self._affinity * max(1.0, prompt)) & (ahead <= self._saturated_tokens)
        score: Floats = ahead + prompt - hits + np.where(at_home, 0.0, _NOT_PREFERRED)
        return score
