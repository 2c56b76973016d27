"""Stores of KV blocks that others run, as each engine is told of them.

Problem: at the scale of a fleet Mooncake and LMCache move blocks already, and each engine reaches them its own way.
Idea: their own connectors, configured.  vLLM has one for each, beside ours and the peers' in its list; SGLang has a
cache of its own in host memory, behind which one storage may stand.
Trade-off: what we promise of our own tiers (checksums, quotas, pins, worth) does not hold for blocks that came from
these.  Checked against vLLM 0.32, LMCache 0.5.6 and the argument classes of SGLang 0.5.23.
Invariant: a block that cannot be loaded is computed, never an error.
"""

import json
from collections.abc import Sequence
from typing import Final

from inferplane_engine.launch.spec import FleetKind, FleetStore, HostCache, LaunchError

MOONCAKE_CONFIG: Final = "MOONCAKE_CONFIG_PATH"
_SGLANG_FOLDER: Final = "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"
_SGLANG_FOLDER_SIZE: Final = "SGLANG_HICACHE_FILE_BACKEND_MAX_SIZE"
_GIGABYTE: Final = 10**9


def vllm_connector(store: FleetStore) -> dict[str, object]:
    """Return one entry of vLLM's connectors."""
    return {**_VLLM_CONNECTORS[store.kind](store), "kv_role": "kv_both", "kv_load_failure_policy": "recompute"}


def vllm_environment(stores: Sequence[FleetStore]) -> dict[str, str]:
    files = [store.config_file for store in stores if store.config_file]
    return {MOONCAKE_CONFIG: files[0]} if files else {}


def mooncake_settings(store: FleetStore) -> dict[str, object]:
    """Return what Mooncake's client needs to know, as both engines write it."""
    return {
        "metadata_server": "P2PHANDSHAKE",  # clients tell each other
        "master_server_address": f"{store.host}:{store.port}",
        "protocol": store.protocol,
        "device_name": "",
        "global_segment_size": store.given_bytes,
    }


def vllm_mooncake_settings(store: FleetStore, *, ranks: int) -> dict[str, object]:
    """Return the contents of the file that the client of each of vLLM's ranks reads."""
    mode = "embedded" if store.given_bytes else "standalone-store"
    return {**mooncake_settings(store), "global_segment_size": store.given_bytes // ranks, "mode": mode}


def sglang_arguments(cache: HostCache | None, stores: Sequence[FleetStore], *, ranks: int) -> list[str]:
    """Raise LaunchError."""
    if cache is None:
        return []
    size = cache.memory_bytes // ranks // _GIGABYTE
    if not size:
        least = f"{ranks * _GIGABYTE}"
        raise LaunchError("kvStore", "SGLang counts the memory of each rank in whole GB", f"give dram {least} or more")
    args = ["--enable-hierarchical-cache", "--hicache-size", str(size)]
    return [*args, *_behind(cache, stores)]


def sglang_environment(cache: HostCache | None) -> dict[str, str]:
    if cache is None or not cache.folder:
        return {}
    return {_SGLANG_FOLDER: cache.folder, _SGLANG_FOLDER_SIZE: str(cache.folder_bytes)}


def _behind(cache: HostCache, stores: Sequence[FleetStore]) -> list[str]:
    if cache.folder and stores:
        raise LaunchError("kvStore", "SGLang has one storage behind its memory", "keep one of ssd and mooncake")
    if cache.folder:
        return ["--hicache-storage-backend", "file"]
    for store in stores:
        if store.kind is not FleetKind.MOONCAKE:
            raise LaunchError("kvStore", f"SGLang's cache has no storage of {store.kind}", "use ssd or mooncake")
        told = json.dumps(mooncake_settings(store), separators=(",", ":"))
        return ["--hicache-storage-backend", "mooncake", "--hicache-storage-backend-extra-config", told]
    return []


def _lmcache(store: FleetStore) -> dict[str, object]:
    server = {"lmcache.mp.host": f"tcp://{store.host}", "lmcache.mp.port": store.port}
    return {"kv_connector": "LMCacheMPConnector", "kv_connector_extra_config": server}


def _mooncake(_: FleetStore) -> dict[str, object]:
    return {"kv_connector": "MooncakeStoreConnector", "kv_connector_extra_config": {"load_async": True}}


_VLLM_CONNECTORS: Final = {FleetKind.LMCACHE: _lmcache, FleetKind.MOONCAKE: _mooncake}
