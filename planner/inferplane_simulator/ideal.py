"""The best that any cache could do: one that forgets nothing and that all share.

Every block that some earlier prompt or answer had is a hit, up to the first that is new.  The memory is bounded: of
blocks that were not seen for long the oldest generation goes, which the outcome says.
"""

from collections.abc import Sequence
from typing import Final

_GENERATION: Final = 2_000_000


class IdealCache:
    """Remembers at least the `generation` blocks that were seen last."""

    def __init__(self, generation: int = _GENERATION) -> None:
        self._generation = generation
        self._young: set[int] = set()
        self._old: set[int] = set()
        self.forgot = False

    def hit(self, hashes: Sequence[int], reusable: int) -> int:
        """Return how many of the first `reusable` blocks were there, and remember them all."""
        young, old = self._young, self._old
        count = 0
        for name in hashes[:reusable]:
            if name not in young and name not in old:
                break
            count += 1
        young.update(hashes)
        if len(young) > self._generation:
            self.forgot = self.forgot or bool(old)
            self._young, self._old = set(), young
        return count
