"""`prefix-match`: best remembered prefix among those that are not overloaded, after AIBrix's prefix-cache.

If the busiest target has more than `apart` requests more than the idlest, the idlest is taken.  Otherwise targets with
a match are tried from the longest on, and the first whose requests are at most the mean and `sigmas` deviations is
taken; without a match the idlest is.  Taken from the description of its defaults (200,000 blocks a target).
"""

from typing import ClassVar

import numpy as np

from inferplane_router.core.placing import Choice, View
from inferplane_router.core.plugins.pairing import combine
from inferplane_router.core.score_kernels import Floats, Slots
from inferplane_simulator.policies.ranking import ranked, running
from inferplane_simulator.policies.remembered import Remembered, names_of

_MOST_BLOCKS = 200_000
_PREFERRED = 1e9


class PrefixMatch:
    name: ClassVar[str] = "prefix-match"

    def __init__(self, apart: float = 16.0, sigmas: float = 2.0) -> None:
        self._apart = apart
        self._sigmas = sigmas
        self._remembered = Remembered(_MOST_BLOCKS)

    def pick(self, view: View) -> Choice | None:
        names = names_of(view)
        choice = combine(view, order=ranked(view, lambda slots: self.score(view, slots, names)))
        if choice is not None:
            self.sent(view, choice.computing, names)
        return choice

    def sent(self, view: View, slot: int, names: list[int]) -> None:
        """Remember where a prompt with these blocks went."""
        self._remembered.sent(view, slot, names)

    def score(self, view: View, slots: Slots, names: list[int]) -> Floats:
        """Return float[slots]; the least is taken."""
        counts = running(view, slots)
        if not slots.shape[0] or float(counts.max() - counts.min()) > self._apart:
            return counts
        matched = self._remembered.matched(view, slots, names)
        allowed = (matched > 0) & (counts <= counts.mean() + self._sigmas * counts.std())
        score: Floats = np.where(allowed, -_PREFERRED * matched, counts)
        return score
