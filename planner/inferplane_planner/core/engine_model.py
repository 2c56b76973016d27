"""The engine as it is here: a profile whose terms are scaled by what was observed.

Problem.  A profile is right about the shape (a fixed part, a part by tokens, a part by attention) and wrong about the
size, and a service's own requests tell the size.
Idea.  Every time is a sum of a few terms of the profile, each with a factor that is 1 at first.  The factors are found
by recursive least squares with a prior: as certain as calibration is, and vaguer where there was none.  Old samples
fade, so an engine that changes is followed; the variance never exceeds the prior's, so silence forgets no more than
was known at first.
Trade-off.  Waiting inside an engine looks like a slow engine.  It only ever adds, so of the prefills of one step those
that were fastest for their length count.
Factors that only fit together move together: where one reaches its bound, cutting it off alone would leave the other
half of the move, which leads away from what was observed.  So the move goes to the bounds as the covariance has it.
Invariants.  Factors stay within `SLOWEST` and its inverse; no sample that is not a finite time is taken; a sample
never takes the expected time further from itself.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from inferplane_engine.timing import Link, TimingProfile
from inferplane_planner.core.bounded import within
from inferplane_planner.core.demand import Floats
from inferplane_planner.core.predict import Pair
from inferplane_planner.core.times import EngineTimes

SLOWEST = 20.0
"""The most that an engine may differ from its prior, either way."""
CALIBRATED, GUESSED = 0.1, 0.5
"""Relative standard deviations of a prior's terms: measured on this engine, or taken from a table."""
_NOISE = 0.15
"""Relative standard deviation of one observed time."""
_FADE = 0.9
"""Weight that the samples of one step have after the next one: those of a step are alike, and so count together."""
_FASTEST = 0.25
"""Share of a step's prefills that are taken as not having waited."""


class Part(StrEnum):
    """What a sample is about."""

    PREFILL = "prefill"
    DECODE = "decode"
    TRANSFER = "transfer"


@dataclass(frozen=True, slots=True)
class Learned:
    """One observed time, or a mean of many, in seconds; tokens where not said otherwise."""

    part: Part
    seconds: float
    tokens: float = 0.0
    """PREFILL: uncached, DECODE: KV of the whole batch, TRANSFER: moved."""
    cached: float = 0.0
    batch: float = 1.0
    """Sequences in the batch, for DECODE."""


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """Factors of the terms of one part: mean float64[n], covariance float64[n, n]."""

    mean: Floats
    covariance: Floats
    prior_variance: float

    @classmethod
    def of_prior(cls, terms: int, deviation: float) -> "Factors":
        return cls(np.ones(terms), np.eye(terms) * deviation**2, deviation**2)

    def observe(self, terms: Floats, seconds: float) -> "Factors":
        """Take the observation that terms of that many seconds, scaled, take `seconds` together."""
        total = float(terms.sum())
        if not (math.isfinite(seconds) and seconds > 0 and math.isfinite(total) and total > 0):
            return self
        shares, found = terms / total, min(SLOWEST, max(1.0 / SLOWEST, seconds / total))
        spread = self.covariance
        expected = float(shares @ self.mean)
        noise = (_NOISE * max(expected, 1.0 / SLOWEST)) ** 2
        gain = spread @ shares / (float(shares @ spread @ shares) + noise)
        covariance = spread - np.outer(gain, shares @ spread)
        covariance = (covariance + covariance.T) / 2.0
        mean = within(self.mean + gain * (found - expected), covariance, 1.0 / SLOWEST, SLOWEST)
        closer = abs(float(shares @ mean) - found) <= abs(expected - found)
        return Factors(mean if closer else self.mean, covariance, self.prior_variance)

    def deviation(self, terms: Floats) -> float:
        """Return the standard deviation of the time, relative to it."""
        scaled = float(terms @ self.mean)
        return math.sqrt(max(0.0, float(terms @ self.covariance @ terms))) / scaled if scaled > 0 else 0.0

    def faded(self) -> "Factors":
        """Return what is left of it after a step, no direction vaguer than the prior scaled by what was found."""
        grown: Floats = self.covariance / _FADE
        bound = self.prior_variance * max(1.0, float((self.mean**2).max()))
        largest = float(np.linalg.eigvalsh(grown)[-1])
        return replace(self, covariance=grown * min(1.0, bound / largest) if largest > 0 else grown)


