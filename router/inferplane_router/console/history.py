"""The last hour of each service, in samples of a few seconds.

Problem: counters say what was since the start; a person wants to see when it began.  Idea: keep what the counters were
at each sample, so that any window is the difference of two of them.  Samples are taken when the time of day passes a
multiple of `SAMPLE_S`, so that those of several processes fit onto each other.  Trade-off: what happened within one
sample is not told apart.  Invariant: never more than `most` samples of a service, and none of services that are gone.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

SAMPLE_S: Final = 5.0
MOST: Final = 720
"""An hour of samples."""

Counts = tuple[int, ...]
"""Observations by bucket, the last one for what exceeds every bound; since the start."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What was counted of one service since the start: streams held against their limits, and their times."""

    ttft_met: int = 0
    ttft_missed: int = 0
    tpot_met: int = 0
    tpot_missed: int = 0
    ttft: Counts = ()
    tpot: Counts = ()

    def since(self, before: "Tally") -> "Tally":
        """Return what came after `before`."""
        return Tally(
            self.ttft_met - before.ttft_met,
            self.ttft_missed - before.ttft_missed,
            self.tpot_met - before.tpot_met,
            self.tpot_missed - before.tpot_missed,
            _difference(self.ttft, before.ttft),
            _difference(self.tpot, before.tpot),
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """One service at one moment, in seconds of the wall clock."""

    at: float
    prefill: int
    """Prefill workers that take requests."""
    decode: int
    in_flight: int
    queued: int
    tally: Tally


class History:
    """Samples by service, oldest first."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._samples: dict[str, deque[Sample]] = {}

    def add(self, samples: Iterable[tuple[str, Sample]]) -> None:
        """Take one sample of every service that there is; the others are forgotten."""
        kept: dict[str, deque[Sample]] = {}
        for service, sample in samples:
            kept[service] = self._samples.get(service) or deque(maxlen=self._most)
            kept[service].append(sample)
        self._samples = kept

    def of(self, service: str) -> tuple[Sample, ...]:
        return tuple(self._samples.get(service, ()))

    def window(self, service: str, seconds: float) -> Tally:
        """Return what was counted in the last seconds, as far as there are samples of them."""
        samples = self.of(service)
        if not samples:
            return Tally()
        began = bisect_right(samples, samples[-1].at - seconds, key=lambda it: it.at)
        return samples[-1].tally.since(samples[max(0, began - 1)].tally)


def steps(samples: Iterable[Sample]) -> Iterator[tuple[Sample, Tally]]:
    """Yield each sample but the first, with what was counted since the one before."""
    for before, after in pairwise(samples):
        yield after, after.tally.since(before.tally)


def tick(at: float) -> int:
    """Return the number of the sample that a moment belongs to."""
    return int(at // SAMPLE_S)


def share(met: int, missed: int) -> float | None:
    """Return the share that was met; None where nothing was counted."""
    return met / (met + missed) if met + missed else None


def percentile(counts: Counts, bounds: tuple[float, ...], percent: float) -> float | None:
    """Estimate a percentile from buckets, evenly spread within each; None where nothing was counted.

    What exceeds every bound is told as the last bound.
    """
    wanted, passed, low = sum(counts) * percent / 100, 0, 0.0
    if not wanted:
        return None
    for count, high in zip(counts, bounds, strict=False):
        if passed + count >= wanted:
            return low + (high - low) * (wanted - passed) / count
        passed, low = passed + count, high
    return bounds[-1]


def _difference(after: Counts, before: Counts) -> Counts:
    return tuple(a - b for a, b in zip(after, before, strict=True)) if before else after
