"""One after the other, whatever they hold and whatever they do; the baseline to compare with."""

from typing import ClassVar

import numpy as np

from inferplane_router.core.placing import Choice, View
from inferplane_router.core.plugins.pairing import combine
from inferplane_router.core.score_kernels import Slots


class RoundRobin:
    name: ClassVar[str] = "round-robin"

    def __init__(self) -> None:
        self._last_prefill = -1
        self._last_decode = -1

    def pick(self, view: View) -> Choice | None:
        choice = combine(view, order=self._in_turn)
        if choice is not None:
            self._last_decode = choice.decode
            self._last_prefill = choice.prefills[0] if choice.prefills else self._last_prefill
        return choice

    def _in_turn(self, slots: Slots) -> Slots:
        """Rotate the slots so that they begin after the last one used; both roles have slots of their own."""
        is_prefill = bool(slots.shape[0]) and self._last_prefill in slots
        last = self._last_prefill if is_prefill else self._last_decode
        return np.roll(slots, -int(np.searchsorted(slots, last, side="right")))
