"""Desired state to blueprint: the operator's own rendering, with this machine's programs, reduced to processes.

The only place of local mode that knows resources and Pod templates.  What a laptop cannot do (a volume claim, an OCI
image, an engine that nobody can start) is refused here, with the field and the fix, before anything is started.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import inferplane_engine
from inferplane_api.v1alpha1.engine import Device, EngineType
from inferplane_api.v1alpha1.inference_service import InferenceService, ScalingMode
from inferplane_api.v1alpha1.kinds import Resource
from inferplane_api.v1alpha1.kv_store import KVStore
from inferplane_api.v1alpha1.lora_adapter import LoRAAdapter
from inferplane_api.v1alpha1.manifests import ManifestError, parse_resource
from inferplane_api.v1alpha1.model_route import ModelRoute
from inferplane_operator.local.blueprint import Blueprint, LocalAdapter, LocalPool, LocalStore
from inferplane_operator.local.desired import Desired
from inferplane_operator.local.machine import Machine
from inferplane_operator.local.statedir import StateError
from inferplane_operator.reconcile.adapter import wanted_of
from inferplane_operator.reconcile.adapter_status import refused
from inferplane_operator.render import RenderedPool, RenderedService, RenderError, local_options, render_service
from inferplane_operator.render.adapter_need import Present, offered_by
from inferplane_operator.render.kv_pods import configuration, own_store, served_by_store
from inferplane_operator.render.names import AGENT_CONTAINER, ENGINE_CONTAINER, KV_PATH
from inferplane_operator.render.values import Manifest

_PLUGIN = Path(str(inferplane_engine.__file__)).parent / "vllm_cpu_plugin"


class UnsuitableError(StateError):
    """A valid manifest that cannot be run on this machine: field, problem, fix."""


def assemble(
    desired: Desired, *, machine: Machine, cores: int | None = None, before: Blueprint | None = None
) -> Blueprint:
    """Make the blueprint of a desired state; `before` is the one in force.  Raises StateError."""
    try:
        resources = [parse_resource(manifest) for manifest in desired.manifests]
    except ManifestError as error:
        raise StateError(str(error)) from error
    service = the_service(resources)
    service = on_this_machine(service, machine)
    present = Present(before.pools[0].revision, before.pools[0].offers) if before is not None else None
    rendered = render(service, resources, engine_python=desired.engine_python, present=present)
    pools = [_local_pool(pool, service) for pool in rendered.pools]
    pools = [_with_override(pool, service.metadata.name, desired.replicas) for pool in pools]
    if service.spec.engine.type is EngineType.VLLM and not machine.gpus:
        workers = max(1, sum(pool.replicas for pool in pools))
        threads = max(1, (cores or os.cpu_count() or 1) // workers)
        pools = [replace(pool, engine=_for_cpu(pool.engine, threads)) for pool in pools]
    return Blueprint(
        rendered.catalogue_service,
        tuple(pools),
        rendered.routes,
        local_adapters(service, resources),
        kv_store=_kv_store(own_store(service, named_store(service, resources))),
        planned=service.spec.scaling.mode in (ScalingMode.SLO, ScalingMode.ADVISE),
        gateway_processes=service.spec.gateway.processes,
    )


def local_adapters(service: InferenceService, resources: Sequence[Resource]) -> tuple[LocalAdapter, ...]:
    """Return the service's adapters, as this machine's agents are told of them; hubs are read with the user's token."""
    mine = [each for each in resources if isinstance(each, LoRAAdapter) and each.spec.service == service.metadata.name]
    holders: dict[str, str] = {}
    for each in mine:
        holders.setdefault(each.served_name, each.metadata.name)
    return tuple(
        LocalAdapter(
            replace(wanted_of(each), token_file="", places=()), _in_the_way(each, service, holders[each.served_name])
        )
        for each in mine
    )


def _in_the_way(adapter: LoRAAdapter, service: InferenceService, holder: str) -> str:
    source, room = adapter.spec.source, service.spec.engine.lora
    if source.pvc is not None or source.oci is not None:
        kind = "pvc" if source.pvc is not None else "oci"
        return f"spec.source.{kind} exists in a cluster only; use spec.source.path or hf locally"
    verdict = refused(
        adapter,
        base_names=service.spec.model.all_served_names,
        holder="" if holder == adapter.metadata.name else f"LoRAAdapter {holder}",
        max_rank=room.max_rank if room is not None else None,
    )
    return "" if verdict is None else verdict.message


def render(
    service: InferenceService, resources: Sequence[Resource], *, engine_python: str, present: Present | None = None
) -> RenderedService:
    """Render with the programs of this machine.  Raises StateError."""
    try:
        return render_service(
            service,
            adapters=[resource for resource in resources if isinstance(resource, LoRAAdapter)],
            routes=[resource for resource in resources if isinstance(resource, ModelRoute)],
            options=local_options(engine_python=engine_python),
            present=present,
            store=named_store(service, resources),
        )
    except RenderError as error:
        raise UnsuitableError(str(error)) from error


