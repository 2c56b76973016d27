"""The installed vLLM parses every flag that is rendered, and derives the endpoints that the agent listens to."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from inferplane_api.v1alpha1.engine import Device, EngineType
from inferplane_api.v1alpha1.speculation import SpeculationMethod
from inferplane_engine.launch import (
    AdapterRoom,
    Addresses,
    EngineRole,
    FleetKind,
    FleetStore,
    Group,
    Guesses,
    LaunchSpec,
    StoreLink,
    launch,
    rank_endpoint,
)
from inferplane_engine.launch.group import follower_arguments
from inferplane_engine.launch.stores import vllm_mooncake_settings

PYTHON = Path(__file__).parents[2] / ".venv-engine" / "bin" / "python"
PROGRAM = ("python", "-m", "vllm.entrypoints.openai.api_server")
EVENTS = "ipc:///run/inproc-e"
SPEC = LaunchSpec(
    engine=EngineType.VLLM,
    role=EngineRole.PREFILL,
    model="/models/m",
    program=PROGRAM,
    served_names=("m", "alias"),
    block_size=32,
    device=Device.CPU,
    dtype="float32",
    max_model_len=4096,
    kv_cache_memory_bytes=2**28,
    max_num_seqs=8,
    max_num_batched_tokens=4096,
    revision="main",
    trust_remote_code=True,
    shutdown_timeout_s=30.0,
    addresses=Addresses(events=EVENTS, replay="ipc:///run/inproc-r"),
    adapters=AdapterRoom(4, 16),
)
SPREAD = replace(
    SPEC,
    program=("vllm", "serve"),
    role=EngineRole.DECODE,
    device=Device.CUDA,
    adapters=None,
    tensor=8,
    pipeline=2,
    group=Group(2, "leader.ns"),
    kv_cache_dtype="fp8",
    guesses=Guesses(SpeculationMethod.EAGLE3, 3, "/e"),
)
SPECS = (
    SPEC,
    replace(SPEC, role=EngineRole.DECODE, prefix_caching=False),
    replace(SPEC, device=Device.CUDA, tensor=2, pipeline=2, data=2, expert=True, role=EngineRole.AGGREGATED),
)
MOONCAKE = FleetStore(FleetKind.MOONCAKE, "master", 50051, "rdma", 4 << 30, "/etc/client.json")
STORED = replace(
    SPEC,
    adapters=None,
    store=StoreLink("/run/kv.sock", "/run/secret", "org/m"),
    fleet=(MOONCAKE, FleetStore(FleetKind.LMCACHE, "node", 5555)),
)
PARSE = """
import dataclasses, json, sys
from vllm.config import KVTransferConfig
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.mooncake_store import MooncakeStoreConfig
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.distributed.kv_events import ZmqEventPublisher
FIELDS = ["model", "host", "port", "served_model_name", "block_size", "dtype", "max_model_len", "kv_cache_memory_bytes",
          "enable_prefix_caching", "enable_prompt_tokens_details", "tensor_parallel_size", "pipeline_parallel_size",
          "data_parallel_size", "enable_expert_parallel", "shutdown_timeout", "enforce_eager", "revision",
          "distributed_executor_backend", "enable_lora", "max_loras", "max_cpu_loras", "max_lora_rank", "max_num_seqs",
          "max_num_batched_tokens", "nnodes", "node_rank", "master_addr", "master_port", "headless",
          "kv_cache_dtype", "speculative_config"]
def names(config):
    children = (config.kv_connector_extra_config or {}).get("connectors", []) if config else []
    return [name for name in (KVTransferConfig(**child, engine_id="x").kv_connector for child in children)
            if name in KVConnectorFactory._registry or name == "InferplaneConnector"]
