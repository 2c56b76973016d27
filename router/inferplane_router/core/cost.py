"""What serving a request somewhere costs, in seconds: the models behind the choice and how they learn.

Problem: prefix hits, queues, transfers and batch sizes must be weighed against each other and against the SLO.
Idea: everything is time.  Cost = priority x E[overrun of the TTFT and TPOT limits] + marginal delay to others + a
little of the request's own latency, so that below the limits faster is still better.  Delay to others counts in full
where they are about to miss their limits, and a little everywhere, since it is capacity.
Trade-off: linear models per pool (`learning`), one factor per target for what sets it apart, uniform instead of normal
errors (no transcendental function in the inner loop).
Invariant: every term is finite and not negative.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from inferplane_router.core.learning import LinearModel


@dataclass(frozen=True, slots=True)
class CostSettings:
    """Priors and weights; times in seconds, tokens one by one."""

    prefill_base_s: float = 0.01
    prefill_token_s: float = 5e-5
    prefill_attention_s: float = 2e-10
    """Per uncached token and token of its context."""
    step_base_s: float = 0.01
    step_request_s: float = 1e-4
    step_context_s: float = 2e-8
    """Per token of all contexts in the batch."""
    transfer_base_s: float = 0.005
    transfer_token_s: float = 2e-6
    host_token_s: float = 5e-6
    disk_token_s: float = 2e-5
    remote_token_s: float = 2e-5
    """Loading one token's KV from a lower tier, until a worker says what it takes there."""
    own_latency: float = 0.5
    """Weight of the request's own TTFT below its limit."""
    others_floor: float = 0.05
    """Weight of delay to others that are far from their limits."""
    spread_floor_s: float = 0.005
    output_tokens: float = 256.0
    """Expected answer where the client set no bound and nothing was learned."""
    near_s: float = 0.001
    near_share: float = 0.02
    """Costs this close to the best, absolutely or relatively, are a tie."""
    factor_least: float = 0.5
    factor_most: float = 4.0
    factor_gain: float = 0.1
    """Bounds and speed of the factor that sets a target apart from its pool."""


@dataclass(slots=True)
class PoolModel:
    """Speeds of one pool's engines."""

    settings: CostSettings
    prefill: LinearModel = field(init=False)
    step: LinearModel = field(init=False)

    def __post_init__(self) -> None:
        s = self.settings
        self.prefill = LinearModel((s.prefill_base_s, s.prefill_token_s, s.prefill_attention_s))
        self.step = LinearModel((s.step_base_s, s.step_request_s, s.step_context_s))


def prefill_features(ahead_tokens: float, uncached_tokens: float, cached_tokens: float) -> np.ndarray:
    """Describe a prefill: what waits before it, its own tokens and the attention between them."""
    attention = uncached_tokens * (cached_tokens + uncached_tokens / 2)
    return np.array((1.0, ahead_tokens + uncached_tokens, attention))


def step_features(requests: float, context_tokens: float) -> np.ndarray:
    """Describe one decode step of a batch."""
    return np.array((1.0, requests, context_tokens))


class TransferModels:
    """Transfer time per (prefill zone, decode zone)."""

    def __init__(self, settings: CostSettings) -> None:
        self._settings = settings
        self._models: dict[tuple[int, int], LinearModel] = {}
        self.links = self._unknown(1)
        """Seconds of a transfer, [0] at all and [1] per token, by zones; replaced: decision records keep theirs."""

    def reserve(self, zones: int) -> None:
        """Make room for zones 0..zones-1."""
        known = self.links.shape[1]
        if zones > known:
            links = self._unknown(zones)
            links[:, :known, :known] = self.links
            self.links = links

    def observe(self, source: int, destination: int, tokens: float, seconds: float) -> None:
        key = (source, destination)
        if (model := self._models.get(key)) is None:
            prior = (self._settings.transfer_base_s, self._settings.transfer_token_s)
            model = self._models[key] = LinearModel(prior)
        model.observe(np.array((1.0, tokens)), seconds)
        links = self.links.copy()
        links[:, source, destination] = model.coefficients
        self.links = links

    def _unknown(self, zones: int) -> NDArray[np.float64]:
        links = np.empty((2, zones, zones))
        links[0], links[1] = self._settings.transfer_base_s, self._settings.transfer_token_s
        return links
