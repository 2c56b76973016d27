"""The simulated engine's command line: vLLM's flags where they mean something, and its own with `--sim-`."""

import json
from typing import Final

from inferplane_api.v1alpha1.engine import SimFault, SimOptions
from inferplane_engine.launch.overrides import check_overrides
from inferplane_engine.launch.spec import EngineRole, Launch, LaunchError, LaunchSpec
from inferplane_engine.launch.vllm import adapter_environment, common_arguments, model_arguments, side_channel
from inferplane_engine.profiles import PROFILES

PROGRAM: Final = ("python", "-m", "inferplane_workers.sim")
BUILT_IN_MODEL: Final = "builtin"
"""What stands for a model folder where there is none."""


def sim_launch(spec: LaunchSpec) -> Launch:
    """Build the command of one simulated engine.  Raises LaunchError."""
    check_overrides(spec.args, spec.env)
    program = spec.program or PROGRAM
    options = spec.sim or SimOptions()
    args = (*model_arguments(program, spec), *common_arguments(spec), *_sim_arguments(options), *spec.args)
    env = dict(side_channel(spec.addresses)) if spec.role is not EngineRole.AGGREGATED else {}
    env |= adapter_environment(spec)
    return Launch(program, args, tuple((env | dict(spec.env)).items()))


def _sim_arguments(options: SimOptions) -> tuple[str, ...]:
    args = ["--sim-speed", f"{options.speed:g}", "--sim-seed", str(options.seed)]
    if options.profile:
        if not has_profile(options.profile):
            known = ", ".join(sorted(PROFILES))
            raise LaunchError("engine.sim.profile", f"{options.profile!r} is not known", f"use one of {known}")
        args += ["--sim-profile", options.profile]
    for fault in options.faults:
        args += ["--sim-fault", _fault(fault)]
    return tuple(args)


def has_profile(name: str) -> bool:
    """Whether the simulated engine has a timing profile of that name; an accelerator stands for its smallest model."""
    return name in PROFILES or f"{name}-8b" in PROFILES


def _fault(fault: SimFault) -> str:
    given = fault.model_dump(by_alias=False, exclude_defaults=True)
    # Dumped durations are texts; the command line takes seconds.
    seconds = {name: getattr(fault, name) for name in ("after_s", "duration_s") if name in given}
    return json.dumps({**given, **seconds}, separators=(",", ":"))
