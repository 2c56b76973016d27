"""How often a block was asked for lately, in a fixed amount of memory.

Problem: whether a block deserves a place depends on uses from before it had one, and there are far more blocks than
places.  Idea: a count-min sketch of small counters, halved after every `sample` uses, so that it forgets.
Trade-off: a count may be too high, where blocks collide in every row; never too low, but for halving.
"""

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS: Final = 4
MOST: Final = 255
_PER_BLOCK: Final = 10
"""Uses between halvings, in places: frequencies below a tenth of the mean use are not told apart."""


class FrequencySketch:
    """Counts by key (bytes of a uniform hash, at least 32)."""

    def __init__(self, blocks: int) -> None:
        """`blocks`: how many blocks the tier holds, roughly."""
        self._width = 1 << max(10, (2 * blocks - 1).bit_length())
        self._counts: NDArray[np.uint8] = np.zeros(ROWS * self._width, np.uint8)
        self._sample = _PER_BLOCK * max(blocks, 100)
        self._uses = 0

    def record(self, key: bytes) -> int:
        """Count one use and return the estimate that results."""
        places = self._places(key)
        least = min(int(self._counts[place]) for place in places)
        if least < MOST:
            for place in places:
                if self._counts[place] == least:
                    self._counts[place] = least + 1
        self._uses += 1
        if self._uses >= self._sample:
            self.halve()
        return self.estimate(key)

    def estimate(self, key: bytes) -> int:
        return min(int(self._counts[place]) for place in self._places(key))

    def halve(self) -> None:
        """Forget half of every count."""
        self._counts >>= 1
        self._uses //= 2

    def _places(self, key: bytes) -> list[int]:
        mask, width = self._width - 1, self._width
        return [row * width + (int.from_bytes(key[8 * row : 8 * row + 8], "little") & mask) for row in range(ROWS)]
