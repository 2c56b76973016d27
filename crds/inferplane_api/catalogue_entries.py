"""What a router is told about a service and about routes; workers come from discovery.

Used by whoever writes a catalogue: the local runner, and routers that watch a cluster.
"""

from collections.abc import Sequence
from typing import Final

from inferplane_api.catalogue import (
    CatalogueRoute,
    CatalogueService,
    LengthLimit,
    PoolDevices,
    PriorityLimit,
    RoutingMode,
)
from inferplane_api.v1alpha1 import InferenceService, LoRAAdapter, ModelRoute
from inferplane_api.v1alpha1.pool_template import PoolTemplate

_PERCENT: Final = 100


def catalogue_service(service: InferenceService, adapters: Sequence[LoRAAdapter] = ()) -> CatalogueService:
    spec = service.spec
    return CatalogueService(
        namespace=service.metadata.namespace,
        name=service.metadata.name,
        served_names=spec.model.all_served_names,
        adapters=tuple(sorted({adapter.served_name for adapter in adapters} - set(spec.model.all_served_names))),
        mode=RoutingMode.AGGREGATED if spec.prefill is None else spec.mode,
        policy=spec.routing.policy.value,
        ttft_s=spec.slo.ttft_s,
        tpot_s=spec.slo.tpot_s,
        ttft_by_prompt_length=tuple(
            LengthLimit(max_prompt_tokens=step.max_prompt_tokens, ttft_s=step.ttft_s)
            for step in spec.slo.ttft_by_prompt_length
        ),
        priorities=tuple(
            PriorityLimit(priority=each.priority, ttft_s=each.ttft_s, tpot_s=each.tpot_s)
            for each in spec.slo.priorities
        ),
        percentile=spec.slo.percentile,
        queue_limit=spec.routing.queue_limit,
        queue_timeout_s=spec.routing.queue_timeout_s,
        request_timeout_s=spec.routing.request_timeout_s,
        expose_headers=spec.routing.expose_headers,
        prefill=_devices(spec.prefill),
        decode=_devices(spec.decode),
    )


def _devices(pool: PoolTemplate | None) -> PoolDevices:
    if pool is None:
        return PoolDevices()
    return PoolDevices(accelerator=pool.accelerator, devices=pool.parallelism.devices)


def catalogue_routes(routes: Sequence[ModelRoute]) -> tuple[CatalogueRoute, ...]:
    return tuple(CatalogueRoute(name=alias, targets=_targets(route)) for route in routes for alias in route.aliases)


def _targets(route: ModelRoute) -> tuple[tuple[str, int], ...]:
    targets = tuple((target.served_name, target.weight) for target in route.spec.targets)
    canary = route.spec.canary
    if canary is None:
        return targets
    total = sum(weight for _, weight in targets)
    rest = tuple((name, weight * (_PERCENT - canary.percent)) for name, weight in targets)
    return (*rest, (canary.served_name, total * canary.percent))
