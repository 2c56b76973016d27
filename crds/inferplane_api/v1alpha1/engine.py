"""The engine of a service: which program, how it is started, and what P and D must agree on."""

import re
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator

from inferplane_api.sim_faults import SimFaultKind
from inferplane_api.v1alpha1.engine_names import Device, EngineType
from inferplane_api.v1alpha1.lora import LoraOptions
from inferplane_api.v1alpha1.speculation import Speculation
from inferplane_api.v1alpha1.units import ByteCount, Duration
from inferplane_api.v1alpha1.wire import FORM, INT32_MAX, Finding, WireModel, counted_in, invalid

__all__ = ["Arguments", "Device", "EngineSpec", "EngineType", "Environment", "SimFault", "SimOptions"]

_CPU_BLOCK: Final = 32
"""vLLM's CPU attention kernels take blocks of multiples of this."""
_CPU_MLA_BLOCK: Final = 16
"""The one block size of vLLM's CPU kernel for latent attention."""
_ENVIRONMENT_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def _environment(value: dict[str, str]) -> dict[str, str]:
    findings = [
        Finding(name, f"{name!r} is not a variable's name", "use letters, digits and '_', not beginning with a digit")
        for name in value
        if not _ENVIRONMENT_NAME.fullmatch(name)
    ]
    findings += [
        Finding(name, "the name is reserved", "variables that begin with INFERPLANE_ are set by the operator")
        for name in value
        if name.startswith("INFERPLANE_")
    ]
    if findings:
        raise invalid(*findings)
    return value


Environment = Annotated[
    dict[str, Annotated[str, Field(max_length=32_768)]],
    Field(max_length=128, json_schema_extra={FORM: "environment"}),
    AfterValidator(_environment),
]
Arguments = Annotated[tuple[Annotated[str, Field(max_length=4096)], ...], Field(max_length=256)]


class SimFault(WireModel):
    """One seeded failure of the simulated engine."""

    kind: SimFaultKind = Field(description="What goes wrong.")
    probability: float = Field(
        default=0.0, ge=0, le=1, description="Chance per opportunity (step, batch, transfer); 0: once."
    )
    after_s: Duration = Field(default=0.0, description="Simulated time before which it does not happen.")
    duration_s: Duration = Field(default=0.0, description="How long a hang or slowness lasts; 0s: for ever.")
    factor: float = Field(default=1.0, gt=0, description="How many times slower, for `slow`.")
    at_request: int | None = Field(
        default=None, ge=1, le=INT32_MAX, description="The nth request that meets it, from 1."
    )
    status: int = Field(default=500, ge=400, le=599, description="HTTP status of the answer, for `error`.")


class SimOptions(WireModel):
    """Options of the simulated engine."""

    profile: str = Field(
        default="",
        max_length=64,
        description="Accelerator profile of its timing; default: the pool's accelerator class, if it has one.",
    )
    speed: float = Field(default=1.0, gt=0, le=10_000, description="Simulated seconds per wall second.")
    seed: int = Field(default=0, ge=0, le=2**63 - 1, description="Seed of weights and of faults.")
    faults: tuple[SimFault, ...] = Field(default=(), max_length=64, description="Failures to inject.")


class EngineSpec(WireModel):
    type: EngineType = Field(default=EngineType.VLLM, description="Which engine serves the model.")
    image: str = Field(default="", max_length=512, description="Container image; default: the release's tested one.")
    command: Arguments = Field(
        default=(), description="Program that takes the engine's arguments; default: the stock image's own."
    )
    device: Device = Field(default=Device.CUDA, description="What it computes on.")
    dtype: str = Field(default="auto", min_length=1, max_length=32, description="Data type of weights and activations.")
    kv_cache_dtype: str = Field(
        default="auto", min_length=1, max_length=32, description="Data type of KV blocks, equal in P and D."
    )
    block_size: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="Tokens per KV block, equal in P and D; default: by device. It cannot be changed later.",
        json_schema_extra=counted_in("tokens"),
    )
    max_model_len: int | None = Field(
        default=None,
        ge=1,
        le=INT32_MAX,
        description="Longest prompt plus answer, in tokens; default: the model's own limit.",
        json_schema_extra=counted_in("tokens"),
    )
    kv_cache_memory_bytes: ByteCount | None = Field(
        default=None, description="Memory of the KV cache per device; default: what the engine finds free."
    )
    max_num_seqs: int | None = Field(default=None, ge=1, le=INT32_MAX, description="Most requests in one batch.")
    max_num_batched_tokens: int | None = Field(
        default=None,
        ge=1,
        le=INT32_MAX,
        description="Most tokens in one step.",
        json_schema_extra=counted_in("tokens"),
    )
    prefix_caching: bool = Field(default=True, description="Keep KV blocks for later prompts with the same prefix.")
    speculation: Speculation | None = Field(default=None, description="Guess tokens ahead and check them in one step.")
    args: Arguments = Field(default=(), description="More arguments, added last, as the engine documents them.")
    env: Environment = Field(default_factory=dict, description="More environment variables, added last.")
    startup_timeout_s: Duration = Field(
        default=1800.0, description="An engine that is not ready after this is started anew."
    )
    shm_size_bytes: ByteCount = Field(
        default=2 * 1024**3, description="Size of /dev/shm, which the processes of one engine share."
    )
    lora: LoraOptions | None = Field(
        default=None, description="Room for LoRA adapters; default: there is some as soon as an adapter exists."
    )
    sim: SimOptions | None = Field(default=None, description="Options of the simulated engine.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        findings: list[Finding] = []
        if self.sim is not None and self.type is not EngineType.SIM:
            findings.append(Finding("sim", f"engine.type is {self.type}", "remove it, or set engine.type to sim"))
        if self.speculation is not None and self.type is EngineType.SIM:
            findings.append(Finding("speculation", "the simulated engine guesses nothing", "remove it"))
        if self.startup_timeout_s <= 0:
            findings.append(Finding("startupTimeout", "it must be longer than 0s", 'try "30m"'))
        findings += block_size_findings(self, self.block_size, "blockSize")
        if findings:
            raise invalid(*findings)
        return self

    @property
    def effective_block_size(self) -> int:
        """Tokens per block: always told to the engine, so that engine and router cannot differ."""
        if self.block_size is not None:
            return self.block_size
        return 128 if self.type is EngineType.VLLM and self.device is Device.CPU else 16


def block_size_findings(engine: EngineSpec, block_size: int | None, field: str) -> list[Finding]:
    """Return what is wrong with `block_size` for `engine`; None is the default, which always fits."""
    if block_size is None or engine.type is not EngineType.VLLM or engine.device is not Device.CPU:
        return []
    if block_size % _CPU_BLOCK == 0 or block_size == _CPU_MLA_BLOCK:
        return []
    return [Finding(field, f"{block_size} does not fit vLLM's CPU kernels", f"use a multiple of {_CPU_BLOCK}")]
