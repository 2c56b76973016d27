"""An engine's times over a whole sample of requests at once.

The formulas are `inferplane_engine.timing`'s, which router and simulated engine use; here they are taken over arrays.
"""

import math
from dataclasses import dataclass

import numpy as np

from inferplane_engine.timing import TimingProfile, attention_pairs, decode_step_s, step_s, transfer_s
from inferplane_planner.core.demand import Floats


@dataclass(frozen=True, slots=True)
class EngineTimes:
    """One worker: its engine's coefficients and limits."""

    profile: TimingProfile
    chunk_tokens: int = 8192
    """Tokens that one step computes at most."""
    max_sequences: int = 256
    prefill_profile: TimingProfile | None = None
    """Coefficients of prefills where they were learned apart from decoding; None: the same."""

    def chunks(self, uncached: Floats) -> Floats:
        """Return the steps that prefilling each prompt takes; at least one, since the last token is always computed."""
        return np.maximum(1.0, np.ceil(uncached / self.chunk_tokens))

    def prefill_s(self, uncached: Floats, cached: Floats) -> Floats:
        """Return the seconds that each prompt takes alone."""
        chunks = self.chunks(uncached)
        tokens = np.maximum(1.0, uncached)
        # One step of the mean chunk, as often as there are chunks; the pairs of all chunks are those of the whole.
        pairs = attention_pairs(tokens, cached)
        alone: Floats = chunks * step_s(
            self.prefill_profile or self.profile,
            tokens=tokens / chunks,
            prefill_pairs=pairs / chunks,
            decode_kv_tokens=np.zeros_like(tokens),
            sequences=np.ones_like(tokens),
        )
        return alone

    def fixed_s(self, tokens: float) -> float:
        """Return the part of a step of so many tokens that does not grow with them."""
        bound_by_weights = tokens * self.profile.token_compute_s <= self.profile.weights_s
        return self.profile.step_overhead_s + (self.profile.weights_s if bound_by_weights else 0.0)

    def decode_step_s(self, batch: float, kv_tokens: float) -> float:
        return float(decode_step_s(self.profile, batch=batch, kv_tokens=kv_tokens))

    @property
    def crowd(self) -> float:
        """Return from how many sequences on arithmetic takes a decode step longer than reading the weights."""
        each = self.profile.token_compute_s
        return self.profile.weights_s / each if each > 0 else math.inf

    def transfer_s(self, tokens: Floats) -> Floats:
        arrived: Floats = np.where(tokens > 0, transfer_s(self.profile, tokens=tokens), 0.0)
        return arrived

    def most_sequences(self, kv_each: float) -> float:
        """Return how many sequences of that many KV tokens run at once."""
        return min(float(self.max_sequences), self.profile.kv_capacity_tokens / max(1.0, kv_each))