@dataclass(frozen=True, slots=True, eq=False)
class EngineModel:
    """Engines of both pools; in an aggregated service both are the same."""

    prefill: EngineTimes
    decode: EngineTimes
    deviation: float = GUESSED
    """Relative standard deviation of the prior."""
    prefill_factors: Factors | None = None
    decode_factors: Factors | None = None
    transfer_factors: Factors | None = None

    def learn(self, samples: tuple[Learned, ...]) -> "EngineModel":
        """Return the model that also knows these samples."""
        model = self
        for part in {sample.part for sample in samples}:
            model = model.having(part, model.factors(part).faded())
        for sample in (*self._fastest_prefills(samples), *(it for it in samples if it.part is not Part.PREFILL)):
            model = model.having(sample.part, model.factors(sample.part).observe(model.terms(sample), sample.seconds))
        return model

    def having(self, part: Part, factors: Factors) -> "EngineModel":
        """Return the same with other factors of one part."""
        if part is Part.PREFILL:
            return replace(self, prefill_factors=factors)
        if part is Part.DECODE:
            return replace(self, decode_factors=factors)
        return replace(self, transfer_factors=factors)

    def factors(self, part: Part) -> Factors:
        found = {
            Part.PREFILL: self.prefill_factors,
            Part.DECODE: self.decode_factors,
            Part.TRANSFER: self.transfer_factors,
        }[part]
        return Factors.of_prior(2, self.deviation) if found is None else found

    def terms(self, sample: Learned) -> Floats:
        """Return the prior's seconds: what does not depend on the size, and what does."""
        if sample.part is Part.TRANSFER:
            link = self.prefill.profile.link
            moved = sample.tokens * self.prefill.profile.kv_bytes_per_token / link.bytes_per_s
            return np.array([link.latency_s, moved])
        if sample.part is Part.DECODE:
            batch = max(1.0, sample.batch)
            return _split(self.decode.decode_step_s(batch, max(0.0, sample.tokens)), self.decode.fixed_s(batch))
        asked = np.array([max(1.0, sample.tokens)])
        whole = float(self.prefill.prefill_s(asked, np.array([max(0.0, sample.cached)]))[0])
        chunks = float(self.prefill.chunks(asked)[0])
        return _split(whole, chunks * self.prefill.fixed_s(float(asked[0]) / chunks))

    def seconds(self, sample: Learned) -> float:
        """Return the time that is expected now for what a sample is about."""
        return float(self.terms(sample) @ self.factors(sample.part).mean)

    def pair(self, *, deviations: float = 0.0) -> Pair:
        """Return the engines' times, each of them so many standard deviations slower than expected."""
        step = self._scaled(Part.DECODE, deviations, typical=Learned(Part.DECODE, 0.0, 32_000.0, batch=16.0))
        fill = self._scaled(Part.PREFILL, deviations, typical=Learned(Part.PREFILL, 0.0, 2_000.0))
        move = self._scaled(Part.TRANSFER, deviations, typical=Learned(Part.TRANSFER, 0.0, 2_000.0))
        link = self.prefill.profile.link
        moved = Link(link.latency_s * move[0], link.bytes_per_s / move[1])
        prefill = replace(_sized(self.prefill.profile, *fill), link=moved)
        decode = replace(_sized(self.decode.profile, *step), link=moved)
        return Pair(
            prefill=replace(self.prefill, profile=prefill),
            decode=replace(self.decode, profile=decode, prefill_profile=prefill),
        )

    def uncertainty(self, sample: Learned) -> float:
        """Return the relative standard deviation of the time that is expected."""
        return self.factors(sample.part).deviation(self.terms(sample))

    def _scaled(self, part: Part, deviations: float, typical: Learned) -> tuple[float, float]:
        factors = self.factors(part)
        slower = 1.0 + deviations * factors.deviation(self.terms(typical))
        return float(factors.mean[0]) * slower, float(factors.mean[1]) * slower

    def _fastest_prefills(self, samples: tuple[Learned, ...]) -> list[Learned]:
        found = [it for it in samples if it.part is Part.PREFILL and it.seconds > 0 and math.isfinite(it.seconds)]
        found.sort(key=lambda it: it.seconds / self.seconds(it))
        return found[: math.ceil(len(found) * _FASTEST)]


def _split(whole: float, fixed: float) -> Floats:
    return np.array([min(whole, fixed), max(0.0, whole - fixed)])


def _sized(profile: TimingProfile, fixed: float, growing: float) -> TimingProfile:
    """Scale what every step costs by one factor and what size adds by another."""
    return replace(
        profile,
        step_overhead_s=profile.step_overhead_s * fixed,
        weights_s=profile.weights_s * fixed,
        token_compute_s=profile.token_compute_s * growing,
        attention_pair_s=profile.attention_pair_s * growing,
        kv_token_s=profile.kv_token_s * growing,
        sequence_s=profile.sequence_s * growing,
    )
