"""SGLang is started as its documentation says; nobody has run it, so this is a contract and no more."""

import json
from dataclasses import replace

import pytest

from inferplane_api.v1alpha1.engine import Device, EngineType
from inferplane_api.v1alpha1.speculation import SpeculationMethod
from inferplane_engine.capabilities import Capability, capabilities_of
from inferplane_engine.launch import AdapterRoom, Addresses, EngineRole, Group, Guesses, LaunchError, LaunchSpec, launch
from inferplane_engine.verification import Degree, Unverified, Use, unverified

SPEC = LaunchSpec(
    engine=EngineType.SGLANG,
    role=EngineRole.PREFILL,
    model="/models/m",
    served_names=("m",),
    block_size=16,
    addresses=Addresses(
        bind_host="::",
        side_channel_host="10.0.0.7",
        side_channel_port="8998",
        events="ipc:///run/inproc-e",
        replay="ipc:///run/inproc-r",
    ),
)
DECODE = replace(SPEC, role=EngineRole.DECODE)
AGGREGATED = replace(SPEC, role=EngineRole.AGGREGATED)


def after(args: tuple[str, ...], flag: str) -> str:
    assert args.count(flag) == 1, f"{flag} in {args}"
    return args[args.index(flag) + 1]


def test_a_prefill_engine_offers_its_bootstrap_to_decode_engines() -> None:
    started = launch(SPEC)

    assert started.program == ("python3", "-m", "sglang.launch_server")
    assert after(started.args, "--disaggregation-mode") == "prefill"
    assert after(started.args, "--disaggregation-transfer-backend") == "nixl"
    assert after(started.args, "--disaggregation-bootstrap-port") == "8998"
    assert after(started.args, "--host") == "::", "its bootstrap listens where its HTTP server does"
    assert dict(started.env)["SGLANG_HOST_IP"] == "10.0.0.7"


def test_a_decode_engine_is_its_agents_alone() -> None:
    args = launch(DECODE).args

    assert after(args, "--disaggregation-mode") == "decode"
    assert after(args, "--host") == "127.0.0.1"
    assert "--disaggregation-bootstrap-port" not in args


def test_an_aggregated_engine_transfers_nothing() -> None:
    started = launch(AGGREGATED)

    assert not [argument for argument in started.args if argument.startswith("--disaggregation")]
    assert after(started.args, "--host") == "127.0.0.1"
    assert "SGLANG_HOST_IP" not in dict(started.env)


def test_events_tell_salts_and_adapters_apart() -> None:
    assert json.loads(after(launch(SPEC).args, "--kv-events-config")) == {
        "publisher": "zmq",
        "format": "dynamo",
        "endpoint": "ipc:///run/inproc-e",
        "bind": True,
        "replay_endpoint": "ipc:///run/inproc-r",
    }
    assert "--kv-events-config" not in launch(replace(SPEC, addresses=Addresses())).args


def test_ranks_need_a_socket_name_that_sglang_can_derive_from() -> None:
    with pytest.raises(LaunchError, match="inproc"):
        launch(replace(SPEC, data=2, addresses=Addresses(events="ipc:///run/events")))


