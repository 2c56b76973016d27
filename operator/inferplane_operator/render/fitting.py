"""Whether a service's model fits on the devices of its pools, said before anything is downloaded.

Only what is known on both sides is compared: a model whose hub tells its size, and a class whose memory somebody wrote
down.  Arguments that change how much is loaded (quantisation at start, offloading) end the comparison.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from inferplane_api.v1alpha1 import InferenceService
from inferplane_api.v1alpha1.engine import EngineType
from inferplane_api.v1alpha1.pool_template import PoolTemplate
from inferplane_engine.memory import SHARE, ModelFacts, Placement, fit, gib, least_tensor
from inferplane_operator.render.accelerators import Accelerators
from inferplane_operator.render.errors import RenderError

_SHARE_FLAGS: Final = ("--gpu-memory-utilization", "--mem-fraction-static")
_CHANGES_SIZE: Final = (
    "--quantization",
    "-q",
    "--cpu-offload-gb",
    "--load-format",
    "--torchao-config",
    "--hf-overrides",
)
_MOST_TENSOR: Final = 64


def check_memory(service: InferenceService, facts: ModelFacts | None, accelerators: Accelerators) -> None:
    """Raise RenderError for the first pool on whose devices the model does not fit."""
    if facts is None or service.spec.engine.type is EngineType.SIM:
        return
    for path, pool in _pools(service):
        found = accelerators.get(pool.accelerator)
        if found is not None and found.memory_bytes:
            _check(service, pool, facts, found.memory_bytes, path)


def _pools(service: InferenceService) -> Iterator[tuple[str, PoolTemplate]]:
    spec = service.spec
    if spec.prefill is not None:
        yield "spec.prefill", spec.prefill
    yield "spec.decode", spec.decode


def _check(service: InferenceService, pool: PoolTemplate, facts: ModelFacts, memory: int, path: str) -> None:
    engine = service.spec.engine
    args = engine.args + pool.engine.args
    if any(argument.split("=", 1)[0].replace("_", "-").startswith(_CHANGES_SIZE) for argument in args):
        return
    placement = Placement(
        device_bytes=memory,
        tensor=pool.parallelism.tensor,
        pipeline=pool.parallelism.pipeline,
        max_length=engine.max_model_len or 0,
        kv_type=pool.engine.kv_cache_dtype or engine.kv_cache_dtype,
        share=_share(args),
    )
    found = fit(facts, placement)
    if not found.fits:
        raise RenderError(
            f"{path}.parallelism", f"the model does not fit on {pool.accelerator}: {found}", _fix(facts, placement)
        )


def _fix(facts: ModelFacts, placement: Placement) -> str:
    need = gib(fit(facts, placement).needed / placement.share)
    choices = [f"a class with at least {need}"]
    if tensor := least_tensor(facts, placement, most=_MOST_TENSOR):
        choices.insert(0, f"tensor: {tensor}")
    short = replace(placement, max_length=1)
    if fit(facts, short).fits:
        choices.append("a smaller spec.engine.maxModelLen")
    return f"use {', or '.join(choices)}"


def _share(args: tuple[str, ...]) -> float:
    """Return the part of the memory that the user lets the engine have; the last word counts."""
    share = SHARE
    for at, argument in enumerate(args):
        flag, equals, value = argument.partition("=")
        if flag.replace("_", "-") in _SHARE_FLAGS:
            given = value if equals else "".join(args[at + 1 : at + 2])
            try:
                share = float(given)
            except ValueError:
                continue  # the engine will say so
    return share if 0 < share <= 1 else SHARE
