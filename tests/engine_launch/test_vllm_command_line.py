"""vLLM is started with what the design asks for, and users cannot override it by accident."""

import json
from dataclasses import replace

import pytest

from inferplane_api.v1alpha1.engine import Device, EngineType
from inferplane_api.v1alpha1.speculation import SpeculationMethod
from inferplane_engine.launch import (
    AdapterRoom,
    Addresses,
    EngineRole,
    Group,
    Guesses,
    LaunchError,
    LaunchSpec,
    StoreLink,
    launch,
    rank_endpoint,
)
from inferplane_engine.launch.group import follower_arguments

SERVER = ("py", "-m", "vllm.entrypoints.openai.api_server")
SPEC = LaunchSpec(
    engine=EngineType.VLLM,
    role=EngineRole.PREFILL,
    model="/models/m",
    served_names=("m", "alias"),
    block_size=32,
    device=Device.CPU,
    addresses=Addresses(events="ipc:///run/inproc-e", replay="ipc:///run/inproc-r"),
)


def after(args: tuple[str, ...], flag: str) -> str:
    assert args.count(flag) == 1, f"{flag} in {args}"
    return args[args.index(flag) + 1]


@pytest.mark.parametrize(("role", "kv_role"), [(EngineRole.PREFILL, "kv_producer"), (EngineRole.DECODE, "kv_consumer")])
def test_a_role_of_a_pair_sets_up_the_transfer(role: EngineRole, kv_role: str) -> None:
    started = launch(replace(SPEC, role=role))

    config = json.loads(after(started.args, "--kv-transfer-config"))
    assert config == {
        "kv_connector": "NixlConnector",
        "kv_role": kv_role,
        "kv_load_failure_policy": "recompute",
        "kv_buffer_device": "cpu",
    }
    assert ("VLLM_NIXL_SIDE_CHANNEL_PORT", "5600") in started.env


def test_no_engine_id_is_given_so_that_each_start_draws_its_own() -> None:
    assert "engine_id" not in after(launch(SPEC).args, "--kv-transfer-config")


def test_an_aggregated_engine_transfers_nothing() -> None:
    started = launch(replace(SPEC, role=EngineRole.AGGREGATED))

    assert "--kv-transfer-config" not in started.args
    assert not [name for name, _ in started.env if "NIXL" in name]


def test_events_go_to_the_given_sockets_with_replay() -> None:
    config = json.loads(after(launch(SPEC).args, "--kv-events-config"))

    assert config == {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": "ipc:///run/inproc-e",
        "replay_endpoint": "ipc:///run/inproc-r",
    }


def test_ranks_need_a_socket_name_that_vllm_can_derive_from() -> None:
    spec = replace(SPEC, data=2, addresses=replace(SPEC.addresses, events="ipc:///run/events"))

    with pytest.raises(LaunchError, match="inproc"):
        launch(spec)
    assert rank_endpoint("ipc:///run/inproc-e", 1) == "ipc:///run/inproc-e_dp1"


def test_a_cpu_engine_is_started_the_fast_way() -> None:
    started = launch(SPEC)

    assert "--enforce-eager" in started.args
    assert after(started.args, "--distributed-executor-backend") == "uni"
    assert dict(started.env)["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"


def test_an_accelerator_engine_keeps_its_own_defaults() -> None:
    started = launch(replace(SPEC, device=Device.CUDA, tensor=2, pipeline=2, data=4, expert=True))

    assert "--enforce-eager" not in started.args
    assert "kv_buffer_device" not in after(started.args, "--kv-transfer-config")
    assert after(started.args, "--tensor-parallel-size") == "2"
    assert after(started.args, "--pipeline-parallel-size") == "2"
    assert after(started.args, "--data-parallel-size") == "4"
    assert "--enable-expert-parallel" in started.args


@pytest.mark.parametrize(
    ("program", "begin"),
    [
        ((), ("vllm", "serve", "/models/m", "--served-model-name")),
        (SERVER, (*SERVER, "--model", "/models/m")),
    ],
    ids=["stock", "module"],
)
def test_the_model_is_named_as_the_program_wants_it(program: tuple[str, ...], begin: tuple[str, ...]) -> None:
    argv = launch(replace(SPEC, program=program)).argv

    assert begin == argv[: len(begin)]


def test_there_is_room_for_adapters_and_one_more() -> None:
    started = launch(replace(SPEC, adapters=AdapterRoom(2, 32)))

    assert after(started.args, "--max-lora-rank") == "32"
    assert after(started.args, "--max-loras") == "2"
    assert after(started.args, "--max-cpu-loras") == "3"
    assert dict(started.env)["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "True"
    without = launch(SPEC)
    assert "--enable-lora" not in without.args
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING" not in dict(without.env)


def test_user_arguments_come_last_and_user_variables_win() -> None:
    started = launch(
        replace(SPEC, args=("--gpu-memory-utilization", "0.8"), env=(("VLLM_CPU_OMP_THREADS_BIND", "0-3"),))
    )

    assert started.args[-2:] == ("--gpu-memory-utilization", "0.8")
    assert dict(started.env)["VLLM_CPU_OMP_THREADS_BIND"] == "0-3"


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("--port=1", "--port"),
        ("--host", "--host"),
        ("--ho", "--host"),
        ("--kv-transfer-config", "--kv-transfer-config"),
        ("--kv_transfer_config={}", "--kv-transfer-config"),
        ("--kv-transfer-config.kv_role", "--kv-transfer-config"),
        ("--kv-events-config.topic=x", "--kv-events-config"),
        ("--served-model-name", "spec.model.servedNames"),
        ("--served", "spec.model.servedNames"),
        ("--block-size", "spec.engine.blockSize"),
        ("--block_size=16", "spec.engine.blockSize"),
        ("-tp", "parallelism.tensor"),
        ("-tp=2", "parallelism.tensor"),
        ("--tensor-parallel-size=2", "parallelism.tensor"),
        ("--no-enable-prefix-caching", "spec.engine.prefixCaching"),
        ("--config", "write the arguments of that file here"),
        ("--uds=/x", "--uds"),
        ("--api-key", "reachable by its agent alone"),
        ("--lora-modules", "use a LoRAAdapter"),
        ("--max-model-len", "spec.engine.maxModelLen"),
    ],
)
def test_what_must_stay_fixed_cannot_be_overridden(argument: str, says: str) -> None:
    with pytest.raises(LaunchError) as caught:
        launch(replace(SPEC, args=("--seed", "1", argument)))

    assert caught.value.field == "engine.args[2]"
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "argument",
    [
        "--gpu-memory-utilization",
        "--model-impl",
        "--max-num-queued-reqs",
        "--revisions",
        "--hf-overrides",
        "0.9",
        "-O3",
        "--dtypes",
    ],
)
def test_what_is_not_ours_goes_through(argument: str) -> None:
    assert argument in launch(replace(SPEC, args=(argument,))).args


