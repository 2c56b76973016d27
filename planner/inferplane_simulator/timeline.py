"""How a run went over time: sums in a fixed number of equal intervals.

A run's length is not known beforehand, so when it outgrows its intervals, two become one and each is twice as long.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

_INTERVALS: Final = 240


@dataclass(slots=True)
class Timeline:
    """Sums by name; `width_s` is the length of an interval."""

    names: Sequence[str]
    width_s: float = 1.0
    sums: dict[str, list[float]] = field(init=False)
    used: int = 0

    def __post_init__(self) -> None:
        self.sums = {name: [0.0] * _INTERVALS for name in self.names}

    def add(self, name: str, at_s: float, value: float = 1.0) -> None:
        place = self.place(at_s)  # first: it may make new lists
        self.sums[name][place] += value

    def place(self, at_s: float) -> int:
        """Return the interval of a time, making room for it."""
        place = int(at_s / self.width_s)
        while place >= _INTERVALS:
            self._fold()
            place = int(at_s / self.width_s)
        self.used = max(self.used, place + 1)
        return place

    def values(self, name: str) -> list[float]:
        return self.sums[name][: self.used]

    def _fold(self) -> None:
        for name, sums in self.sums.items():
            halves = [one + other for one, other in zip(sums[::2], sums[1::2], strict=True)]
            self.sums[name] = halves + [0.0] * (_INTERVALS - len(halves))
        self.width_s *= 2
        self.used = -(-self.used // 2)
