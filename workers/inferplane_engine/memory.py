"""Whether a model fits on its devices, from what can be known before anything is started.

Problem: a model that is too large fails after half an hour of downloading, with an allocator's words.
Idea: bytes of weights on one device, the KV blocks of one longest request, and what an engine needs besides, held
against the device's memory.  Trade-off: activations and graphs depend on the engine; they are a flat share, so only a
model that clearly does not fit is refused.
Invariant: nothing is refused of which a side is not known.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

SHARE: Final = 0.92
"""Of a device's memory that engines use when nobody says otherwise (vLLM 0.92, SGLang about as much)."""
_OVERHEAD_BYTES: Final = 1024**3
"""Activations, graphs and the device's own context: what is left out where it is more errs to the engine's side."""
_GIB: Final = 1024**3
_BITS: Final[Mapping[str, int]] = {
    "F64": 64,
    "I64": 64,
    "F32": 32,
    "I32": 32,
    "F16": 16,
    "BF16": 16,
    "I16": 16,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "I8": 8,
    "U8": 8,
    "F4": 4,
}
"""Of one value, by the safetensors format's names."""
_KV_BYTES: Final[Mapping[str, float]] = {
    "float32": 4,
    "float": 4,
    "float16": 2,
    "half": 2,
    "bfloat16": 2,
    "bf16": 2,
    "auto": 2,
    "nvfp4": 0.5625,
}


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a model says of itself."""

    weights_bytes: int
    layers: int
    kv_values_per_token: int
    """Values that one layer keeps for one token, on all devices together."""
    kv_heads: int
    """By which they can be spread; 1: every device keeps all of them."""
    max_length: int


@dataclass(frozen=True, slots=True)
class Placement:
    """How it is spread, and what a device has."""

    device_bytes: int
    tensor: int = 1
    pipeline: int = 1
    max_length: int = 0
    """Of one request; 0: the model's own limit."""
    kv_type: str = "auto"
    share: float = SHARE


@dataclass(frozen=True, slots=True)
class Fit:
    """Bytes on one device."""

    weights: int
    kv: int
    available: int

    @property
    def needed(self) -> int:
        return self.weights + self.kv + _OVERHEAD_BYTES

    @property
    def fits(self) -> bool:
        return self.needed <= self.available

    def __str__(self) -> str:
        return (
            f"{gib(self.weights)} of weights, {gib(self.kv)} for one request of the full length and"
            f" {gib(_OVERHEAD_BYTES)} besides need {gib(self.needed)} on each device, of which the engine may use"
            f" {gib(self.available)}"
        )


def facts_of(config: Mapping[str, Any], parameters: object) -> ModelFacts | None:
    """Read a model's config.json, and its number of values by type; None if either does not say enough.

    Models of several kinds of attention keep less than one of a kind: they are not weighed.
    """
    text: object = config.get("text_config")
    shape: Mapping[str, Any] = cast("Mapping[str, Any]", text) if isinstance(text, dict) else config
    weights = _weights_bytes(parameters)
    layers, heads = _number(shape, "num_hidden_layers"), _number(shape, "num_attention_heads")
    length = _number(shape, "max_position_embeddings")
    if not (weights and layers and heads and length) or _is_hybrid(shape):
        return None
    if latent := _number(shape, "kv_lora_rank"):
        return ModelFacts(weights, layers, latent + _number(shape, "qk_rope_head_dim"), 1, length)
    kv_heads = _number(shape, "num_key_value_heads") or heads
    width = _number(shape, "head_dim") or _number(shape, "hidden_size") // heads
    return ModelFacts(weights, layers, 2 * kv_heads * width, kv_heads, length) if width else None


def fit(facts: ModelFacts, placement: Placement) -> Fit:
    """Weigh a model on one of its devices."""
    devices = placement.tensor * placement.pipeline
    length = placement.max_length or facts.max_length
    values = length * math.ceil(facts.layers / placement.pipeline) * facts.kv_values_per_token
    spread = min(placement.tensor, facts.kv_heads)
    return Fit(
        weights=facts.weights_bytes // devices,
        kv=int(values * _KV_BYTES.get(placement.kv_type, 1) / spread),
        available=int(placement.device_bytes * placement.share),
    )


def least_tensor(facts: ModelFacts, placement: Placement, *, most: int) -> int:
    """Return the smallest TP, of those that double, on which the model fits; 0 if none up to `most` does."""
    tensor = placement.tensor
    while tensor <= most:
        wider = Placement(
            placement.device_bytes,
            tensor,
            placement.pipeline,
            placement.max_length,
            placement.kv_type,
            placement.share,
        )
        if fit(facts, wider).fits:
            return tensor
        tensor *= 2
    return 0


def gib(count: float) -> str:
    return f"{count / _GIB:.1f} GiB"


def _weights_bytes(parameters: object) -> int:
    if not isinstance(parameters, dict):
        return 0
    counts = cast("dict[str, object]", parameters)
    if not all(name in _BITS and isinstance(count, int) for name, count in counts.items()):
        return 0
    return sum(_BITS[name] * cast("int", count) // 8 for name, count in counts.items())


def _is_hybrid(shape: Mapping[str, Any]) -> bool:
    kinds: object = shape.get("layer_types")
    if isinstance(kinds, list) and len(set(cast("list[object]", kinds))) > 1:
        return True
    windowed = bool(_number(shape, "sliding_window")) and shape.get("use_sliding_window") is not False
    return windowed or any(key.startswith(("mamba_", "linear_", "ssm_")) for key in shape)


def _number(shape: Mapping[str, Any], key: str) -> int:
    value: object = shape.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
