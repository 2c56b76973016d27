"""Accelerator profiles: coefficients of the timing model, derived from data sheets by a roofline.

The derivation, for a model with P parameters, L layers, hidden width H (query heads x head width), K key/value heads of
width D, on N accelerators with F dense bf16 FLOP/s, B bytes/s of memory bandwidth and M bytes of memory each:
  weights_s        = 2 P / (N B beta)           two bytes a weight, each read once a step
  token_compute_s  = 2 P / (N F mu)             a multiply and an add per weight
  attention_pair_s = 4 L H / (N F nu)           QK^T and AV, two FLOP each
  kv_token_s       = 4 L K D / (N B beta)       K and V, two bytes each
  kv_capacity      = (0.9 N M - 2 P) / (4 L K D)
Efficiencies: beta 0.80 of the memory bandwidth; mu 0.55 and nu 0.35 of the arithmetic peak, the range that published
kernel measurements fall in.  They are priors: calibration against a running engine replaces them.

Sources of the peaks: the makers' data sheets.  L40S 362 TFLOP/s (dense bf16), 864 GB/s, 48 GB; A100-SXM-80GB 312,
2039, 80; H100-SXM 989, 3350, 80; H200-SXM 989, 4800, 141.  Links: 100 Gbit/s (12.5 GB/s) for L40S, 200 Gbit/s (25
GB/s) for A100, 400 Gbit/s (50 GB/s) for H100 and H200, at 80 %.  Tensor parallelism adds an all-reduce twice a layer,
taken into the overhead.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from inferplane_engine.timing import Link, StartUp, TimingProfile

_BYTES_PER_VALUE = 2
_MEMORY_EFFICIENCY = 0.80
_LINEAR_EFFICIENCY = 0.55
_ATTENTION_EFFICIENCY = 0.35
_LINK_EFFICIENCY = 0.80
_MEMORY_SHARE = 0.90
_STEP_OVERHEAD_S = 1.0e-3
_ALL_REDUCE_S = 20e-6
_SEQUENCE_S = 8e-6
_DISK_BYTES_PER_S = 2.0e9


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What a dense transformer costs."""

    name: str
    parameters: float
    layers: int
    query_width: int
    kv_heads: int
    head_width: int

    @property
    def kv_bytes_per_token(self) -> int:
        return 2 * _BYTES_PER_VALUE * self.layers * self.kv_heads * self.head_width


@dataclass(frozen=True, slots=True)
class Accelerator:
    """Peaks of one device, per second and in bytes."""

    name: str
    flops: float
    memory_bytes_per_s: float
    memory_bytes: float
    link_bytes_per_s: float


MODELS: Mapping[str, ModelShape] = MappingProxyType(
    {
        "8b": ModelShape("8b", 8.03e9, 32, 4096, 8, 128),
        "70b": ModelShape("70b", 70.6e9, 80, 8192, 8, 128),
    }
)

ACCELERATORS: Mapping[str, Accelerator] = MappingProxyType(
    {
        "l40s": Accelerator("l40s", 362e12, 864e9, 48e9, 12.5e9),
        "a100": Accelerator("a100", 312e12, 2039e9, 80e9, 25e9),
        "h100": Accelerator("h100", 989e12, 3350e9, 80e9, 50e9),
        "h200": Accelerator("h200", 989e12, 4800e9, 141e9, 50e9),
    }
)


def derive(model: ModelShape, accelerator: Accelerator, tensor_parallel: int) -> TimingProfile:
    """Apply the roofline of this module's text."""
    weight_bytes = _BYTES_PER_VALUE * model.parameters
    flops = tensor_parallel * accelerator.flops
    bandwidth = tensor_parallel * accelerator.memory_bytes_per_s * _MEMORY_EFFICIENCY
    free_bytes = _MEMORY_SHARE * tensor_parallel * accelerator.memory_bytes - weight_bytes
    if free_bytes <= 0:
        raise ValueError(
            f"{model.name} does not fit on {tensor_parallel} x {accelerator.name}; raise the tensor parallelism"
        )
    all_reduce_s = 2 * model.layers * _ALL_REDUCE_S if tensor_parallel > 1 else 0.0
    return TimingProfile(
        name=f"{accelerator.name}-{model.name}" + (f"-tp{tensor_parallel}" if tensor_parallel > 1 else ""),
        step_overhead_s=_STEP_OVERHEAD_S + all_reduce_s,
        weights_s=weight_bytes / bandwidth,
        token_compute_s=2 * model.parameters / (flops * _LINEAR_EFFICIENCY),
        attention_pair_s=4 * model.layers * model.query_width / (flops * _ATTENTION_EFFICIENCY),
        kv_token_s=model.kv_bytes_per_token / bandwidth,
        sequence_s=_SEQUENCE_S,
        kv_bytes_per_token=model.kv_bytes_per_token,
        kv_capacity_tokens=int(free_bytes / model.kv_bytes_per_token),
        link=Link(latency_s=2e-3, bytes_per_s=accelerator.link_bytes_per_s * tensor_parallel * _LINK_EFFICIENCY),
        start_up=StartUp(process_s=20.0, weights_s=weight_bytes / _DISK_BYTES_PER_S, compile_s=40.0),
    )


CPU_TEST = TimingProfile(
    name="cpu-test",
    step_overhead_s=0.5e-3,
    weights_s=0.2e-3,
    token_compute_s=2e-6,
    attention_pair_s=1e-10,
    kv_token_s=1e-9,
    sequence_s=5e-6,
    kv_bytes_per_token=2048,
    kv_capacity_tokens=65_536,
    link=Link(latency_s=0.5e-3, bytes_per_s=1e9),
)
"""Made up, and fast: for tests and laptops, where the point is behaviour and not time."""


def _profiles() -> Mapping[str, TimingProfile]:
    sizes = (("8b", 1, ("l40s", "a100", "h100", "h200")), ("70b", 4, ("a100", "h100")), ("70b", 2, ("h200",)))
    derived = [derive(MODELS[model], ACCELERATORS[name], tp) for model, tp, names in sizes for name in names]
    return MappingProxyType({profile.name: profile for profile in (CPU_TEST, *derived)})


PROFILES: Mapping[str, TimingProfile] = _profiles()


def profile_named(name: str) -> TimingProfile:
    """Look a profile up; the error lists what there is."""
    try:
        return PROFILES[name]
    except KeyError:
        raise ValueError(f"unknown profile {name!r}; known: {', '.join(sorted(PROFILES))}") from None
