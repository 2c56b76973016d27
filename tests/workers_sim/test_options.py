"""vLLM's flags are understood, and wrong ones are named."""

import pytest

from inferplane_engine.sim.config import GroupKind, LoadFailurePolicy
from inferplane_workers.sim.options import OptionsError, SimOptions, parse_options

TRANSFER = (
    '{"kv_connector":"NixlConnector","kv_role":"kv_consumer",'
    '"kv_load_failure_policy":"recompute","kv_buffer_device":"cpu"}'
)


def parse(*flags: str, **environment: str) -> SimOptions:
    return parse_options(flags, environment)


def test_what_is_rendered_for_vllm_is_understood() -> None:
    options = parse(
        *("--model", "builtin", "--served-model-name", "a", "b", "--host", "127.0.0.1", "--port", "8200"),
        *("--block-size", "32", "--dtype", "auto", "--kv-cache-dtype", "auto", "--max-model-len", "4096"),
        *("--kv-cache-memory-bytes", "1073741824", "--max-num-seqs", "8", "--max-num-batched-tokens", "512"),
        *("--enable-prefix-caching", "--enable-prompt-tokens-details", "--shutdown-timeout", "30"),
        *(
            "--kv-events-config",
            '{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"ipc:///e","replay_endpoint":"ipc:///r"}',
        ),
        *(
            "--kv-transfer-config",
            TRANSFER,
            "--enable-lora",
            "--max-loras",
            "1",
            "--lora-modules",
            '{"name":"l","path":"/l"}',
        ),
        *("--sim-speed", "10", "--sim-seed", "7", "--sim-profile", "h100"),
        VLLM_NIXL_SIDE_CHANNEL_HOST="10.0.0.1",
        VLLM_NIXL_SIDE_CHANNEL_PORT="5601",
    )

    assert options.served_names == ("a", "b")
    assert (options.engine.block_size, options.engine.max_model_len) == (32, 4096)
    assert options.engine.load_failure is LoadFailurePolicy.RECOMPUTE
    assert options.profile.name == "h100-8b"
    assert options.events is not None
    assert options.events.replay_endpoint == "ipc:///r"
    assert options.transfer is not None
    assert (options.transfer.host, options.transfer.port) == ("10.0.0.1", 5601)
    assert [adapter.name for adapter in options.adapters] == ["l"]


def test_engine_ids_differ_between_starts() -> None:
    ids = {parse("--kv-transfer-config", TRANSFER).transfer for _ in range(2)}

    assert len(ids) == 2


def test_memory_makes_blocks() -> None:
    engine = parse("--kv-cache-memory-bytes", str(2048 * 16 * 100)).engine

    assert (engine.blocks, engine.max_model_len) == (101, 1600)


def test_a_window_makes_a_hybrid_model() -> None:
    groups = parse("--sim-sliding-window", "64", "--max-model-len", "4096").engine.groups

    assert [group.kind for group in groups] == [GroupKind.FULL, GroupKind.SLIDING]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--sim-speed", "0"), "--sim-speed"),
        (("--data-parallel-size", "0"), "--data-parallel-size"),
        (("--block-size", "0"), "--block-size"),
        (("--kv-events-config", "{"), "--kv-events-config: not JSON"),
        (("--kv-events-config", "[]"), "--kv-events-config: a JSON object"),
        (("--kv-transfer-config", '{"kv_role":"kv_both","kv_load_failure_policy":"hope"}'), "hope"),
        (("--lora-modules", "noname"), "--lora-modules"),
        (("--sim-fault", '{"kind":"x"}'), "--sim-fault: kind"),
        (("--faults", "{}"), "--faults: a JSON list"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_values_are_named(flags: tuple[str, ...], words: str) -> None:
    with pytest.raises(OptionsError, match=words.replace("[", r"\[")):
        parse(*flags)


def test_a_side_channel_port_is_a_number() -> None:
    with pytest.raises(OptionsError, match="VLLM_NIXL_SIDE_CHANNEL_PORT"):
        parse("--kv-transfer-config", TRANSFER, VLLM_NIXL_SIDE_CHANNEL_PORT="x")
