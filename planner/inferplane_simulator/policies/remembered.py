"""Which prompts were sent where: what routers without block events go by.

A bounded set of block names for each target, the least recently used ones going first.  Targets are known by identity,
since slots are given to others when a worker is gone.
"""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from inferplane_router.core.placing import View
from inferplane_router.core.score_kernels import Floats, Slots


class Remembered:
    """At most `most_blocks` blocks a target."""

    def __init__(self, most_blocks: int) -> None:
        self._most = most_blocks
        self._blocks: dict[int, OrderedDict[int, None]] = {}

    def matched(self, view: View, slots: Slots, names: Sequence[int]) -> Floats:
        """Return the share of the prompt's blocks that each slot was sent before, from the first on."""
        return np.array([self._match(self._identity(view, slot), names) for slot in slots.tolist()], np.float64)

    def sent(self, view: View, slot: int, names: Sequence[int]) -> None:
        blocks = self._blocks.setdefault(self._identity(view, slot), OrderedDict())
        for name in reversed(names):  # the beginning of a prompt is the last to be forgotten
            blocks[name] = None
            blocks.move_to_end(name)
        while len(blocks) > self._most:
            blocks.popitem(last=False)

    @staticmethod
    def _identity(view: View, slot: int) -> int:
        return int(view.fleet.identities[slot])

    def _match(self, identity: int, names: Sequence[int]) -> float:
        blocks = self._blocks.get(identity)
        if not blocks or not names:
            return 0.0
        count = 0
        for name in names:
            if name not in blocks:
                break
            count += 1
        return count / len(names)


def names_of(view: View) -> list[int]:
    """Return the names of the prompt's blocks; a fleet in the middle of a rollout goes by the first key space."""
    return view.hashes[0].tolist() if view.hashes else []
