"""One pool of a service as a Pod template: agent and engine, and the user's own template merged last."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from inferplane_api.catalogue import WorkerRole
from inferplane_api.v1alpha1 import InferenceService, KVStore
from inferplane_api.v1alpha1.engine import Device, EngineType, SimOptions
from inferplane_api.v1alpha1.pool_template import PoolTemplate
from inferplane_api.v1alpha1.units import format_bytes
from inferplane_engine.launch import (
    AdapterRoom,
    Addresses,
    EngineRole,
    FleetStore,
    Group,
    Guesses,
    HostCache,
    LaunchError,
    LaunchSpec,
    StoreLink,
    launch,
)
from inferplane_engine.launch.prompt_flags import prompt_flags
from inferplane_engine.launch.sim import has_profile
from inferplane_operator.render import adapter_need, names
from inferplane_operator.render.adapter_need import AdapterNeed
from inferplane_operator.render.adapter_pods import with_control, with_places
from inferplane_operator.render.containers import (
    RUN_VOLUME,
    SHM_VOLUME,
    agent_container,
    engine_container,
    own_security,
    pod_security,
)
from inferplane_operator.render.downloads import ca_volumes, download_container
from inferplane_operator.render.errors import RenderError
from inferplane_operator.render.hardware import (
    Hardware,
    claim_templates,
    claims_of,
    container_resources,
    hardware_of,
    scheduling,
)
from inferplane_operator.render.kv_fleet import fleet_annotations, fleet_stores, fleet_volumes, host_cache, with_fleet
from inferplane_operator.render.kv_pods import own_store, store_containers, store_volumes, with_connector, with_store
from inferplane_operator.render.merge import check_merged, strategic_merge
from inferplane_operator.render.multi_node import LEADER_ADDRESS, NODES_ANNOTATION
from inferplane_operator.render.names import ref
from inferplane_operator.render.options import RenderOptions
from inferplane_operator.render.values import Manifest, RenderedPool
from inferplane_operator.render.weights import (
    DRAFT_MOUNT,
    HubAccess,
    Weights,
    model_weights,
    source_weights,
    together,
)

_GRACE_MARGIN_S: Final = 30
_EXIT_S: Final = 5.0
"""Time for an engine to end after SIGTERM.  Its requests came through the agent, which has drained by then (or is dead,
and its clients' connections with it), so only the release of devices is waited for."""
_CPU_EXIT_S: Final = 1.0
"""On a CPU, vLLM's core hangs while NIXL is taken down, until it is killed after this; nothing needs to be released."""
_RUN_SIZE: Final = "512Mi"


@dataclass(frozen=True, slots=True)
class PoolInput:
    """What one pool is rendered from."""

    service: InferenceService
    template: PoolTemplate
    role: WorkerRole
    transfers: bool
    """Whether the service has pools that hand KV blocks to each other."""
    adapters: AdapterNeed | None
    """Room for adapters; None: there are none."""
    model_revision: str
    revision: str
    options: RenderOptions
    store: KVStore | None = None
    """The KV store that the engine uses."""

    @property
    def own_store(self) -> KVStore | None:
        """The same, where a part of it runs beside the engine."""
        return own_store(self.service, self.store)

    @property
    def fleet(self) -> tuple[FleetStore, ...]:
        """Stores of others that the engine reaches by itself.  Raises RenderError."""
        in_cluster = self.options.in_cluster
        return () if self.store is None else fleet_stores(self.store, self.service, in_cluster=in_cluster)

    @property
    def host_cache(self) -> HostCache | None:
        """Tiers of the engine's own.  Raises RenderError."""
        in_cluster = self.options.in_cluster
        return None if self.store is None else host_cache(self.store, self.service, in_cluster=in_cluster)

    @property
    def name(self) -> str:
        return f"{self.service.metadata.name}-{self.role}"

    @property
    def path(self) -> str:
        """Field of the service that describes this pool."""
        return f"spec.{self.role}"

    @property
    def hub(self) -> HubAccess:
        model, options = self.service.spec.model, self.options
        endpoint = model.endpoint or options.hub_endpoint
        return HubAccess(options.in_cluster, endpoint, model.ca_bundle, model.cache)

    @property
    def hardware(self) -> Hardware:
        """What one worker runs on.  Raises RenderError."""
        options = self.options
        return hardware_of(
            self.template,
            self.service.spec.engine,
            options.accelerators,
            in_cluster=options.in_cluster,
            path=self.path,
        )


def render_pool(given: PoolInput) -> RenderedPool:
    """Render one pool.  Raises RenderError."""
    template, hardware = given.template, given.hardware
    prefix = f"{given.name}-{given.revision}"
    return RenderedPool(
        name=given.name,
        role=given.role,
        replicas=template.replicas,
        min_replicas=template.min_replicas,
        max_replicas=template.ceiling,
        revision=given.revision,
        devices=hardware.devices,
        data_parallel=template.parallelism.data,
        accelerator=template.accelerator,
        pod_template=_merged(_pod_template(given, hardware), given),
        nodes=hardware.nodes,
        claim_templates=claim_templates(template, hardware, prefix=prefix, namespace=given.service.metadata.namespace),
    )


def _merged(ours: Manifest, given: PoolInput) -> Manifest:
    theirs, path = given.template.pod_template, f"{given.path}.podTemplate"
    merged = strategic_merge(ours, theirs, path=path)
    check_merged(ours, merged, path=path)
    return merged


def _pod_template(given: PoolInput, hardware: Hardware) -> Manifest:
    spec = given.service.spec
    weights, draft = _model_weights(given), _draft_weights(given)
    everything = with_places(together((weights, *draft)), given.adapters, given.hub)
    agent = agent_container(
        image=given.options.agent_image,
        program=given.options.agent_program,
        args=_agent_arguments(given, weights),
        weights=weights,
        engine=spec.engine.type,
    )
    body: Manifest = {
        "initContainers": [
            with_control(agent if given.own_store is None else with_store(agent), given.adapters, given.hub),
            *_store_containers(given),
            *_downloads(given, everything),
        ],
        "containers": [_engine(given, hardware, everything, draft=draft)],
        "volumes": _volumes(given, everything),
        "securityContext": pod_security(),
        "terminationGracePeriodSeconds": math.ceil(spec.drain_timeout_s) + _GRACE_MARGIN_S,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        **scheduling(hardware, {names.LABEL_POOL: given.name}),
    }
    if claims := claims_of(given.template, prefix=f"{given.name}-{given.revision}"):
        body["resourceClaims"] = claims
    if everything.pull_secrets:
        body["imagePullSecrets"] = list(everything.pull_secrets)
    return {"metadata": {"labels": _labels(given), "annotations": _annotations(given, hardware)}, "spec": body}


def _downloads(given: PoolInput, weights: Weights) -> list[Manifest]:
    options = given.options
    return [
        download_container(
            download, given.hub, image=options.agent_image, program=options.fetch_program, security=own_security()
        )
        for download in weights.downloads
    ]


def _engine(given: PoolInput, hardware: Hardware, weights: Weights, *, draft: Sequence[Weights]) -> Manifest:
    spec = given.service.spec
    try:
        command = launch(_launch_spec(given, hardware, weights, draft=draft))
    except LaunchError as error:
        raise RenderError(_field_of(error, given), error.message, error.fix) from error
    engine = engine_container(
        image=_engine_image(given),
        spec=spec.engine,
        launch=command,
        weights=weights,
        resources=container_resources(given.template, hardware),
        ranks=_transfer_ports(given),
        drain_timeout_s=spec.drain_timeout_s,
    )
    if given.options.in_cluster:
        engine = with_fleet(engine, given.fleet, given.host_cache)
    return engine if given.own_store is None else with_connector(engine, in_cluster=given.options.in_cluster)


def _store_containers(given: PoolInput) -> list[Manifest]:
    options = given.options
    if given.own_store is None or not options.in_cluster:
        return []
    return store_containers(
        given.own_store,
        image=options.agent_image,
        python=options.agent_program[0],
        run_mount={"name": RUN_VOLUME, "mountPath": names.DEFAULT_RUN_DIR},
        security=own_security(),
    )


def _store_link(given: PoolInput, hardware: Hardware) -> StoreLink | None:
    if given.own_store is None:
        return None
    if hardware.nodes > 1:
        raise RenderError("spec.kvStore", "an engine on several nodes has no store on each of them", "leave it out")
    return StoreLink(
        ref(names.KV_SOCKET), ref(names.KV_SECRET), given.service.spec.model.name, revision=given.model_revision
    )


def _transfer_ports(given: PoolInput) -> int:
    if not given.transfers:
        return 0
    if given.service.spec.engine.type is EngineType.SGLANG:
        return 1 if given.role is WorkerRole.PREFILL else 0  # one bootstrap for all ranks
    return given.template.parallelism.data


def _program(given: PoolInput) -> tuple[str, ...]:
    engine, known = given.service.spec.engine, given.options.engine_programs
    if program := engine.command or known.get(engine.type):
        return program
    choices = " or ".join(known)
    raise RenderError("spec.engine.type", f"{engine.type} cannot be started here", f"use {choices}")


def _field_of(error: LaunchError, given: PoolInput) -> str:
    """Say where in the resource it stands: a launch joins the arguments of service and pool, in this order."""
    shared, own = given.service.spec.engine, given.template.engine
    if error.argument is not None and error.argument >= len(shared.args):
        return f"spec.{given.role}.engine.args[{error.argument - len(shared.args)}]"
    in_pool = error.field.startswith("parallelism.") or error.field.removeprefix("engine.env.") in own.env
    return f"spec.{given.role}.{error.field}" if in_pool else f"spec.{error.field}"


def _launch_spec(given: PoolInput, hardware: Hardware, weights: Weights, *, draft: Sequence[Weights]) -> LaunchSpec:
    spec, pool = given.service.spec, given.template
    engine, own, shape = spec.engine, pool.engine, pool.parallelism
    role = EngineRole(given.role.value) if given.transfers else EngineRole.AGGREGATED
    return LaunchSpec(
        engine=engine.type,
        role=role,
        model=weights.path,
        served_names=spec.model.all_served_names,
        block_size=_block_size(given),
        program=_program(given),
        revision=weights.revision,
        trust_remote_code=spec.model.trust_remote_code,
        device=engine.device if engine.type is not EngineType.SIM else Device.CPU,
        dtype=engine.dtype,
        kv_cache_dtype=own.kv_cache_dtype or engine.kv_cache_dtype,
        max_model_len=engine.max_model_len or 0,
        kv_cache_memory_bytes=own.kv_cache_memory_bytes or engine.kv_cache_memory_bytes or 0,
        max_num_seqs=own.max_num_seqs or engine.max_num_seqs or 0,
        max_num_batched_tokens=own.max_num_batched_tokens or engine.max_num_batched_tokens or 0,
        prefix_caching=engine.prefix_caching,
        tensor=shape.tensor,
        pipeline=shape.pipeline,
        data=shape.data,
        expert=shape.expert,
        group=Group(hardware.nodes, ref(LEADER_ADDRESS)),
        guesses=_guesses(given, draft),
        addresses=_addresses(),
        adapters=AdapterRoom(given.adapters.max_adapters, given.adapters.max_rank) if given.adapters else None,
        store=_store_link(given, hardware),
        fleet=given.fleet,
        host_cache=given.host_cache,
        shutdown_timeout_s=_CPU_EXIT_S if engine.device is Device.CPU else _EXIT_S,
        offline=weights.offline,
        sim=_sim_options(engine.sim, pool) if engine.type is EngineType.SIM else None,
        args=engine.args + own.args,
        env=tuple({**engine.env, **own.env}.items()),
    )


def _guesses(given: PoolInput, draft: Sequence[Weights]) -> Guesses | None:
    wanted = given.service.spec.engine.speculation
    if wanted is None:
        return None
    located = draft[0] if draft else Weights("", "")
    return Guesses(wanted.method, wanted.tokens, located.path, located.revision)


def _addresses() -> Addresses:
    return Addresses(
        host="127.0.0.1",
        port=ref(names.ENGINE_PORT),
        bind_host=ref(names.BIND_HOST),
        side_channel_host=ref(names.ADDRESS),
        side_channel_port=ref(names.SIDE_CHANNEL_PORT),
        events=names.EVENTS_ENDPOINT,
        replay=names.REPLAY_ENDPOINT,
    )


def _sim_options(options: SimOptions | None, pool: PoolTemplate) -> SimOptions:
    given = options or SimOptions()
    if given.profile or not has_profile(pool.accelerator):
        return given
    return given.model_copy(update={"profile": pool.accelerator})


def _block_size(given: PoolInput) -> int:
    return given.template.engine.block_size or given.service.spec.engine.effective_block_size


def _agent_arguments(given: PoolInput, weights: Weights) -> tuple[str, ...]:
    service, pool = given.service, given.template
    model, bind = service.spec.model, ref(names.BIND_HOST)
    args = ["--worker-id", ref(names.WORKER_ID), "--namespace", ref(names.NAMESPACE)]
    args += ["--service", service.metadata.name, "--pool", given.name, "--role", given.role.value]
    args += ["--revision", given.revision, "--engine", service.spec.engine.type.value]
    args += ["--engine-url", f"http://127.0.0.1:{ref(names.ENGINE_PORT)}", "--engine-start-file", names.START_FILE]
    args += ["--kv-events", names.EVENTS_ENDPOINT, "--kv-replay", names.REPLAY_ENDPOINT]
    if given.own_store is not None:
        args += ["--kv-store", ref(names.KV_SOCKET)]
    args += ["--listen-http", f"{bind}:{ref(names.HTTP_PORT)}", "--listen-stream", f"{bind}:{ref(names.STREAM_PORT)}"]
    args += ["--listen-metrics", f"{bind}:{ref(names.METRICS_PORT)}"]
    args += ["--advertise", f"{ref(names.ADDRESS)}:{ref(names.HTTP_PORT)}", "--model", model.name]
    if given.model_revision:
        args += ["--model-revision", given.model_revision]
    if weights.directory:
        args += ["--model-path", weights.directory]
    for name in model.all_served_names:
        args += ["--served-name", name]
    if service.spec.engine.type is not EngineType.SIM:  # which renders as its model says
        args += prompt_flags(service.spec.engine.args + pool.engine.args)
    args += ["--block-size", str(_block_size(given)), "--dp-size", str(pool.parallelism.data)]
    args += ["--zone", ref(names.ZONE)]
    if pool.accelerator:
        args += ["--accelerator", pool.accelerator]
    if given.options.trace_endpoint:
        args += ["--trace-endpoint", given.options.trace_endpoint]
    args += ["--state-dir", f"{ref(names.RUN_DIR)}/state"]
    return (*args, "--drain-timeout", f"{service.spec.drain_timeout_s:g}s", "--canary", "on")


def _engine_image(given: PoolInput) -> str:
    engine = given.service.spec.engine
    if engine.image:
        return engine.image
    if engine.type is EngineType.SIM:
        return given.options.agent_image
    image = given.options.engine_images.get((engine.type, engine.device), "")
    if not image:
        raise RenderError("spec.engine.image", f"there is no default for {engine.type} on {engine.device}", "set it")
    return image


def _model_weights(given: PoolInput) -> Weights:
    options, revision = given.options, given.model_revision
    return model_weights(given.service.spec.model, revision, given.hub, built_in_directory=options.built_in_model_dir)


def _draft_weights(given: PoolInput) -> tuple[Weights, ...]:
    wanted = given.service.spec.engine.speculation
    if wanted is None or wanted.source is None:
        return ()
    secret = given.service.spec.model.secret_ref
    return (
        source_weights(
            wanted.source, volume="draft", mount=DRAFT_MOUNT, secret=secret, hub=given.hub, revision=wanted.revision
        ),
    )


def _volumes(given: PoolInput, weights: Weights) -> list[Manifest]:
    size = format_bytes(given.service.spec.engine.shm_size_bytes)
    return [
        {"name": RUN_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": _RUN_SIZE}},
        {"name": SHM_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": size}},
        *weights.volumes,
        *_store_volumes(given),
        *(ca_volumes(given.hub) if weights.downloads or _adapters_from_hub(given) else ()),
    ]


def _store_volumes(given: PoolInput) -> list[Manifest]:
    if given.store is None or not given.options.in_cluster:
        return []
    own = [] if given.own_store is None else store_volumes(given.own_store)
    return [*own, *fleet_volumes(given.fleet, given.host_cache, given.store)]


def _adapters_from_hub(given: PoolInput) -> bool:
    return given.adapters is not None and given.adapters.from_hub


def _labels(given: PoolInput) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "inferplane-worker",
        "app.kubernetes.io/instance": given.service.metadata.name,
        "app.kubernetes.io/part-of": "inferplane",
        "app.kubernetes.io/managed-by": "inferplane-operator",
        names.LABEL_COMPONENT: "worker",
        names.LABEL_SERVICE: given.service.metadata.name,
        names.LABEL_POOL: given.name,
        names.LABEL_ROLE: given.role.value,
        names.LABEL_REVISION: given.revision,
    }


def _annotations(given: PoolInput, hardware: Hardware) -> dict[str, str]:
    spread = {NODES_ANNOTATION: str(hardware.nodes)} if hardware.nodes > 1 else {}
    room = {adapter_need.ANNOTATION: given.adapters.annotation} if given.adapters else {}
    fleet = fleet_annotations(given.fleet, ranks=given.template.parallelism.devices)
    return {"kubectl.kubernetes.io/default-container": names.ENGINE_CONTAINER, **spread, **room, **fleet}
