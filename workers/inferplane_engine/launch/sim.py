"""The simulated engine's command line: vLLM's flags where they mean something, and its own with `--sim-`."""

import json
from typing import Final

from inferplane_api.v1alpha1.engine import SimFault, SimOptions
from inferplane_engine.launch.overrides import check_overrides
from inferplane_engine.launch.spec import EngineRole, Launch, LaunchSpec
from inferplane_engine.launch.vllm import common_arguments, model_arguments, side_channel

PROGRAM: Final = ("python", "-m", "inferplane_workers.sim")


def sim_launch(spec: LaunchSpec) -> Launch:
    """Build the command of one simulated engine.  Raises LaunchError."""
    check_overrides(spec.args, spec.env)
    program = spec.program or PROGRAM
    options = spec.sim or SimOptions()
    args = (*model_arguments(program, spec), *common_arguments(spec), *_sim_arguments(options), *spec.args)
    env = dict(side_channel(spec.addresses)) if spec.role is not EngineRole.AGGREGATED else {}
    return Launch(program, args, tuple((env | dict(spec.env)).items()))


def _sim_arguments(options: SimOptions) -> tuple[str, ...]:
    args = ["--sim-speed", f"{options.speed:g}", "--sim-seed", str(options.seed)]
    if options.profile:
        args += ["--sim-profile", options.profile]
    for fault in options.faults:
        args += ["--sim-fault", json.dumps(_fault(fault), separators=(",", ":"))]
    return tuple(args)


def _fault(fault: SimFault) -> dict[str, object]:
    return {
        "kind": str(fault.kind),
        "probability": fault.probability,
        "after_s": fault.after_s,
        "duration_s": fault.duration_s,
        "factor": fault.factor,
    }