@pytest.mark.parametrize(
    ("spec", "flags"),
    [
        (replace(SPEC, tensor=4), {"--tp-size": "4"}),
        (replace(SPEC, tensor=2, data=3, pipeline=2), {"--tp-size": "2", "--dp-size": "3", "--pp-size": "2"}),
        (replace(SPEC, tensor=2, expert=True), {"--tp-size": "2", "--ep-size": "2"}),
        (
            replace(SPEC, tensor=2, data=4, expert=True),
            {"--tp-size": "8", "--attn-dp-size": "4", "--ep-size": "8"},
        ),
        (replace(SPEC, device=Device.ROCM), {"--device": "cuda"}),
        (replace(SPEC, kv_cache_dtype="fp8"), {"--kv-cache-dtype": "fp8_e4m3"}),
        (replace(SPEC, kv_cache_dtype="fp8_e5m2", dtype="bfloat16"), {"--kv-cache-dtype": "fp8_e5m2"}),
        (
            replace(SPEC, max_model_len=4096, max_num_seqs=8, max_num_batched_tokens=2048),
            {
                "--context-length": "4096",
                "--max-running-requests": "8",
                "--chunked-prefill-size": "2048",
                "--max-prefill-tokens": "2048",
            },
        ),
        (SPEC, {"--page-size": "16", "--served-model-name": "m", "--model-path": "/models/m"}),
    ],
    ids=["tp", "tp-dp-pp", "ep", "ep-dp", "rocm", "fp8", "fp8-kind", "sizes", "block"],
)
def test_the_spec_becomes_its_flags(spec: LaunchSpec, flags: dict[str, str]) -> None:
    args = launch(spec).args

    assert flags == {flag: after(args, flag) for flag in flags}
    sizes = {"--tp-size", "--dp-size", "--pp-size", "--attn-dp-size", "--ep-size"}
    assert sizes & set(args) == sizes & set(flags)


def test_cached_tokens_are_reported_and_the_cache_can_be_off() -> None:
    assert "--enable-cache-report" in launch(SPEC).args
    assert "--disable-radix-cache" not in launch(SPEC).args
    assert "--disable-radix-cache" in launch(replace(SPEC, prefix_caching=False)).args


def test_there_is_room_for_adapters_and_one_more() -> None:
    args = launch(replace(AGGREGATED, adapters=AdapterRoom(2, 32))).args

    assert after(args, "--max-lora-rank") == "32"
    assert after(args, "--max-loras-per-batch") == "3"
    assert after(args, "--max-loaded-loras") == "3"
    assert after(args, "--lora-target-modules") == "all"
    assert "--enable-lora" not in launch(AGGREGATED).args


def test_weights_on_disk_ask_no_hub() -> None:
    started = launch(replace(AGGREGATED, offline=True, revision="main", trust_remote_code=True))

    assert dict(started.env)["HF_HUB_OFFLINE"] == "1"
    assert after(started.args, "--revision") == "main"
    assert "--trust-remote-code" in started.args


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (replace(SPEC, served_names=("a", "b")), "model.servedNames"),
        (replace(SPEC, kv_cache_memory_bytes=2**30), "engine.kvCacheMemory"),
    ],
    ids=["names", "memory"],
)
def test_what_sglang_cannot_do_names_field_and_fix(spec: LaunchSpec, field: str) -> None:
    with pytest.raises(LaunchError) as caught:
        launch(spec)

    assert caught.value.field == field
    assert caught.value.fix


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("--port=1", "remove it"),
        ("--page-size", "spec.engine.blockSize"),
        ("--tp", "parallelism.tensor"),
        ("--ep", "parallelism.expert"),
        ("--model", "use spec.model"),
        ("--disaggregation-mode=null", "spec.mode"),
        ("--kv-events-config={}", "remove it"),
        ("--lora-paths", "use a LoRAAdapter"),
        ("--api-key", "reachable by its agent alone"),
    ],
)
def test_what_must_stay_fixed_cannot_be_overridden(argument: str, says: str) -> None:
    with pytest.raises(LaunchError) as caught:
        launch(replace(SPEC, args=(argument,)))

    assert caught.value.field == "engine.args[0]"
    assert says in caught.value.fix


def test_asking_after_its_health_costs_no_token() -> None:
    assert dict(launch(SPEC).env)["SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION"] == "false"


