"""How long prompts and answers are: distributions over tokens, never below 1."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from inferplane_planner.workload.arrivals import check_positive
from inferplane_planner.workload.errors import WorkloadError


class Lengths(Protocol):
    def draw(self, rng: np.random.Generator) -> int: ...


@dataclass(frozen=True, slots=True)
class Fixed:
    tokens: int

    def __post_init__(self) -> None:
        check_positive("tokens", self.tokens)

    def draw(self, rng: np.random.Generator) -> int:
        del rng
        return self.tokens


@dataclass(frozen=True, slots=True)
class LogNormal:
    """As lengths of text are: `median` tokens, and a spread of the logarithm."""

    median: float
    sigma: float
    most: int = 131_072

    def __post_init__(self) -> None:
        check_positive("median", self.median)
        check_positive("most", self.most)
        if not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise WorkloadError("sigma", f"{self.sigma:g} is not a spread", "give 0 or more")

    def draw(self, rng: np.random.Generator) -> int:
        return max(1, min(self.most, round(float(rng.lognormal(math.log(self.median), self.sigma)))))


@dataclass(frozen=True, slots=True)
class Cumulative:
    """(length, share of all that are at most so long) pairs; between two of them every length is as likely."""

    points: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        lengths = [length for length, _ in self.points]
        shares = [share for _, share in self.points]
        if not lengths or sorted(set(lengths)) != lengths or lengths[0] < 1:
            raise WorkloadError("cdf", "lengths do not rise from 1 or more", "sort them and drop doubles")
        if sorted(shares) != shares or not math.isclose(shares[-1], 1.0, abs_tol=1e-6) or shares[0] < 0:
            raise WorkloadError("cdf", "shares do not rise to 1", "give cumulative shares, the last one 1")

    @classmethod
    def of(cls, points: Sequence[Sequence[float]]) -> "Cumulative":
        return cls(tuple((int(length), float(share)) for length, share in points))

    def draw(self, rng: np.random.Generator) -> int:
        value = float(rng.random())
        place = min(bisect_left([share for _, share in self.points], value), len(self.points) - 1)
        length, share = self.points[place]
        below, less = self.points[place - 1] if place else (0, 0.0)
        within = (value - less) / (share - less) if share > less else 1.0
        return max(1, round(below + (length - below) * min(1.0, within)))
