"""Tables of what routing policies attained, with intervals, and where one of the others was better.

A policy is compared with ours seed by seed, since both had the same requests: the interval is that of the mean of the
differences (Student, 95 %), which is narrower than those of the two means.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OURS = "kv-aware"
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Two-sided 95 % quantiles for 1, 2, ... degrees of freedom."""

Line = Mapping[str, Any]
Scene = tuple[str, float]
"""Workload and load."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean and half the width of its 95 % interval; infinite for a single value."""

    value: float
    within: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        count = len(values)
        if count < 2:  # noqa: PLR2004  # one value has no spread
            return cls(values[0], math.inf)
        quantile = _STUDENT[min(count - 1, len(_STUDENT)) - 1]
        return cls(statistics.mean(values), quantile * statistics.stdev(values) / math.sqrt(count))

    def text(self, unit: float = 1.0, digits: int = 1) -> str:
        within = "" if math.isinf(self.within) else f" ± {self.within * unit:.{digits}f}"
        return f"{self.value * unit:.{digits}f}{within}"


def by_scene(lines: Iterable[Line]) -> dict[Scene, dict[str, dict[int, Line]]]:
    """Sort runs into scene -> policy -> seed."""
    scenes: dict[Scene, dict[str, dict[int, Line]]] = defaultdict(lambda: defaultdict(dict))
    for line in lines:
        scenes[line["workload"], line["load"]][line["policy"]][line["seed"]] = line
    return scenes


def tables(lines: Iterable[Line]) -> Iterator[str]:
    """Write one Markdown table for each workload and load."""
    for (workload, load), policies in sorted(by_scene(lines).items()):
        rates = [line["rate_per_s"] for runs in policies.values() for line in runs.values()]
        yield f"## `{workload}`, {100 * load:.0f} % of the knee ({rates[0]:.3g} a second)"
        yield "| policy | seeds | attained % | goodput 1/s | TTFT p50 ms | p95 | p99 | TPOT p95 ms | hits of ideal % |"
        yield "|---|---|---|---|---|---|---|---|---|"
        for policy, runs in policies.items():
            yield _row(policy, list(runs.values()))
        yield ""


def _row(policy: str, runs: Sequence[Line]) -> str:
    def mean(field: str, unit: float = 1.0, digits: int = 1) -> str:
        return Mean.of([line[field] for line in runs]).text(unit, digits)

    cells = (
        policy,
        str(len(runs)),
        mean("attainment", 100),
        mean("goodput_per_s", digits=2),
        mean("ttft_p50", 1000, 0),
        mean("ttft_p95", 1000, 0),
        mean("ttft_p99", 1000, 0),
        mean("tpot_p95", 1000),
        mean("hit_share", 100),
    )
    return f"| {' | '.join(cells)} |"


@dataclass(frozen=True, slots=True)
class Loss:
    """Where another policy is better than ours by more than the interval; `behind` is relative to the other's mean."""

    workload: str
    load: float
    policy: str
    measure: str
    behind: float
    within: float


def losses(lines: Iterable[Line]) -> list[Loss]:
    """Compare goodput and the 95th percentile of TTFT, seed by seed."""
    found: list[Loss] = []
    for (workload, load), policies in sorted(by_scene(lines).items()):
        for policy, theirs in policies.items():
            seeds = sorted(theirs.keys() & policies.get(OURS, {}).keys())
            if policy == OURS or not seeds:
                continue
            for measure, sign in (("goodput_per_s", 1.0), ("ttft_p95", -1.0)):
                apart = Mean.of([sign * (theirs[seed][measure] - policies[OURS][seed][measure]) for seed in seeds])
                if apart.value > apart.within:
                    whole = statistics.mean(theirs[seed][measure] for seed in seeds)
                    found.append(Loss(workload, load, policy, measure, apart.value / whole, apart.within / whole))
    return found