@pytest.mark.parametrize(
    ("guesses", "flags"),
    [
        (
            Guesses(SpeculationMethod.NGRAM, 4),
            {"--speculative-algorithm": "NGRAM", "--speculative-num-draft-tokens": "5"},
        ),
        (
            Guesses(SpeculationMethod.EAGLE3, 3, "/e", "c0ffee"),
            {
                "--speculative-algorithm": "EAGLE3",
                "--speculative-draft-model-path": "/e",
                "--speculative-draft-model-revision": "c0ffee",
                "--speculative-num-steps": "3",
                "--speculative-eagle-topk": "1",
                "--speculative-num-draft-tokens": "4",
            },
        ),
        (Guesses(SpeculationMethod.MTP, 1), {"--speculative-algorithm": "NEXTN", "--speculative-num-steps": "1"}),
        (Guesses(SpeculationMethod.DRAFT, 2, "/d"), {"--speculative-algorithm": "STANDALONE"}),
    ],
    ids=["ngram", "eagle3", "mtp", "draft"],
)
def test_guesses_become_their_flags(guesses: Guesses, flags: dict[str, str]) -> None:
    args = launch(replace(SPEC, guesses=guesses)).args

    assert flags == {flag: after(args, flag) for flag in flags}


def test_guesses_are_said_in_one_place() -> None:
    twice = replace(SPEC, guesses=Guesses(SpeculationMethod.NGRAM, 4), args=("--speculative-num-steps=2",))

    with pytest.raises(LaunchError, match=r"say it in spec\.engine\.speculation or in the arguments, not in both"):
        launch(twice)


def test_nodes_of_one_engine_meet_at_the_first() -> None:
    args = launch(replace(SPEC, tensor=16, group=Group(2, "leader"))).args

    assert [after(args, flag) for flag in ("--nnodes", "--node-rank", "--dist-init-addr")] == ["2", "0", "leader:5000"]
    assert "--nnodes" not in launch(SPEC).args


@pytest.mark.parametrize(
    "arguments",
    [
        ("--mem-fraction-static", "0.8"),
        ("--disaggregation-transfer-backend", "mooncake"),
        ("--disaggregation-decode-enable-radix-cache",),
        ("--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3"),
        ("--quantization", "fp8"),
        ("--block-size",),
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_is_not_ours_comes_last(arguments: tuple[str, ...]) -> None:
    assert launch(replace(DECODE, args=arguments)).args[-len(arguments) :] == arguments


def test_variables_that_name_the_worker_are_fixed() -> None:
    with pytest.raises(LaunchError) as caught:
        launch(replace(SPEC, env=(("SGLANG_HOST_IP", "1.2.3.4"),)))

    assert caught.value.field == "engine.env.SGLANG_HOST_IP"


def test_its_two_halves_are_sent_at_once_and_decode_cannot_stand_in() -> None:
    flags = capabilities_of(EngineType.SGLANG)

    assert Capability.HANDOFF_CONCURRENT in flags
    assert Capability.DECODE_CAN_PREFILL not in flags


@pytest.mark.parametrize(
    ("use", "found"),
    [
        (Use(EngineType.SIM, Device.CUDA, ranks=2, devices=2), ()),
        (Use(EngineType.VLLM, Device.CPU, hands_over=True), ()),
        (
            Use(EngineType.VLLM, Device.CUDA, hands_over=True),
            (
                Unverified("CUDA devices", Degree.NEVER_RUN),
                Unverified("KV transfer between devices", Degree.NEVER_RUN),
            ),
        ),
        (Use(EngineType.SGLANG, Device.CPU), (Unverified("SGLang", Degree.CONTRACT_ONLY),)),
        (
            Use(EngineType.VLLM, Device.CPU, devices=4, ranks=2, adapters=True),
            (
                Unverified("data-parallel ranks", Degree.CONTRACT_ONLY),
                Unverified("tensor or pipeline parallelism", Degree.CONTRACT_ONLY),
            ),
        ),
        (
            Use(EngineType.VLLM, Device.CUDA, adapters=True),
            (Unverified("CUDA devices", Degree.NEVER_RUN), Unverified("LoRA adapters", Degree.CONTRACT_ONLY)),
        ),
    ],
    ids=["sim", "cpu", "cuda", "sglang", "parallel", "adapters"],
)
def test_what_nobody_has_run_is_said(use: Use, found: tuple[Unverified, ...]) -> None:
    assert found == unverified(use)
