"""One template for Pods and processes, with what draining, discovery and hand-off rely on."""

from typing import Any

import pytest

from inferplane_api.catalogue import CatalogueRoute, RoutingMode, WorkerRole
from inferplane_api.v1alpha1 import InferenceService, LoRAAdapter, ModelRoute
from inferplane_api.v1alpha1.manifests import parse_resource
from inferplane_operator.render import (
    RenderedPool,
    RenderError,
    RenderOptions,
    RouterSettings,
    catalogue_routes,
    container_command,
    container_environment,
    expand,
    local_options,
    render_service,
    router_config,
)
from inferplane_operator.render.names import RUNNER_VARIABLES
from inferplane_runtime.settings import load
from inferplane_workers.agent.config import AgentConfig
from inferplane_workers.sim.options import parse_options


def manifest(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "inferplane.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def service(**spec: Any) -> InferenceService:
    defaults: dict[str, Any] = {
        "model": {"name": "m"},
        "engine": {"type": "sim"},
        "mode": "disaggregated",
        "prefill": {},
        "decode": {"replicas": 2},
    }
    wanted = {key: value for key, value in {**defaults, **spec}.items() if value is not None}
    parsed = parse_resource(manifest("InferenceService", "demo", wanted))
    assert isinstance(parsed, InferenceService)
    return parsed


def vllm(**spec: Any) -> InferenceService:
    defaults: dict[str, Any] = {"engine": {"type": "vllm"}, "model": {"name": "m", "source": {"path": "/models/m"}}}
    return service(**{**defaults, **spec})


def adapter(name: str, source: dict[str, str], **spec: Any) -> LoRAAdapter:
    parsed = parse_resource(manifest("LoRAAdapter", name, {"service": "demo", "source": source, **spec}))
    assert isinstance(parsed, LoRAAdapter)
    return parsed


def route(name: str, **spec: Any) -> ModelRoute:
    parsed = parse_resource(manifest("ModelRoute", name, spec))
    assert isinstance(parsed, ModelRoute)
    return parsed


def body(pool: RenderedPool) -> dict[str, Any]:
    spec: dict[str, Any] = pool.pod_template["spec"]
    return spec


def agent(pool: RenderedPool) -> dict[str, Any]:
    (found,) = (container for container in body(pool)["initContainers"] if container["name"] == "agent")
    return dict(found)


def engine(pool: RenderedPool) -> dict[str, Any]:
    (found,) = (container for container in body(pool)["containers"] if container["name"] == "engine")
    return dict(found)


MIG = {"nvidia.com/mig-3g.40gb": "1"}
VALUES = {
    **dict.fromkeys(RUNNER_VARIABLES, ""),
    "INFERPLANE_POD_NAME": "demo-decode-0",
    "INFERPLANE_NAMESPACE": "default",
    "INFERPLANE_POD_IP": "127.0.0.1",
    "INFERPLANE_BIND_HOST": "127.0.0.1",
    "INFERPLANE_HTTP_PORT": "18100",
    "INFERPLANE_STREAM_PORT": "18101",
    "INFERPLANE_METRICS_PORT": "18102",
    "INFERPLANE_ENGINE_PORT": "18200",
    "INFERPLANE_SIDE_CHANNEL_PORT": "15600",
    "INFERPLANE_RUN_DIR": "/tmp/run",  # noqa: S108 - a text, nothing is written there
    "INFERPLANE_MODEL_CACHE": "/tmp/cache",  # noqa: S108 - the same
}


def test_a_disaggregated_service_has_two_pools_of_one_revision() -> None:
    rendered = render_service(service())

    prefill, decode = rendered.pools
    assert (prefill.name, prefill.role, prefill.replicas) == ("demo-prefill", WorkerRole.PREFILL, 1)
    assert (decode.name, decode.role, decode.replicas) == ("demo-decode", WorkerRole.DECODE, 2)
    assert {prefill.revision, decode.revision} == {rendered.revision}
    assert rendered.catalogue_service.mode is RoutingMode.DISAGGREGATED


def test_without_prefill_there_is_one_pool_and_nothing_is_handed_over() -> None:
    rendered = render_service(service(mode="auto", prefill=None))

    (pool,) = rendered.pools
    assert pool.role is WorkerRole.DECODE
    assert "--kv-transfer-config" not in engine(pool)["args"]
    assert "ports" not in engine(pool)
    assert rendered.catalogue_service.mode is RoutingMode.AGGREGATED


def test_agent_and_engine_start_side_by_side() -> None:
    """A kubelet would hold the engine back for a start-up probe of the agent."""
    found = agent(render_service(service()).pools[0])

    assert found["restartPolicy"] == "Always"
    assert "startupProbe" not in found
    assert found["livenessProbe"]["initialDelaySeconds"] == 60
    assert found["readinessProbe"]["httpGet"]["path"] == "/ready"


def test_the_engine_listens_on_loopback_and_drains_through_the_agent() -> None:
    pool = render_service(service(drainTimeout="90s")).pools[1]

    args = engine(pool)["args"]
    hook = engine(pool)["lifecycle"]["preStop"]["exec"]["command"]
    assert args[args.index("--host") + 1] == "127.0.0.1"
    assert "/drain" in hook[2]
    assert "timeout=95" in hook[2]
    assert body(pool)["terminationGracePeriodSeconds"] == 120
    assert args[args.index("--shutdown-timeout") + 1] == "5"


def test_each_start_of_the_engine_is_marked_where_the_agent_looks() -> None:
    pool = render_service(service()).pools[1]

    mark = engine(pool)["command"][-1]
    args = agent(pool)["args"]
    assert mark == args[args.index("--engine-start-file") + 1]


def test_labels_say_what_discovery_needs() -> None:
    pool = render_service(service()).pools[0]

    labels = pool.pod_template["metadata"]["labels"]
    assert {
        "inferplane.dev/service": "demo",
        "inferplane.dev/pool": "demo-prefill",
        "inferplane.dev/role": "prefill",
        "inferplane.dev/revision": pool.revision,
        "inferplane.dev/component": "worker",
    }.items() <= labels.items()


def agent_config(pool: RenderedPool) -> AgentConfig:
    container = agent(pool)
    command = container_command(container, container_environment(container, VALUES))
    return load(AgentConfig, command[3:], {}, program="agent")


def test_the_agent_understands_every_flag_it_is_given() -> None:
    options = local_options(engine_python="/engine/python", python="/python")
    pool = render_service(service(), model_revision="c0ffee", options=options).pools[1]
    container = agent(pool)
    command = container_command(container, container_environment(container, VALUES))
    config = agent_config(pool)

    assert command[:3] == ("/python", "-m", "inferplane_workers.agent")
    assert config.worker_id == "demo-decode-0"
    assert config.engine_url == "127.0.0.1:18200"
    assert config.advertise == "127.0.0.1:18100"
    assert config.kv_events == "ipc:///tmp/run/inproc-kv-events"
    assert (config.model, config.model_revision, config.revision) == ("m", "c0ffee", pool.revision)
    assert (config.block_size, config.dp_size, config.drain_timeout) == (16, 1, 120.0)
    assert config.model_path is not None
    assert (config.model_path / "tokenizer.json").is_file()


def test_the_simulated_engine_understands_every_flag_it_is_given() -> None:
    pool = render_service(service(decode={"accelerator": "h100"}), options=local_options(engine_python="")).pools[1]
    container = engine(pool)
    environment = container_environment(container, VALUES)

    command = container_command(container, environment)
    options = parse_options(command[command.index("inferplane_workers.sim") + 1 :], environment)

    assert options.port == 18200
    assert options.profile.name == "h100-8b"
    assert options.transfer is not None
    assert (options.transfer.host, options.transfer.port) == ("127.0.0.1", 15600)


def test_a_machine_runs_vllm_with_its_own_interpreter() -> None:
    stock = engine(render_service(vllm()).pools[0])
    own = engine(render_service(vllm(), options=local_options(engine_python="/e/python")).pools[0])

    assert stock["args"][:3] == ["vllm", "serve", "/models/m"]
    assert own["args"][:5] == ["/e/python", "-m", "vllm.entrypoints.openai.api_server", "--model", "/models/m"]


def test_a_command_of_the_user_replaces_the_program() -> None:
    found = engine(render_service(vllm(engine={"type": "vllm", "command": ["/wrap", "serve"]})).pools[0])

    assert found["args"][:3] == ["/wrap", "serve", "/models/m"]


@pytest.mark.parametrize(
    ("source", "volume", "path"),
    [
        ({"path": "/models/m"}, {"hostPath": {"path": "/models/m", "type": "Directory"}}, "/models/m"),
        (
            {"pvc": {"claimName": "c", "path": "sub"}},
            {"persistentVolumeClaim": {"claimName": "c", "readOnly": True}},
            "/mnt/model/sub",
        ),
        ({"oci": "models/m:1"}, {"image": {"reference": "models/m:1", "pullPolicy": "IfNotPresent"}}, "/mnt/model"),
    ],
    ids=["path", "pvc", "oci"],
)
def test_weights_are_mounted_for_engine_and_agent(source: Any, volume: dict[str, Any], path: str) -> None:
    pool = render_service(vllm(model={"name": "m", "source": source})).pools[0]

    assert {"name": "model", **volume} in body(pool)["volumes"]
    assert path in engine(pool)["args"]
    assert path in agent(pool)["args"]
    assert {"name": "HF_HUB_OFFLINE", "value": "1"} in engine(pool)["env"]
    for container in (engine(pool), agent(pool)):
        assert "model" in [mount["name"] for mount in container["volumeMounts"]]


@pytest.mark.parametrize(
    ("engine_spec", "pool", "limits", "devices"),
    [
        ({"type": "vllm"}, {"parallelism": {"tensor": 2, "data": 2}}, {"nvidia.com/gpu": "4"}, 4),
        ({"type": "vllm", "device": "rocm", "image": "i"}, {}, {"amd.com/gpu": "1"}, 1),
        (
            {"type": "vllm"},
            {"resources": {"limits": {"nvidia.com/mig-3g.40gb": 1}}},
            {"nvidia.com/mig-3g.40gb": "1"},
            1,
        ),
        ({"type": "vllm", "device": "cpu"}, {}, None, 0),
        ({"type": "sim"}, {}, None, 0),
    ],
    ids=["gpus", "rocm", "mig", "cpu", "sim"],
)
def test_devices_are_asked_for_unless_the_user_does(
    engine_spec: Any, pool: Any, limits: dict[str, str] | None, devices: int
) -> None:
    rendered = render_service(vllm(engine=engine_spec, prefill=pool, decode=pool)).pools[0]

    assert limits == engine(rendered)["resources"].get("limits")
    assert devices == rendered.devices


def test_claims_reach_pod_and_container() -> None:
    claim = {"name": "gpu", "resourceClaimTemplateName": "h100"}
    pool = render_service(vllm(prefill={"resources": {"claims": [claim]}})).pools[0]

    assert body(pool)["resourceClaims"] == [claim]
    assert engine(pool)["resources"] == {"claims": [{"name": "gpu"}]}


def test_ranks_have_a_side_channel_port_each() -> None:
    pool = render_service(vllm(decode={"parallelism": {"data": 3}})).pools[1]

    assert [port["containerPort"] for port in engine(pool)["ports"]] == [5600, 5601, 5602]
    assert pool.data_parallel == 3


def test_adapters_are_offered_by_their_own_service_alone() -> None:
    mine = adapter("a", {"path": "/adapters/a"}, servedName="team/a", rank=8)
    hub = adapter("b", {"hf": "org/b"}, secretRef="hub")
    other = adapter("c", {"path": "/adapters/c"}, service="other")
    rendered = render_service(vllm(), adapters=[hub, mine, other])

    assert rendered.catalogue_service.served_names == ("m",)
    assert rendered.catalogue_service.adapters == ("b", "team/a")


def test_a_launch_error_names_the_field_of_the_resource() -> None:
    with pytest.raises(RenderError) as caught:
        render_service(vllm(engine={"type": "vllm", "args": ["--port", "1"]}))

    assert caught.value.path == "spec.engine.args[0]"


def test_arguments_of_a_pool_are_named_where_they_stand() -> None:
    wanted = vllm(
        engine={"type": "vllm", "args": ["--seed", "1"], "env": {"A": "1"}},
        decode={"engine": {"args": ["--seed=2", "--port=1"]}},
    )
    with pytest.raises(RenderError) as caught:
        render_service(wanted)

    assert caught.value.path == "spec.decode.engine.args[1]"


def test_an_engine_that_is_not_here_is_refused_with_those_that_are() -> None:
    here = local_options(engine_python="/engine/python")

    with pytest.raises(RenderError, match=r"spec\.engine\.type: sglang cannot be started here; use vllm or sim"):
        render_service(vllm(engine={"type": "sglang"}), options=here)
    assert render_service(vllm(engine={"type": "sglang", "command": ["my-sglang"]}), options=here)


def test_an_engine_without_a_default_image_asks_for_one() -> None:
    with pytest.raises(RenderError, match=r"spec\.engine\.image"):
        render_service(vllm(engine={"type": "vllm", "device": "xpu"}))


def test_two_renderings_share_nothing_that_can_be_changed() -> None:
    first, second = render_service(service()), render_service(service())
    engine(first.pools[0])["env"].clear()
    engine(first.pools[0])["livenessProbe"]["exec"]["command"].clear()

    assert engine(first.pools[0])["startupProbe"]["exec"]["command"]
    assert engine(second.pools[0])["env"]
    assert engine(first.pools[1])["env"]


def test_routes_carry_weights_and_the_canary_takes_its_percent() -> None:
    routes = [
        route("plain", aliases=["x", "y"], targets=[{"servedName": "a", "weight": 3}, {"servedName": "b"}]),
        route("tried", targets=[{"servedName": "a", "weight": 2}], canary={"servedName": "c", "percent": 5}),
    ]

    assert catalogue_routes(routes) == (
        CatalogueRoute(name="x", targets=(("a", 3), ("b", 1))),
        CatalogueRoute(name="y", targets=(("a", 3), ("b", 1))),
        CatalogueRoute(name="tried", targets=(("a", 190), ("c", 10))),
    )


def test_the_catalogue_carries_objective_and_routing() -> None:
    wanted = service(
        slo={"ttft": "300ms", "tpot": "20ms"},
        routing={"policy": "least-request", "queueLimit": 5, "queueTimeout": "3s", "exposeHeaders": True},
    )

    found = render_service(wanted).catalogue_service

    assert (found.ttft_s, found.tpot_s) == (0.3, 0.02)
    assert (found.policy, found.queue_limit, found.queue_timeout_s) == ("least-request", 5, 3.0)
    assert found.expose_headers


def test_the_router_is_configured_as_written_down() -> None:
    settings = RouterSettings(catalogue_file="/s/c.json", cache_dir="/c", http="127.0.0.1:0", report="/s/listen")

    assert router_config(settings) == {
        "listen": {"http": "127.0.0.1:0", "grpc": "0.0.0.0:9000", "metrics": "0.0.0.0:9090", "report": "/s/listen"},
        "discovery": {"file": "/s/c.json"},
        "cacheDir": "/c",
        "drainTimeoutS": 30.0,
    }


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("a$(X)b", "a1b"),
        ("$$(X)", "$(X)"),
        ("$(Y)", "$(Y)"),
        ("$X $$ $(X", "$X $ $(X"),
        ('{"e":"ipc://$(X)/s"}', '{"e":"ipc://1/s"}'),
    ],
)
def test_references_are_expanded_as_a_kubelet_does(text: str, expanded: str) -> None:
    assert expanded == expand(text, {"X": "1"})


