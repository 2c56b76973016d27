"""Mooncake, LMCache and SGLang's own cache are configured as their documentation says: a contract and no more."""

import json
from dataclasses import replace

import pytest

from inferplane_api.v1alpha1.engine import EngineType
from inferplane_engine.launch import (
    EngineRole,
    FleetKind,
    FleetStore,
    HostCache,
    Launch,
    LaunchError,
    LaunchSpec,
    StoreLink,
    launch,
)
from inferplane_engine.launch.stores import vllm_mooncake_settings

VLLM = LaunchSpec(
    engine=EngineType.VLLM, role=EngineRole.AGGREGATED, model="/m", served_names=("m",), block_size=16, tensor=2
)
SGLANG = replace(VLLM, engine=EngineType.SGLANG)
LMCACHE = FleetStore(FleetKind.LMCACHE, "node", 5555)
MOONCAKE = FleetStore(FleetKind.MOONCAKE, "master", 50051, "rdma", 8 << 30, "/etc/client.json")
OURS = StoreLink("/run/kv.sock", "/run/secret", "org/m")
GB = 10**9


def after(started: Launch, flag: str) -> str:
    assert started.args.count(flag) == 1, f"{flag} in {started.args}"
    return started.args[started.args.index(flag) + 1]


def connectors(spec: LaunchSpec) -> list[str]:
    config = json.loads(after(launch(spec), "--kv-transfer-config"))
    return [each["kv_connector"] for each in config["kv_connector_extra_config"]["connectors"]]


def test_lmcache_alone_is_the_engines_only_connector() -> None:
    config = json.loads(after(launch(replace(VLLM, fleet=(LMCACHE,))), "--kv-transfer-config"))

    assert config == {
        "kv_connector": "LMCacheMPConnector",
        "kv_connector_extra_config": {"lmcache.mp.host": "tcp://node", "lmcache.mp.port": 5555},
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
    }


def test_peers_come_first_then_our_store_then_those_of_others() -> None:
    spec = replace(VLLM, role=EngineRole.DECODE, store=OURS, fleet=(MOONCAKE, LMCACHE))

    assert connectors(spec) == ["NixlConnector", "InferplaneConnector", "MooncakeStoreConnector", "LMCacheMPConnector"]


def test_vllms_ranks_share_what_an_engine_gives_to_mooncake() -> None:
    assert vllm_mooncake_settings(MOONCAKE, ranks=2) == {
        "metadata_server": "P2PHANDSHAKE",
        "master_server_address": "master:50051",
        "protocol": "rdma",
        "device_name": "",
        "global_segment_size": 4 << 30,
        "mode": "embedded",
    }


def test_an_engine_that_gives_no_memory_leaves_it_to_mooncakes_own_processes() -> None:
    assert vllm_mooncake_settings(replace(MOONCAKE, given_bytes=0), ranks=2)["mode"] == "standalone-store"


def test_a_users_own_file_for_mooncake_is_kept() -> None:
    ours = launch(replace(VLLM, fleet=(MOONCAKE,)))
    theirs = launch(replace(VLLM, fleet=(MOONCAKE,), env=(("MOONCAKE_CONFIG_PATH", "/mine"),)))

    assert dict(ours.env)["MOONCAKE_CONFIG_PATH"] == "/etc/client.json"
    assert dict(theirs.env)["MOONCAKE_CONFIG_PATH"] == "/mine"


def test_sglangs_ranks_share_the_memory_and_the_disk_is_a_folder_with_a_limit() -> None:
    started = launch(replace(SGLANG, host_cache=HostCache(65 * GB, "/kv", 300 * GB)))

    assert "--enable-hierarchical-cache" in started.args
    assert after(started, "--hicache-size") == "32"
    assert after(started, "--hicache-storage-backend") == "file"
    assert dict(started.env)["SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"] == "/kv"
    assert dict(started.env)["SGLANG_HICACHE_FILE_BACKEND_MAX_SIZE"] == str(300 * GB)


def test_mooncake_stands_behind_sglangs_memory() -> None:
    started = launch(replace(SGLANG, host_cache=HostCache(64 * GB), fleet=(MOONCAKE,)))
    told = json.loads(after(started, "--hicache-storage-backend-extra-config"))

    assert after(started, "--hicache-storage-backend") == "mooncake"
    assert told["master_server_address"] == "master:50051"
    assert told["global_segment_size"] == 8 << 30


def test_a_decode_engine_of_sglang_keeps_no_prefixes_anywhere() -> None:
    started = launch(replace(SGLANG, role=EngineRole.DECODE, host_cache=HostCache(64 * GB, "/kv", GB)))

    assert not [argument for argument in started.args if "hicache" in argument or "hierarchical" in argument]
    assert not [name for name, _ in started.env if "HICACHE" in name]


@pytest.mark.parametrize(
    ("cache", "fleet", "problem"),
    [
        (HostCache(64 * GB, "/kv", GB), (MOONCAKE,), "one storage"),
        (HostCache(64 * GB), (LMCACHE,), "no storage of lmcache"),
        (HostCache(GB), (), "whole GB"),
    ],
)
def test_what_sglang_cannot_do_is_refused(cache: HostCache, fleet: tuple[FleetStore, ...], problem: str) -> None:
    with pytest.raises(LaunchError, match=problem):
        launch(replace(SGLANG, host_cache=cache, fleet=fleet))
