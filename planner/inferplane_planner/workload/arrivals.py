"""When requests arrive: rates over time, and processes that draw arrivals from them.

A rate is a bound and a function below it, so that a varying one is drawn exactly, by thinning.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from inferplane_planner.workload.errors import WorkloadError


class Rate(Protocol):
    """Requests per second at a time; never above `most`."""

    @property
    def most(self) -> float: ...

    def at(self, time_s: float) -> float: ...


@dataclass(frozen=True, slots=True)
class Constant:
    per_s: float

    def __post_init__(self) -> None:
        check_positive("rate", self.per_s)

    @property
    def most(self) -> float:
        return self.per_s

    def at(self, time_s: float) -> float:
        del time_s
        return self.per_s


@dataclass(frozen=True, slots=True)
class Ramp:
    """From one rate to another within `over_s`, then that."""

    start_per_s: float
    end_per_s: float
    over_s: float

    def __post_init__(self) -> None:
        check_positive("over", self.over_s)
        check_positive("rate", self.most)

    @property
    def most(self) -> float:
        return max(self.start_per_s, self.end_per_s)

    def at(self, time_s: float) -> float:
        share = min(1.0, max(0.0, time_s / self.over_s))
        return self.start_per_s + (self.end_per_s - self.start_per_s) * share


@dataclass(frozen=True, slots=True)
class Steps:
    """(from when, requests per second) pairs, in order of time, beginning at 0."""

    steps: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        times = [time_s for time_s, _ in self.steps]
        if not times or times[0] != 0 or sorted(set(times)) != times:
            raise WorkloadError("steps", f"{times} are not rising times from 0", "begin at 0 and sort them")
        check_positive("rate", self.most)

    @property
    def most(self) -> float:
        return max(rate for _, rate in self.steps)

    def at(self, time_s: float) -> float:
        return next(rate for begin_s, rate in reversed(self.steps) if time_s >= begin_s or begin_s == 0)


@dataclass(frozen=True, slots=True)
class Day:
    """A sine between `low` and `high`, lowest at the beginning; `length_s` is a day, or whatever stands for one."""

    low_per_s: float
    high_per_s: float
    length_s: float = 86_400.0

    def __post_init__(self) -> None:
        check_positive("length", self.length_s)
        check_positive("rate", self.high_per_s)
        if not 0 <= self.low_per_s <= self.high_per_s:
            raise WorkloadError("rate", f"low {self.low_per_s:g} is not within 0 and high", "swap or raise them")

    @property
    def most(self) -> float:
        return self.high_per_s

    def at(self, time_s: float) -> float:
        share = (1.0 - math.cos(2.0 * math.pi * time_s / self.length_s)) / 2.0
        return self.low_per_s + (self.high_per_s - self.low_per_s) * share


@dataclass(frozen=True, slots=True)
class Poisson:
    """Arrivals that know nothing of each other."""

    rate: Rate

    def times(self, rng: np.random.Generator) -> Iterator[float]:
        now = 0.0
        while True:
            now += float(rng.exponential(1.0 / self.rate.most))
            if rng.random() * self.rate.most < self.rate.at(now):
                yield now


@dataclass(frozen=True, slots=True)
class Bursty:
    """Gaps drawn from a gamma distribution: the same mean, `variation` times the spread of Poisson's."""

    per_s: float
    variation: float = 2.0

    def __post_init__(self) -> None:
        check_positive("rate", self.per_s)
        check_positive("variation", self.variation)

    def times(self, rng: np.random.Generator) -> Iterator[float]:
        shape = 1.0 / self.variation**2
        now = 0.0
        while True:
            now += float(rng.gamma(shape, 1.0 / (self.per_s * shape)))
            yield now


class Process(Protocol):
    """Draws times of arrival, rising, without end."""

    def times(self, rng: np.random.Generator) -> Iterator[float]: ...


def check_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise WorkloadError(name, f"{value:g} is not a positive number", "give one above 0")
