"""What of a service nobody has run, for its status."""

from dataclasses import replace
from typing import Final

from inferplane_api.v1alpha1 import InferenceService, KVStore
from inferplane_api.v1alpha1.kv_store import TierMedium
from inferplane_api.v1alpha1.pool_template import PoolTemplate
from inferplane_engine.verification import Unverified, Use, unverified
from inferplane_operator.render.accelerators import Accelerators
from inferplane_operator.render.errors import RenderError
from inferplane_operator.render.hardware import Hardware, hardware_of

_WHOLE_KV: Final = frozenset({"auto", "float16", "bfloat16", "bf16", "float32", "half", "float"})
_GUESSING: Final = ("--spec",)
"""Begins the arguments by which engines are told to guess."""


def unrun(
    service: InferenceService, accelerators: Accelerators, *, adapters: bool, store: KVStore | None = None
) -> tuple[Unverified, ...]:
    """Return what is used and was never run, each once; `store` is the KVStore that the service names."""
    spec = service.spec
    pools = [("spec.prefill", spec.prefill), ("spec.decode", spec.decode)]
    uses = [_use(service, pool, accelerators, path, adapters=adapters) for path, pool in pools if pool is not None]
    media = frozenset(tier.medium for tier in store.spec.tiers) if store is not None else frozenset[TierMedium]()
    uses = [replace(use, media=media) for use in uses]
    return tuple(dict.fromkeys(what for use in uses for what in unverified(use)))


def _use(
    service: InferenceService, pool: PoolTemplate, accelerators: Accelerators, path: str, *, adapters: bool
) -> Use:
    engine, shape = service.spec.engine, pool.parallelism
    hardware = _hardware(service, pool, accelerators, path)
    kv_type = pool.engine.kv_cache_dtype or engine.kv_cache_dtype
    return Use(
        engine=engine.type,
        device=engine.device,
        hands_over=service.spec.prefill is not None,
        devices=shape.devices,
        ranks=shape.data,
        nodes=hardware.nodes,
        adapters=adapters,
        expert=shape.expert,
        quantised_kv=kv_type not in _WHOLE_KV,
        speculation=engine.speculation is not None or _guesses(engine.args + pool.engine.args),
        slices=_sliced(pool, hardware),
        claims=bool(pool.resources.claims),
    )


def _hardware(service: InferenceService, pool: PoolTemplate, accelerators: Accelerators, path: str) -> Hardware:
    try:
        return hardware_of(pool, service.spec.engine, accelerators, in_cluster=True, path=path)
    except RenderError:  # rendering says so itself
        return Hardware()


def _guesses(args: tuple[str, ...]) -> bool:
    return any(argument.startswith(_GUESSING) for argument in args)


def _sliced(pool: PoolTemplate, hardware: Hardware) -> bool:
    named = {*pool.resources.limits, *pool.resources.requests, hardware.resource}
    return any("/mig-" in name for name in named)