def test_variables_may_refer_to_earlier_ones_only() -> None:
    container = {
        "env": [
            {"name": "A", "value": "$(B)"},
            {"name": "B", "value": "1"},
            {"name": "C", "value": "$(B)$(IP)"},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "B", "value": "2"},
        ]
    }

    assert container_environment(container, {}) == {"A": "$(B)", "B": "2", "C": "1$(IP)"}
    assert container_environment(container, {"IP": "::1"})["IP"] == "::1"


def test_images_can_be_pinned() -> None:
    pool = render_service(service(), options=RenderOptions(agent_image="mirror/worker@sha256:1")).pools[0]

    assert agent(pool)["image"] == "mirror/worker@sha256:1"


def test_what_a_user_tells_the_engine_of_prompts_its_agent_is_told_too() -> None:
    shared = {"type": "vllm", "args": ["--chat-template", "/t.jinja", "--seed", "1"]}
    own = {"engine": {"args": ["--default-chat-template-kwargs.enable_thinking=false"]}}
    prefill, decode = render_service(vllm(engine=shared, decode=own)).pools
    config = {pool.role: agent_config(pool) for pool in (prefill, decode)}

    assert config[WorkerRole.PREFILL].chat_template == "/t.jinja"
    assert config[WorkerRole.PREFILL].default_chat_template_kwargs is None
    assert config[WorkerRole.DECODE].default_chat_template_kwargs == {"enable_thinking": False}
