"""Engine command lines: a typed `LaunchSpec` in, arguments and environment out; pure."""

from inferplane_api.v1alpha1.engine import EngineType
from inferplane_engine.launch.sglang import sglang_launch
from inferplane_engine.launch.sim import sim_launch
from inferplane_engine.launch.spec import (
    AdapterRoom,
    Addresses,
    EngineRole,
    FleetKind,
    FleetStore,
    Group,
    Guesses,
    HostCache,
    Launch,
    LaunchError,
    LaunchSpec,
    StoreLink,
)
from inferplane_engine.launch.vllm import rank_endpoint, vllm_launch

__all__ = [
    "AdapterRoom",
    "Addresses",
    "EngineRole",
    "FleetKind",
    "FleetStore",
    "Group",
    "Guesses",
    "HostCache",
    "Launch",
    "LaunchError",
    "LaunchSpec",
    "StoreLink",
    "launch",
    "rank_endpoint",
    "sglang_launch",
    "sim_launch",
    "vllm_launch",
]


def launch(spec: LaunchSpec) -> Launch:
    """Build the command of one engine.  Raises LaunchError."""
    if spec.engine is EngineType.VLLM:
        return vllm_launch(spec)
    if spec.engine is EngineType.SGLANG:
        return sglang_launch(spec)
    return sim_launch(spec)
