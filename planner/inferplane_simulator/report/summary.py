"""Several seeds as one line: means, and how far they may be off."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from inferplane_simulator.outcome import Outcome

HEADS: Final = ("policy", "attained", "goodput/s", "ttft p50", "ttft p95", "tpot p95", "hits", "of ideal", "gpu-h")
_T95: Final = (math.nan, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""Student's t for 95 % by degrees of freedom; 2 beyond."""


@dataclass(frozen=True, slots=True)
class Value:
    """A mean over seeds and the half width of its 95 % interval; NaN for a single seed."""

    mean: float
    half: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Value":
        known = [value for value in values if math.isfinite(value)]
        if not known:
            return cls(math.nan, math.nan)
        if len(known) == 1:
            return cls(known[0], math.nan)
        t = _T95[len(known) - 1] if len(known) <= len(_T95) else 2.0
        return cls(float(np.mean(known)), t * float(np.std(known, ddof=1)) / math.sqrt(len(known)))


@dataclass(frozen=True, slots=True)
class Summary:
    """One policy over all seeds."""

    policy: str
    attainment: Value
    goodput_per_s: Value
    ttft_p50_s: Value
    ttft_p95_s: Value
    tpot_p95_s: Value
    hit_rate: Value
    hit_share: Value
    gpu_hours: Value


def summarise(outcomes: Sequence[Outcome]) -> list[Summary]:
    """Return a summary for each policy, in order of appearance."""
    policies = dict.fromkeys(outcome.policy for outcome in outcomes)
    return [_of(policy, [each for each in outcomes if each.policy == policy]) for policy in policies]


def _of(policy: str, outcomes: Sequence[Outcome]) -> Summary:
    return Summary(
        policy=policy,
        attainment=Value.of([each.attainment for each in outcomes]),
        goodput_per_s=Value.of([each.goodput_per_s for each in outcomes]),
        ttft_p50_s=Value.of([each.ttft.p50 for each in outcomes]),
        ttft_p95_s=Value.of([each.ttft.p95 for each in outcomes]),
        tpot_p95_s=Value.of([each.tpot.p95 for each in outcomes]),
        hit_rate=Value.of([each.hit_rate for each in outcomes]),
        hit_share=Value.of([each.hit_share for each in outcomes]),
        gpu_hours=Value.of([each.gpu_hours for each in outcomes]),
    )


def rows(summaries: Sequence[Summary]) -> list[list[str]]:
    """Return a row of cells for each summary, under `HEADS`."""
    return [
        [
            each.policy,
            _share(each.attainment),
            _number(each.goodput_per_s, ""),
            _number(each.ttft_p50_s, "s"),
            _number(each.ttft_p95_s, "s"),
            _number(each.tpot_p95_s, "s"),
            _share(each.hit_rate),
            _share(each.hit_share),
            _number(each.gpu_hours, ""),
        ]
        for each in summaries
    ]


def _share(value: Value) -> str:
    return _text(f"{100 * value.mean:.1f}", f"{100 * value.half:.1f}", value, "%")


def _number(value: Value, unit: str) -> str:
    return _text(f"{value.mean:.3g}", f"{value.half:.2g}", value, unit)


def _text(mean: str, half: str, value: Value, unit: str) -> str:
    if math.isnan(value.mean):
        return ""
    return f"{mean}{unit}" if math.isnan(value.half) else f"{mean}±{half}{unit}"
