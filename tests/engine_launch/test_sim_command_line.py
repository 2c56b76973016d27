"""The simulated engine is started with vLLM's flags and its own, and understands all of them."""

from dataclasses import replace

import pytest

from inferplane_api.sim_faults import SimFaultKind
from inferplane_api.v1alpha1.engine import EngineType, SimFault, SimOptions
from inferplane_engine.launch import AdapterRoom, Addresses, EngineRole, LaunchError, LaunchSpec, launch
from inferplane_workers.sim.options import LoraOptions, parse_options

SPEC = LaunchSpec(
    engine=EngineType.SIM,
    role=EngineRole.DECODE,
    model="builtin",
    served_names=("m", "alias"),
    block_size=16,
    max_model_len=8192,
    max_num_seqs=32,
    max_num_batched_tokens=4096,
    data=2,
    tensor=2,
    expert=True,
    shutdown_timeout_s=30.0,
    addresses=Addresses(
        host="127.0.0.1",
        port="8200",
        side_channel_host="127.0.0.1",
        side_channel_port="5601",
        events="ipc:///run/inproc-e",
        replay="ipc:///run/inproc-r",
    ),
    adapters=AdapterRoom(4, 32),
    sim=SimOptions(
        profile="h100-8b",
        speed=10.0,
        seed=7,
        faults=(
            SimFault(kind=SimFaultKind.SLOW, after_s=1.5, duration_s=2.0, factor=3.0),
            SimFault(kind=SimFaultKind.ERROR, at_request=3, status=503),
        ),
    ),
)


def test_the_engine_understands_every_flag_it_is_given() -> None:
    started = launch(SPEC)

    options = parse_options(started.args, dict(started.env))

    assert options.served_names == ("m", "alias")
    assert (options.host, options.port) == ("127.0.0.1", 8200)
    assert (options.engine.block_size, options.engine.max_model_len) == (16, 8192)
    assert (options.engine.max_num_seqs, options.engine.max_num_batched_tokens) == (32, 4096)
    assert (options.ranks, options.speed, options.seed) == (2, 10.0, 7)
    assert options.prompt_tokens_details
    assert options.shutdown_timeout_s == 30.0
    assert options.lora == LoraOptions(enabled=True, runtime=True, max_rank=32)
    assert options.events is not None
    assert options.events.endpoint == "ipc:///run/inproc-e"
    assert options.events.replay_endpoint == "ipc:///run/inproc-r"
    assert options.transfer is not None
    assert (options.transfer.role, options.transfer.port) == ("kv_consumer", 5601)
    slow, error = options.faults
    assert (slow.kind, slow.after_s, slow.duration_s, slow.factor) == (SimFaultKind.SLOW, 1.5, 2.0, 3.0)
    assert (error.at_request, error.status) == (3, 503)


def test_each_start_draws_its_own_engine_id() -> None:
    started = launch(SPEC)

    ids = {
        transfer.engine_id
        for _ in range(2)
        if (transfer := parse_options(started.args, dict(started.env)).transfer) is not None
    }

    assert len(ids) == 2


def test_an_aggregated_engine_transfers_nothing() -> None:
    started = launch(replace(SPEC, role=EngineRole.AGGREGATED))

    assert parse_options(started.args, dict(started.env)).transfer is None


def test_an_unknown_profile_is_named_with_what_there_is() -> None:
    with pytest.raises(LaunchError, match=r"engine\.sim\.profile: 'warp' is not known; use one of .*h100-8b"):
        launch(replace(SPEC, sim=SimOptions(profile="warp")))


def test_overrides_are_refused_as_for_vllm() -> None:
    with pytest.raises(LaunchError, match="--port"):
        launch(replace(SPEC, args=("--port=1",)))