def the_service(resources: Sequence[Resource]) -> InferenceService:
    """Return the one service among the resources.  Raises UnsuitableError."""
    services = [resource for resource in resources if isinstance(resource, InferenceService)]
    if len(services) != 1:
        raise UnsuitableError(
            f"kind: the file holds {len(services)} InferenceServices, a local instance runs one; "
            "put each into a file of its own"
        )
    for resource in resources:
        if not isinstance(resource, (InferenceService, KVStore, LoRAAdapter, ModelRoute)):
            raise UnsuitableError(
                f"kind: {resource.kind} cannot be run locally; keep InferenceService, KVStore, LoRAAdapter, ModelRoute"
            )
    return services[0]


def named_store(service: InferenceService, resources: Sequence[Resource]) -> KVStore | None:
    """Return the KVStore that the service names and its engine can use.  Raises UnsuitableError."""
    wanted = service.spec.kv_store
    if wanted is None or not served_by_store(service):
        return None
    for resource in resources:
        if isinstance(resource, KVStore) and resource.metadata.name == wanted.name:
            return resource
    raise UnsuitableError(f"spec.kvStore.name: the file holds no KVStore {wanted.name}; add it, or leave kvStore out")


def _kv_store(store: KVStore | None) -> LocalStore | None:
    if store is None:
        return None
    ssd = next((tier.path for tier in store.spec.tiers if tier.path is not None), "")
    try:
        config = configuration(store, socket="", secret_file="", arena="", slabs=str(ssd))
    except RenderError as error:
        raise UnsuitableError(str(error)) from error
    return LocalStore(store.metadata.name, config)


def on_this_machine(service: InferenceService, machine: Machine) -> InferenceService:
    """Fit the device to what there is: vLLM computes on the CPU of a machine without accelerators."""
    engine = service.spec.engine
    if engine.type is not EngineType.VLLM or machine.gpus or engine.device is Device.CPU:
        return service
    size = engine.block_size
    if size is not None and size != 16 and size % 32:  # noqa: PLR2004  vLLM's CPU kernels, as EngineSpec checks them
        raise UnsuitableError(
            f"spec.engine.blockSize: {size} does not fit vLLM's CPU kernels, and this machine has no GPU; "
            "use a multiple of 32"
        )
    on_cpu = engine.model_copy(update={"device": Device.CPU})
    return service.model_copy(update={"spec": service.spec.model_copy(update={"engine": on_cpu})})


def local_name(pool: str, service: str) -> str:
    """Shorten `SERVICE-decode` to `decode`: an instance holds one service, and people type these names."""
    return pool.removeprefix(f"{service}-") or pool


def _local_pool(pool: RenderedPool, service: InferenceService) -> LocalPool:
    spec: Manifest = pool.pod_template["spec"]
    containers: list[Manifest] = [*spec.get("initContainers", ()), *spec["containers"]]
    return LocalPool(
        name=local_name(pool.name, service.metadata.name),
        role=pool.role,
        replicas=pool.replicas,
        min_replicas=pool.min_replicas,
        max_replicas=pool.max_replicas,
        revision=pool.revision,
        agent=_container(containers, AGENT_CONTAINER),
        engine=_container(containers, ENGINE_CONTAINER),
        gpus=pool.devices,
        ranks=pool.data_parallel,
        drain_timeout_s=service.spec.drain_timeout_s,
        startup_timeout_s=service.spec.engine.startup_timeout_s,
        offers=offered_by(pool.pod_template["metadata"]["annotations"]),
    )


def _container(containers: Sequence[Manifest], name: str) -> Manifest:
    return next(container for container in containers if container["name"] == name)


def _with_override(pool: LocalPool, service: str, replicas: dict[str, int]) -> LocalPool:
    """Apply what `scale` asked for, within the bounds of the manifest that is in force now."""
    wanted = replicas.get(pool.name, replicas.get(f"{service}-{pool.name}"))
    if wanted is None:
        return pool
    return replace(pool, replicas=max(pool.min_replicas, min(wanted, pool.max_replicas)))


def _for_cpu(engine: Manifest, threads: int) -> Manifest:
    """Share the cores among the engines, unless the manifest says how."""
    given: list[dict[str, Any]] = list(engine.get("env", ()))
    ours = any(entry["name"] == KV_PATH for entry in given)  # then the path there is rendered, not the user's
    theirs = next((entry.get("value", "") for entry in given if entry["name"] == "PYTHONPATH"), "")
    extra: list[dict[str, Any]] = [
        {"name": "OMP_NUM_THREADS", "value": str(threads)},
        {"name": "PYTHONPATH", "value": f"{theirs}:{_PLUGIN}" if ours else str(_PLUGIN)},
    ]
    if ours:
        given = [entry for entry in given if entry["name"] != "PYTHONPATH"]
    names = {entry["name"] for entry in given}
    return {**engine, "env": [*given, *(entry for entry in extra if entry["name"] not in names)]}