results = []
for args in json.loads(sys.argv[1]):
    parsed = make_arg_parser(FlexibleArgumentParser()).parse_args(args)
    validate_parsed_serve_args(parsed)
    results.append({name: getattr(parsed, name) for name in FIELDS} | {
        "events": parsed.kv_events_config.endpoint,
        "replay": parsed.kv_events_config.replay_endpoint,
        "transfer": parsed.kv_transfer_config and [parsed.kv_transfer_config.kv_role,
                                                   parsed.kv_transfer_config.kv_load_failure_policy],
        "connectors": names(parsed.kv_transfer_config),
        "ids": parsed.kv_transfer_config and parsed.kv_transfer_config.engine_id,
        "binds": ZmqEventPublisher._is_bind_endpoint(parsed.kv_events_config.endpoint),
        "rank1": ZmqEventPublisher.offset_endpoint_port(parsed.kv_events_config.endpoint, 1),
    })
results.append(dataclasses.asdict(MooncakeStoreConfig.from_file(sys.argv[2])))
print("RESULT" + json.dumps(results, default=str))
"""

pytestmark = [
    pytest.mark.engine,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not PYTHON.exists(), reason="needs a real engine: make engine"),
]


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    spread = launch(SPREAD).args
    every = [*(launch(spec).args for spec in SPECS), spread, follower_arguments(spread, "1"), launch(STORED).args]
    client = tmp_path_factory.mktemp("mooncake") / "client.json"
    client.write_text(json.dumps(vllm_mooncake_settings(MOONCAKE, ranks=2)))
    command = [str(PYTHON), "-c", PARSE, json.dumps(every), str(client)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    results: list[dict[str, object]] = json.loads(done.stdout.rpartition("RESULT")[2])
    return results


def test_every_flag_arrives(parsed: list[dict[str, object]]) -> None:
    prefill, decode, wide, *_ = parsed

    expected = {
        "model": "/models/m",
        "host": "127.0.0.1",
        "port": 8200,
        "served_model_name": ["m", "alias"],
        "block_size": 32,
        "dtype": "float32",
        "max_model_len": 4096,
        "kv_cache_memory_bytes": 2**28,
        "enable_prefix_caching": True,
        "enable_prompt_tokens_details": True,
        "shutdown_timeout": 30,
        "enforce_eager": True,
        "revision": "main",
        "distributed_executor_backend": "uni",
        "enable_lora": True,
        "max_loras": 4,
        "max_cpu_loras": 5,
        "max_lora_rank": 16,
        "max_num_seqs": 8,
        "max_num_batched_tokens": 4096,
        "transfer": ["kv_producer", "recompute"],
    }
    assert expected == {name: prefill[name] for name in expected}
    assert decode["transfer"] == ["kv_consumer", "recompute"]
    assert decode["enable_prefix_caching"] is False
    assert wide["transfer"] is None
    sizes = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "enable_expert_parallel")
    assert [wide[name] for name in sizes] == [2, 2, 2, True]


def test_one_engine_on_two_nodes_guesses_and_keeps_small_blocks(parsed: list[dict[str, object]]) -> None:
    leader, follower = parsed[3:5]
    names = ("nnodes", "node_rank", "master_addr", "master_port", "headless", "distributed_executor_backend")

    assert [leader[name] for name in names] == [2, 0, "leader.ns", 29501, False, "mp"]
    assert [follower[name] for name in names] == [2, 1, "leader.ns", 29501, True, "mp"]
    assert leader["kv_cache_dtype"] == "fp8"
    assert leader["speculative_config"] == {"method": "eagle3", "num_speculative_tokens": 3, "model": "/e"}


def test_the_stores_of_others_are_connectors_that_it_has(parsed: list[dict[str, object]]) -> None:
    stored, client = parsed[5:]

    assert stored["connectors"] == [
        "NixlConnector",
        "InferplaneConnector",
        "MooncakeStoreConnector",
        "LMCacheMPConnector",
    ]
    assert client["master_server_address"] == "master:50051"
    assert (client["protocol"], client["mode"], client["global_segment_size"]) == ("rdma", "embedded", 2 << 30)


def test_an_engine_id_is_drawn_for_each_start(parsed: list[dict[str, object]]) -> None:
    assert parsed[0]["ids"]
    assert parsed[0]["ids"] != parsed[1]["ids"]


def test_ranks_publish_where_the_agent_listens(parsed: list[dict[str, object]]) -> None:
    assert parsed[0]["binds"] is True
    assert parsed[0]["events"] == EVENTS
    assert parsed[0]["rank1"] == rank_endpoint(EVENTS, 1)