@pytest.mark.parametrize("name", ["VLLM_NIXL_SIDE_CHANNEL_PORT", "HF_HOME", "VLLM_API_KEY", "VLLM_SERVER_DEV_MODE"])
def test_fixed_variables_cannot_be_overridden(name: str) -> None:
    with pytest.raises(LaunchError) as caught:
        launch(replace(SPEC, env=((name, "1"),)))

    assert caught.value.field == f"engine.env.{name}"


@pytest.mark.parametrize(
    ("guesses", "config"),
    [
        (Guesses(SpeculationMethod.NGRAM, 4), {"method": "ngram", "num_speculative_tokens": 4}),
        (Guesses(SpeculationMethod.MTP, 1), {"method": "mtp", "num_speculative_tokens": 1}),
        (
            Guesses(SpeculationMethod.DRAFT, 3, "org/d", "v1"),
            {"method": "draft_model", "num_speculative_tokens": 3, "model": "org/d", "revision": "v1"},
        ),
    ],
    ids=["ngram", "mtp", "draft"],
)
def test_guesses_become_a_configuration(guesses: Guesses, config: dict[str, object]) -> None:
    assert json.loads(after(launch(replace(SPEC, guesses=guesses)).args, "--speculative-config")) == config


@pytest.mark.parametrize("argument", ["--speculative-config={}", "-sc", "--spec-tokens"])
def test_guesses_are_said_in_one_place(argument: str) -> None:
    assert launch(replace(SPEC, args=(argument,))).args[-1] == argument

    with pytest.raises(LaunchError, match="not in both"):
        launch(replace(SPEC, guesses=Guesses(SpeculationMethod.NGRAM, 4), args=(argument,)))


@pytest.mark.parametrize(
    "argument",
    ["--nnodes=2", "-n", "--node-rank", "--master-addr=x", "--data-parallel-size-local=1", "-dpr", "--download-dir=/x"],
)
def test_nodes_and_places_are_not_the_users(argument: str) -> None:
    with pytest.raises(LaunchError):
        launch(replace(SPEC, args=(argument,)))


def test_other_nodes_have_the_same_engine_with_a_rank_of_their_own_and_no_server() -> None:
    leader = launch(replace(SPEC, device=Device.CUDA, tensor=16, group=Group(2, "first"))).args
    other = follower_arguments(leader, "$(RANK)")

    assert after(leader, "--node-rank") == "0"
    assert after(leader, "--master-addr") == "first"
    assert "--headless" not in leader
    assert after(tuple(other), "--node-rank") == "$(RANK)"
    assert other[-1] == "--headless"
    assert len(other) == len(leader) + 1


def test_only_the_serving_command_knows_several_nodes() -> None:
    with pytest.raises(LaunchError, match=r"engine\.command: only `vllm serve` runs on several nodes"):
        launch(replace(SPEC, program=SERVER, group=Group(2, "first")))


STORE = StoreLink("/run/kv.sock", "/run/secret", "org/m", revision="r1")


def connector_of(config: dict[str, object]) -> tuple[object, object]:
    return config["kv_connector"], config["kv_role"]


def test_an_aggregated_engine_with_a_store_has_its_connector_alone() -> None:
    started = launch(replace(SPEC, role=EngineRole.AGGREGATED, store=STORE))
    config = json.loads(after(started.args, "--kv-transfer-config"))

    assert connector_of(config) == ("InferplaneConnector", "kv_both")
    assert config["kv_load_failure_policy"] == "recompute"
    assert config["kv_connector_extra_config"] == {
        "socket": "/run/kv.sock",
        "secret_file": "/run/secret",
        "model": "org/m",
        "revision": "r1",
    }


@pytest.mark.parametrize("role", [EngineRole.PREFILL, EngineRole.DECODE])
def test_an_engine_of_a_pair_asks_its_peer_before_the_store(role: EngineRole) -> None:
    config = json.loads(after(launch(replace(SPEC, role=role, store=STORE)).args, "--kv-transfer-config"))
    alone = json.loads(after(launch(replace(SPEC, role=role)).args, "--kv-transfer-config"))
    peers, store = config["kv_connector_extra_config"]["connectors"]

    assert connector_of(config) == ("MultiConnector", "kv_both")
    assert config["kv_load_failure_policy"] == "recompute"
    assert peers == alone
    assert connector_of(store) == ("InferplaneConnector", "kv_both")
