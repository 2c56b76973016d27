"""How far a simulated run is off two real ones, and how far those are off each other.

Two runs of the same requests differ: an error below that difference says nothing.  So a figure is held to nine per
cent, or to half as much again as the two real runs differ, whichever is more.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

LEAST_BAR: Final = 0.09
TIMES_REPEAT: Final = 1.5
FIGURES: Final = ("ttft_p50", "ttft_p95", "tpot_p50", "tpot_p95", "hit_rate")

Figures = Mapping[str, float]
"""Seconds, and a share for `hit_rate`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One figure of one cell: the mean of the real runs, what was simulated, and shares of the former."""

    figure: str
    real: float
    simulated: float
    repeat_error: float
    """How far the real runs are off each other."""
    error: float

    @property
    def bar(self) -> float:
        return max(LEAST_BAR, TIMES_REPEAT * self.repeat_error)

    @property
    def holds(self) -> bool:
        return self.error <= self.bar


def percentile(values: Sequence[float], share: float) -> float:
    """Return the least value that `share` (0 to 1) of all stay within; NaN of nothing."""
    if not values:
        return math.nan
    return sorted(values)[max(1, math.ceil(share * len(values))) - 1]


def figures(ttft: Sequence[float], tpot: Sequence[float], hit_rate: float) -> dict[str, float]:
    """Return what is compared, of times in seconds."""
    times = {"ttft": ttft, "tpot": tpot}
    shares = {"p50": 0.5, "p95": 0.95}
    found = {f"{name}_{at}": percentile(of, share) for name, of in times.items() for at, share in shares.items()}
    return {**found, "hit_rate": hit_rate}


def verdict(figure: str, real: Sequence[float], simulated: float) -> Verdict:
    """Compare one figure of a simulated run with those of real ones."""
    mean = sum(real) / len(real)
    return Verdict(figure, mean, simulated, off(max(real) - min(real), mean), off(abs(simulated - mean), mean))


def off(difference: float, mean: float) -> float:
    """Return a difference as a share; none is 0 even of 0."""
    if difference == 0:
        return 0.0
    return difference / mean if mean else math.inf


def verdicts(real: Sequence[Figures], simulated: Figures) -> list[Verdict]:
    """Compare all figures of a cell."""
    return [verdict(name, [run[name] for run in real], simulated[name]) for name in FIGURES]


def table(cells: Mapping[str, Sequence[Verdict]]) -> Iterator[str]:
    """Write a Markdown table: a row a cell, with real -> simulated, the error and the repeat error of each figure."""
    yield f"| cell | {' | '.join(name.replace('_', ' ') for name in FIGURES)} |"
    yield f"|---|{'---|' * len(FIGURES)}"
    for name, found in cells.items():
        yield f"| {name} | {' | '.join(_cell(each) for each in found)} |"


def _cell(found: Verdict) -> str:
    real, simulated = _spelt(found.figure, found.real), _spelt(found.figure, found.simulated)
    mark = "" if found.holds else " **missed**"
    return f"{real} → {simulated}: {found.error:.0%} ({found.repeat_error:.0%}){mark}"


def _spelt(figure: str, value: float) -> str:
    return f"{value:.1%}" if figure == "hit_rate" else f"{value * 1000:.0f} ms"


def summary(cells: Mapping[str, Sequence[Verdict]]) -> dict[str, object]:
    """Return how many figures keep the bar, the worst of each kind, and which are missed."""
    every = [(cell, each) for cell, found in cells.items() for each in found]
    worst = {name: max((it.error for _, it in every if it.figure == name), default=math.nan) for name in FIGURES}
    return {
        "held": sum(it.holds for _, it in every),
        "of": len(every),
        "worst_error": {name: round(error, 3) for name, error in worst.items()},
        "missed": [f"{cell} {it.figure}" for cell, it in every if not it.holds],
    }
