"""Percentiles of any number of times in a fixed amount of memory: buckets whose bounds grow by one per cent."""

import math
from dataclasses import dataclass, field
from typing import Final

_GROWTH: Final = 1.01
_LEAST_S: Final = 1e-4
_BUCKETS: Final = 1800
"""Up to 1e-4 * 1.01 ** 1800: five thousand seconds."""
_LOG_GROWTH: Final = math.log(_GROWTH)


@dataclass(slots=True)
class Histogram:
    """Durations in seconds; a percentile is off by one per cent at most, a mean is exact."""

    counts: list[int] = field(default_factory=lambda: [0] * (_BUCKETS + 1))
    count: int = 0
    total: float = 0.0
    most: float = 0.0

    def add(self, seconds: float) -> None:
        place = 0 if seconds <= _LEAST_S else min(_BUCKETS, int(math.log(seconds / _LEAST_S) / _LOG_GROWTH) + 1)
        self.counts[place] += 1
        self.count += 1
        self.total += seconds
        self.most = max(self.most, seconds)

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else math.nan

    def percentile(self, share: float) -> float:
        """Return the time that `share` (0 to 1) of all stay within; NaN of nothing."""
        if not self.count:
            return math.nan
        rank, seen = max(1, math.ceil(share * self.count)), 0
        for place, count in enumerate(self.counts):
            seen += count
            if seen >= rank:
                middle: float = _LEAST_S * _GROWTH ** max(0.0, place - 0.5)
                return min(self.most, middle)
        return self.most
