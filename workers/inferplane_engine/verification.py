"""What of a service nobody has run, so that its status can say so instead of promising it.

The same list for people is docs/verified.md; whoever runs something for the first time takes it out of both.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from inferplane_api.v1alpha1.engine import Device, EngineType


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
    adapters: bool = False


_DEVICES: Final = {Device.CUDA: "CUDA devices", Device.ROCM: "ROCm devices", Device.XPU: "XPU devices"}


def unverified(use: Use) -> tuple[Unverified, ...]:
    """Return what nobody has run; empty when a test runs all of it with real programs."""
    if use.engine is EngineType.SIM:
        return ()
    found: list[Unverified] = []
    if use.engine is EngineType.SGLANG:
        found.append(Unverified("SGLang", Degree.CONTRACT_ONLY))
    if use.device in _DEVICES:
        found.append(Unverified(_DEVICES[use.device], Degree.NEVER_RUN))
        if use.hands_over:
            found.append(Unverified("KV transfer between devices", Degree.NEVER_RUN))
    if use.ranks > 1:
        found.append(Unverified("data-parallel ranks", Degree.CONTRACT_ONLY))
    if use.devices > use.ranks:
        found.append(Unverified("tensor or pipeline parallelism", Degree.CONTRACT_ONLY))
    if use.adapters:
        found.append(Unverified("LoRA adapters", Degree.CONTRACT_ONLY))
    return tuple(found)
