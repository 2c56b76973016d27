"""What rendering needs beside the resources: images and programs of this release, or of this machine."""

import sys
from dataclasses import dataclass, field
from importlib import resources
from typing import Final

from inferplane_api.v1alpha1.engine import Device, EngineType
from inferplane_engine.launch import sglang, sim, vllm
from inferplane_operator.render.accelerators import Accelerators

AGENT_PROGRAM: Final = ("python", "-m", "inferplane_workers.agent")
FETCH_PROGRAM: Final = ("python", "-m", "inferplane_workers.fetch")
_VLLM_SERVER: Final = ("-m", "vllm.entrypoints.openai.api_server")
_VERSION: Final = "0.1.0"


def _engine_images() -> dict[tuple[EngineType, Device], str]:
    return {
        (EngineType.VLLM, Device.CUDA): "vllm/vllm-openai:v0.32.0",
        (EngineType.VLLM, Device.ROCM): "vllm/vllm-openai-rocm:v0.32.0",
        (EngineType.VLLM, Device.CPU): "vllm/vllm-openai-cpu:v0.32.0",
        (EngineType.SGLANG, Device.CUDA): "lmsysorg/sglang:v0.5.23",
    }


def _programs() -> dict[EngineType, tuple[str, ...]]:
    return {EngineType.VLLM: vllm.PROGRAM, EngineType.SGLANG: sglang.PROGRAM, EngineType.SIM: sim.PROGRAM}


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """Defaults are the release's, for Kubernetes; `local_options` gives a machine's."""

    agent_image: str = f"inferplane/worker:{_VERSION}"
    agent_program: tuple[str, ...] = AGENT_PROGRAM
    engine_images: dict[tuple[EngineType, Device], str] = field(default_factory=_engine_images)
    engine_programs: dict[EngineType, tuple[str, ...]] = field(default_factory=_programs)
    """What takes the engine's arguments, unless `spec.engine.command` says otherwise; others cannot be started."""
    built_in_model_dir: str = ""
    """Files of the simulated engine's built-in model; empty: the agent knows where its image has them."""
    accelerators: Accelerators = field(default_factory=Accelerators)
    hub_endpoint: str = ""
    """Mirror of the hub where a service names none; empty: the hub itself."""
    trace_endpoint: str = ""
    """Where agents send spans; empty: nowhere.  It is in the templates that are made from now on."""
    in_cluster: bool = True
    """False on a machine: there an engine downloads for itself, and a class of accelerators is only a name."""
    fetch_program: tuple[str, ...] = FETCH_PROGRAM
    """Downloads weights, in the agent's image."""


def local_options(*, engine_python: str, python: str = sys.executable) -> RenderOptions:
    """Options for processes of this machine: `python` runs our own programs, `engine_python` the real engine."""
    return RenderOptions(
        agent_program=(python, *AGENT_PROGRAM[1:]),
        engine_programs={
            EngineType.VLLM: (engine_python, *_VLLM_SERVER),
            EngineType.SIM: (python, *sim.PROGRAM[1:]),
        },
        built_in_model_dir=str(resources.files("inferplane_engine") / "sim" / "model"),
        in_cluster=False,
    )
