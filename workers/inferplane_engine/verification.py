"""What of a service nobody has run, so that its status can say so instead of promising it.

The same list for people is docs/verified.md; whoever runs something for the first time takes it out of both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from inferplane_api.v1alpha1.engine import Device, EngineType
from inferplane_api.v1alpha1.kv_store import TierMedium


class Degree(StrEnum):
    CONTRACT_ONLY = "ContractOnly"
    """Tested against a description or a fake of the other side."""
    NEVER_RUN = "NeverRun"


@dataclass(frozen=True, slots=True)
class Unverified:
    """One thing in use that was not run, and how far it was tested."""

    what: str
    degree: Degree


@dataclass(frozen=True, slots=True)
class Use:
    """What a pool uses of its engine."""

    engine: EngineType
    device: Device
    hands_over: bool = False
    devices: int = 1
    """Of one worker, all kinds of parallelism together."""
    ranks: int = 1
    nodes: int = 1
    """That one worker is spread over."""
    adapters: bool = False
    expert: bool = False
    quantised_kv: bool = False
    speculation: bool = False
    slices: bool = False
    """Parts of devices (MIG)."""
    claims: bool = False
    """Devices by dynamic resource allocation."""
    media: frozenset[TierMedium] = frozenset()
    """Of the KVStore's tiers."""


SGLANG: Final = Unverified("SGLang", Degree.CONTRACT_ONLY)
TRANSFER: Final = Unverified("KV transfer between devices", Degree.NEVER_RUN)
RANKS: Final = Unverified("data-parallel ranks", Degree.CONTRACT_ONLY)
PARALLEL: Final = Unverified("tensor or pipeline parallelism", Degree.CONTRACT_ONLY)
NODES: Final = Unverified("a worker on several nodes", Degree.NEVER_RUN)
ADAPTERS: Final = Unverified("LoRA adapters", Degree.CONTRACT_ONLY)
EXPERT: Final = Unverified("expert parallelism", Degree.CONTRACT_ONLY)
QUANTISED_KV: Final = Unverified("quantised KV blocks", Degree.CONTRACT_ONLY)
SPECULATION: Final = Unverified("speculative decoding", Degree.CONTRACT_ONLY)
SLICES: Final = Unverified("slices of a device", Degree.NEVER_RUN)
MOONCAKE: Final = Unverified("Mooncake Store behind an engine", Degree.CONTRACT_ONLY)
LMCACHE: Final = Unverified("LMCache behind an engine", Degree.CONTRACT_ONLY)
HOST_CACHE: Final = Unverified("tiers of SGLang's own cache", Degree.CONTRACT_ONLY)
CLAIMS: Final = Unverified("devices by resource claims", Degree.NEVER_RUN)
DEVICES: Final[Mapping[Device, Unverified]] = MappingProxyType(
    {
        Device.CUDA: Unverified("CUDA devices", Degree.NEVER_RUN),
        Device.ROCM: Unverified("ROCm devices", Degree.NEVER_RUN),
        Device.XPU: Unverified("XPU devices", Degree.NEVER_RUN),
        Device.NPU: Unverified("Ascend devices", Degree.NEVER_RUN),
    }
)
KNOWN: Final = (
    SGLANG,
    *DEVICES.values(),
    TRANSFER,
    RANKS,
    PARALLEL,
    NODES,
    ADAPTERS,
    EXPERT,
    QUANTISED_KV,
    SPECULATION,
    SLICES,
    CLAIMS,
    MOONCAKE,
    LMCACHE,
    HOST_CACHE,
)
"""Everything that `unverified` can say; docs/verified.md has a line for each."""


def unverified(use: Use) -> tuple[Unverified, ...]:
    """Return what nobody has run; empty when a test runs all of it with real programs."""
    if use.engine is EngineType.SIM:
        return ()
    found = [SGLANG] if use.engine is EngineType.SGLANG else []
    if use.device in DEVICES:
        found.append(DEVICES[use.device])
        found += [TRANSFER] if use.hands_over else []
    uses = (
        (RANKS, use.ranks > 1),
        (PARALLEL, use.devices > use.ranks),
        (NODES, use.nodes > 1),
        (ADAPTERS, use.adapters and not (use.engine is EngineType.VLLM and use.device is Device.CPU)),
        (EXPERT, use.expert),
        (QUANTISED_KV, use.quantised_kv),
        (SPECULATION, use.speculation),
        (SLICES, use.slices),
        (CLAIMS, use.claims),
        (MOONCAKE, TierMedium.MOONCAKE in use.media),
        (LMCACHE, TierMedium.LMCACHE in use.media),
        (HOST_CACHE, bool(use.media) and use.engine is EngineType.SGLANG),
    )
    return (*found, *(what for what, used in uses if used))
