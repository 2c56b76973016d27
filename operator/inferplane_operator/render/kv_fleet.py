"""A KVStore's tiers as engines reach them by themselves: Mooncake, LMCache, and SGLang's memory and disk.

vLLM's Mooncake client reads a file.  The Pod carries its contents as an annotation, which a volume shows as a file: no
object beside the Pod, nothing that has to be there first.
"""

import json
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from inferplane_api.v1alpha1 import InferenceService, KVStore
from inferplane_api.v1alpha1.engine import EngineType
from inferplane_api.v1alpha1.kv_store import Tier, TierMedium
from inferplane_engine.launch import FleetKind, FleetStore, HostCache
from inferplane_engine.launch.stores import MOONCAKE_CONFIG, vllm_mooncake_settings
from inferplane_operator.render.errors import RenderError
from inferplane_operator.render.values import Manifest

MOONCAKE_ANNOTATION: Final = "inferplane.dev/mooncake"
MOONCAKE_VOLUME: Final = "mooncake"
FOLDER_VOLUME: Final = "kv-ssd"
_MOONCAKE_DIR: Final = "/etc/inferplane/mooncake"
_FILE: Final = "client.json"
_FOLDER: Final = "/var/lib/inferplane/kv-ssd"
_KINDS: Final = {TierMedium.MOONCAKE: FleetKind.MOONCAKE, TierMedium.LMCACHE: FleetKind.LMCACHE}
_PROTOCOLS: Final = ("tcp", "rdma")


def fleet_stores(store: KVStore, service: InferenceService, *, in_cluster: bool) -> tuple[FleetStore, ...]:
    """Return the stores of others.  Raises RenderError."""
    found = tuple(_fleet_store(store, tier) for tier in store.spec.tiers if tier.medium in _KINDS)
    if len({each.kind for each in found}) != len(found):
        raise RenderError("spec.kvStore", f"KVStore {store.metadata.name} has two tiers of one medium", "merge them")
    mooncake = any(each.kind is FleetKind.MOONCAKE for each in found)
    needs_file = mooncake and service.spec.engine.type is EngineType.VLLM and not _has_own_file(service)
    if needs_file and not in_cluster:
        raise RenderError(
            "spec.kvStore",
            "nobody writes the file of Mooncake's client outside of a Pod",
            f"name one of yours in engine.env.{MOONCAKE_CONFIG}",
        )
    return tuple(_with_file(each) if needs_file else each for each in found)


def host_cache(store: KVStore, service: InferenceService, *, in_cluster: bool) -> HostCache | None:
    """Return SGLang's tiers; None for other engines.  Raises RenderError."""
    if service.spec.engine.type is not EngineType.SGLANG:
        return None
    tiers = {tier.medium: tier for tier in store.spec.tiers}
    if TierMedium.REDIS in tiers:
        raise RenderError("spec.kvStore", "SGLang's cache has no storage of redis", "use ssd or mooncake")
    if TierMedium.DRAM not in tiers:
        raise RenderError("spec.kvStore", "SGLang's cache begins in memory", "give the KVStore a dram tier")
    memory, disk = tiers[TierMedium.DRAM].capacity_bytes or 0, tiers.get(TierMedium.SSD)
    if disk is None:
        return HostCache(memory)
    return HostCache(memory, _FOLDER if in_cluster else str(disk.path), disk.capacity_bytes or 0)


def fleet_annotations(stores: tuple[FleetStore, ...], *, ranks: int) -> dict[str, str]:
    """Return what a file in the engine's container shows."""
    files = [vllm_mooncake_settings(store, ranks=ranks) for store in stores if store.config_file]
    return {MOONCAKE_ANNOTATION: json.dumps(files[0], separators=(",", ":"))} if files else {}


def fleet_volumes(stores: tuple[FleetStore, ...], cache: HostCache | None, store: KVStore) -> list[Manifest]:
    """Return the Pod's volumes for what `with_fleet` mounts."""
    volumes: list[Manifest] = []
    if any(each.config_file for each in stores):
        shown = {"path": _FILE, "fieldRef": {"fieldPath": f"metadata.annotations['{MOONCAKE_ANNOTATION}']"}}
        volumes.append({"name": MOONCAKE_VOLUME, "downwardAPI": {"items": [shown]}})
    if cache is not None and cache.folder:
        path = next(str(tier.path) for tier in store.spec.tiers if tier.medium is TierMedium.SSD)
        volumes.append({"name": FOLDER_VOLUME, "hostPath": {"path": path, "type": "DirectoryOrCreate"}})
    return volumes


def with_fleet(engine: Manifest, stores: tuple[FleetStore, ...], cache: HostCache | None) -> Manifest:
    """Mount into the engine what it needs to reach these stores."""
    mounts: list[Manifest] = list(engine["volumeMounts"])
    if any(each.config_file for each in stores):
        mounts.append({"name": MOONCAKE_VOLUME, "mountPath": _MOONCAKE_DIR, "readOnly": True})
    if cache is not None and cache.folder:
        mounts.append({"name": FOLDER_VOLUME, "mountPath": _FOLDER})
    return {**engine, "volumeMounts": mounts}


def _fleet_store(store: KVStore, tier: Tier) -> FleetStore:
    written = tier.address or ""
    parts = urlsplit(written if "://" in written else f"tcp://{written}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:  # a port that is no number
        host = port = None
    if not host or not port or parts.scheme not in _PROTOCOLS:
        field = f"KVStore {store.metadata.name}: address of tier {tier.name}"
        raise RenderError("spec.kvStore", f"{field} is {written!r}", 'give host:port, "tcp://" or "rdma://" before it')
    return FleetStore(_KINDS[tier.medium], host, port, parts.scheme, tier.capacity_bytes or 0)


def _with_file(store: FleetStore) -> FleetStore:
    if store.kind is not FleetKind.MOONCAKE:
        return store
    return replace(store, config_file=f"{_MOONCAKE_DIR}/{_FILE}")


def _has_own_file(service: InferenceService) -> bool:
    return MOONCAKE_CONFIG in service.spec.engine.env
