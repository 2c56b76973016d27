"""`balanced-tree`: longest remembered prefix while loads are balanced, after the SGLang model gateway's cache-aware.

If the busiest target has more than `apart` requests more than the idlest and more than `times` as many, the idlest is
taken.  Otherwise the target with the longest match, if that is more than `least_match` of the prompt, else again the
idlest.  Taken from the description of its defaults, and compared with its package; the tree of characters is a set of
blocks here.
"""

from typing import ClassVar

from inferplane_router.core.placing import Choice, View
from inferplane_router.core.plugins.pairing import combine
from inferplane_router.core.score_kernels import Floats, Slots
from inferplane_simulator.policies.ranking import ranked, running
from inferplane_simulator.policies.remembered import Remembered, names_of

_MOST_BLOCKS = 65_536


class BalancedTree:
    name: ClassVar[str] = "balanced-tree"

    def __init__(self, apart: float = 64.0, times: float = 1.5, least_match: float = 0.3) -> None:
        self._apart = apart
        self._times = times
        self._least_match = least_match
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
        if not slots.shape[0] or self._uneven(float(counts.max()), float(counts.min())):
            return counts
        matched = self._remembered.matched(view, slots, names)
        if matched.max() > self._least_match:
            return -matched
        return counts

    def _uneven(self, most: float, least: float) -> bool:
        return most - least > self._apart and most > self._times * least
