"""How long an engine takes: one step, one transfer, one start.

The problem: the planner, the router's prior and the simulated engine must agree on what a second of engine time buys.
The idea: a roofline.  A step reads the weights once (or is bound by arithmetic when many tokens share that read), reads
the KV of every sequence that attends, and pays a fixed overhead.  Prefill adds a quadratic term: token i of a prompt
attends to i others.
The trade-off: no kernel is modelled, only its two bounds scaled by an efficiency; the coefficients of a profile are
what calibration replaces.
The invariant: every function is pure and works on floats and on numpy arrays alike, with the same operations in the
same order, so a simulator that computes a thousand steps at once gets bit for bit the times of one that computes them
one by one.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:  # whoever only wants a profile's name does not pay for numpy
    import numpy as np
    from numpy.typing import NDArray

Number = TypeVar("Number", float, "NDArray[np.float64]")


@dataclass(frozen=True, slots=True)
class StartUp:
    """Seconds that each phase of an engine's start takes."""

    process_s: float = 0.0
    """Interpreter, imports, accelerator context."""
    weights_s: float = 0.0
    """Reading and placing the weights."""
    compile_s: float = 0.0
    """Kernels, graphs and the memory profile."""

    @property
    def total_s(self) -> float:
        return self.process_s + self.weights_s + self.compile_s


@dataclass(frozen=True, slots=True)
class Link:
    """A path for KV blocks between two engines."""

    latency_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class TimingProfile:
    """Coefficients of one engine: a model on an accelerator (or on a tensor-parallel group of them)."""

    name: str
    step_overhead_s: float
    """Scheduler, launch and sampling: paid by every step."""
    weights_s: float
    """Reading all weights once: the floor of a step that computes anything."""
    token_compute_s: float
    """Arithmetic for one token in the linear layers."""
    attention_pair_s: float
    """Arithmetic for one (query, key) pair in a prefill."""
    kv_token_s: float
    """Reading the KV of one token for one decoding sequence."""
    sequence_s: float
    """Per sequence and step: sampling and output handling."""
    kv_bytes_per_token: int
    kv_capacity_tokens: int
    """Tokens that fit in the accelerator's memory beside the weights."""
    link: Link
    start_up: StartUp = field(default_factory=StartUp)

    def scaled(self, factor: float) -> "TimingProfile":
        """Return the same engine, `factor` times as slow in every step and transfer."""
        return replace(
            self,
            step_overhead_s=self.step_overhead_s * factor,
            weights_s=self.weights_s * factor,
            token_compute_s=self.token_compute_s * factor,
            attention_pair_s=self.attention_pair_s * factor,
            kv_token_s=self.kv_token_s * factor,
            sequence_s=self.sequence_s * factor,
            link=Link(self.link.latency_s * factor, self.link.bytes_per_s / factor),
            start_up=StartUp(
                self.start_up.process_s * factor, self.start_up.weights_s * factor, self.start_up.compile_s * factor
            ),
        )


def attention_pairs(new_tokens: Number, context: Number) -> Number:
    """(query, key) pairs when `new_tokens` are computed after `context` others."""
    return new_tokens * context + new_tokens * (new_tokens + 1.0) * 0.5


def step_s(
    profile: TimingProfile, *, tokens: Number, prefill_pairs: Number, decode_kv_tokens: Number, sequences: Number
) -> Number:
    """Seconds for one step.

    `tokens`: new tokens of all sequences; `prefill_pairs`: see `attention_pairs`; `decode_kv_tokens`: sum of the
    context lengths of the decoding sequences; `sequences`: sequences in the batch.
    """
    compute = tokens * profile.token_compute_s
    # max(a, b) written with operators that floats and arrays share.
    linear = (compute + profile.weights_s + abs(compute - profile.weights_s)) * 0.5
    attention = prefill_pairs * profile.attention_pair_s + decode_kv_tokens * profile.kv_token_s
    return profile.step_overhead_s + linear + attention + sequences * profile.sequence_s


def prefill_s(profile: TimingProfile, *, uncached_tokens: float, cached_tokens: float, chunk_tokens: int) -> float:
    """Seconds to prefill alone, in chunks of `chunk_tokens`."""
    total, context, left = 0.0, cached_tokens, uncached_tokens
    while left > 0:
        chunk = min(left, float(chunk_tokens))
        total += step_s(
            profile, tokens=chunk, prefill_pairs=attention_pairs(chunk, context), decode_kv_tokens=0.0, sequences=1.0
        )
        context += chunk
        left -= chunk
    return total


def decode_step_s(profile: TimingProfile, *, batch: Number, kv_tokens: Number) -> Number:
    """Seconds for a step in which `batch` sequences decode one token each over `kv_tokens` tokens of KV together."""
    return step_s(profile, tokens=batch, prefill_pairs=batch * 0.0, decode_kv_tokens=kv_tokens, sequences=batch)


def transfer_s(profile: TimingProfile, *, tokens: Number, link: Link | None = None) -> Number:
    """Seconds until the KV of `tokens` tokens has arrived over `link` (the profile's own when None)."""
    path = profile.link if link is None else link
    return path.latency_s + tokens * float(profile.kv_bytes_per_token) / path.bytes_per_s
