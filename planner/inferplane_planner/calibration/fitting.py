"""Coefficients of a timing profile out of measured times.

Problem.  From outside an engine shows sums: the way there and back, a fixed part, parts that grow with tokens, pairs,
sequences and KV; and it reads its weights beside its arithmetic, so the longer of the two is seen.
Idea.  Steps that decode give their fixed part, the part by sequence and that by KV.  Prompts long enough to be bound by
arithmetic give the parts by token and by pair; the shortest prompt less a decode step is the way there and back; what
is left of the fixed part is the weights.  Least squares on relative errors, no coefficient below 0.
Trade-off.  What the roofline does not have (kernels that change with size) becomes an error, which is stated.
Invariant.  Times that a profile gives without noise give that profile again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from inferplane_engine.timing import TimingProfile, attention_pairs, decode_step_s, prefill_s
from inferplane_planner.calibration.grid import DecodePoint, PrefillPoint, Sample
from inferplane_planner.core.demand import Floats
from inferplane_planner.core.errors import PlanningError

_ROUNDS: Final = 4
_CLEARLY: Final = 1.1
"""Times the threshold from which on a prompt counts as bound by arithmetic."""
_FEWEST: Final = 3
_WHOLE: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Fit:
    """A profile, the way there and back in seconds, and how far it is off what was measured, as shares."""

    profile: TimingProfile
    overhead_s: float
    mean_error: float
    largest_error: float


def fit(samples: Sequence[Sample], like: TimingProfile) -> Fit:
    """Fit the times; what cannot be seen from outside (KV bytes, capacity, link, start-up) is `like`'s.

    Raises PlanningError where there are too few samples of a kind.
    """
    prefills = [(it.point, it.seconds) for it in samples if isinstance(it.point, PrefillPoint)]
    decodes = [it for it in samples if isinstance(it.point, DecodePoint)]
    for name, found in (("prefill", len(prefills)), ("decode", len(decodes))):
        if found < _FEWEST:
            raise PlanningError(f"samples.{name}", f"are {found}", f"measure {_FEWEST} points or more")
    floor, sequence, kv = _decoding(decodes)
    least = min(seconds for _, seconds in prefills)
    way = max(0.0, least - floor - sequence)
    step, token, pair = _prefilling(prefills, floor, way + sequence)
    profile = replace(
        like,
        step_overhead_s=step,
        weights_s=floor - step,
        token_compute_s=token,
        attention_pair_s=pair,
        kv_token_s=kv,
        sequence_s=sequence,
    )
    errors = [abs(expected(profile, it, way) / it.seconds - 1.0) for it in samples]
    return Fit(profile, way, sum(errors) / len(errors), max(errors))


def expected(profile: TimingProfile, sample: Sample, way_s: float) -> float:
    """Return the seconds that a profile gives for what was measured."""
    point = sample.point
    if isinstance(point, DecodePoint):
        return float(decode_step_s(profile, batch=float(point.batch), kv_tokens=sample.kv_tokens))
    alone = prefill_s(
        profile, uncached_tokens=float(point.tokens), cached_tokens=float(point.cached), chunk_tokens=_WHOLE
    )
    return way_s + alone


def _decoding(samples: Sequence[Sample]) -> tuple[float, float, float]:
    """Return the fixed part, the part by sequence and the part by token of KV."""
    batches = [float(it.point.batch) for it in samples if isinstance(it.point, DecodePoint)]
    rows = np.array([[1.0, batch, it.kv_tokens] for batch, it in zip(batches, samples, strict=True)])
    found = _least_squares(rows, np.array([it.seconds for it in samples]))
    return float(found[0]), float(found[1]), float(found[2])


def _prefilling(
    prefills: Sequence[tuple[PrefillPoint, float]], floor: float, known: float
) -> tuple[float, float, float]:
    """Return the overhead of a step, the part by token and the part by pair, of what arithmetic bounds."""
    from_tokens, step, token, pair = float(np.median([point.tokens for point, _ in prefills])), floor, 0.0, 0.0
    for _ in range(_ROUNDS):
        bound = [(point, seconds) for point, seconds in prefills if point.tokens >= from_tokens]
        if len(bound) < _FEWEST:
            break
        rows = np.array([[1.0, point.tokens, attention_pairs(float(point.tokens), point.cached)] for point, _ in bound])
        found = _least_squares(rows, np.array([seconds for _, seconds in bound]))
        step, token, pair = min(floor, max(0.0, float(found[0]) - known)), float(found[1]), float(found[2])
        from_tokens = _CLEARLY * (floor - step) / token if token > 0 else from_tokens
    return step, token, pair


def _least_squares(rows: Floats, seconds: Floats) -> Floats:
    """Solve on relative errors; columns that would be negative are left out, one after the other."""
    scaled, kept = rows / seconds[:, None], list(range(rows.shape[1]))
    found = np.zeros(rows.shape[1])
    while kept:
        part = np.linalg.lstsq(scaled[:, kept], np.ones(seconds.size), rcond=None)[0]
        worst = int(part.argmin())
        if part[worst] >= 0:
            found[kept] = part
            break
        kept.pop(worst)
    return found
