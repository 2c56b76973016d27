"""A worker with a KV store beside its engine: the store's container, the connector, and how they find each other.

Problem: the engine's image knows nothing of us, and its memory must not die with the engine.  Idea: a native sidecar
runs the store and owns the memory; an init container copies the connector, which needs nothing but the engine's own
Python, into a folder that is on the engine's path.  They share the Pod's run folder, where the socket is.
Trade-off: a store per Pod.  What Pods share, they share through a tier below: the node's disk by its next owner, Redis
by all.
"""

import json
from typing import Any, Final

from inferplane_api.v1alpha1 import InferenceService, KVStore
from inferplane_api.v1alpha1.engine import EngineType
from inferplane_api.v1alpha1.kv_store import Tier, TierMedium
from inferplane_api.v1alpha1.units import format_bytes
from inferplane_operator.render import names
from inferplane_operator.render.errors import RenderError
from inferplane_operator.render.values import Manifest

STORE_CONTAINER: Final = "kv-store"
CONNECTOR_CONTAINER: Final = "kv-connector"
CONNECTOR_VOLUME: Final = "kv-connector"
SECRET_VOLUME: Final = "kv-secret"  # noqa: S105 - a volume's name
ARENA_VOLUME: Final = "kv-arena"
SSD_VOLUME: Final = "kv-ssd"
SECRET_KEY: Final = "hmac"  # noqa: S105 - a key's name
_SECRET_DIR: Final = "/etc/inferplane/kv"  # noqa: S105 - a folder
_CONNECTOR_DIR: Final = "/opt/inferplane-kv"
_ARENA_DIR: Final = "/var/lib/inferplane/kv-arena"
_SSD_DIR: Final = "/var/lib/inferplane/kv-ssd"
_OVERHEAD: Final = 256 << 20
"""Memory of the store's process beside the blocks, in bytes."""
_ROOM: Final = 1 << 20
_OWN: Final = (TierMedium.DRAM, TierMedium.SSD, TierMedium.REDIS)


def served_by_store(service: InferenceService) -> bool:
    """Whether the engine of a service can use a store."""
    return service.spec.engine.type is not EngineType.SIM


def own_store(service: InferenceService, store: KVStore | None) -> KVStore | None:
    """Return the store where the engine has our connector and there is a tier that we run; others need no sidecar."""
    if store is None or service.spec.engine.type is not EngineType.VLLM:
        return None
    return store if any(tier.medium in _OWN for tier in store.spec.tiers) else None


def variables() -> list[Manifest]:
    """Return what engine and store know of each other."""
    return [
        {"name": names.KV_SOCKET, "value": f"{names.DEFAULT_RUN_DIR}/kv.sock"},
        {"name": names.KV_SECRET, "value": f"{_SECRET_DIR}/{SECRET_KEY}"},
        {"name": names.KV_PATH, "value": _CONNECTOR_DIR},
    ]


def with_store(agent: Manifest) -> Manifest:
    """Let the agent find the store."""
    return {**agent, "env": [*variables()[:1], *agent["env"]]}


def with_connector(engine: Manifest, *, in_cluster: bool) -> Manifest:
    """Let the engine's Python find the connector; a path of the user's own is kept behind it."""
    given: list[Manifest] = engine["env"]
    theirs = next((entry["value"] for entry in given if entry["name"] == "PYTHONPATH" and "value" in entry), "")
    path = ":".join(part for part in (names.ref(names.KV_PATH), theirs) if part)
    others = [entry for entry in given if entry["name"] != "PYTHONPATH"]
    mounts: list[Manifest] = engine["volumeMounts"]
    if in_cluster:
        mounts = [*mounts, _mount(SECRET_VOLUME, _SECRET_DIR), _mount(CONNECTOR_VOLUME, _CONNECTOR_DIR)]
    return {
        **engine,
        "env": [*variables(), *others, {"name": "PYTHONPATH", "value": path}],
        "volumeMounts": mounts,
    }


def store_containers(
    store: KVStore, *, image: str, python: str, run_mount: Manifest, security: Manifest
) -> list[Manifest]:
    """Make the store's sidecar and the container that brings the connector, in the order of their starts."""
    dram, ssd, redis = (_tier(store, medium) for medium in (TierMedium.DRAM, TierMedium.SSD, TierMedium.REDIS))
    memory = format_bytes((dram.capacity_bytes or 0) + _OVERHEAD) if dram is not None else ""
    credentials = [] if redis is None or redis.secret_ref is None else _credentials(redis.secret_ref)
    config = configuration(
        store,
        socket=f"{names.DEFAULT_RUN_DIR}/kv.sock",
        secret_file=f"{_SECRET_DIR}/{SECRET_KEY}",
        arena=f"{_ARENA_DIR}/arena",
        slabs=f"{_SSD_DIR}/slabs",
    )
    mounts = [run_mount, _mount(SECRET_VOLUME, _SECRET_DIR), _mount(ARENA_VOLUME, _ARENA_DIR)]
    mounts += [_mount(SSD_VOLUME, _SSD_DIR)] if ssd is not None else []
    sidecar: Manifest = {
        "name": STORE_CONTAINER,
        "image": image,
        "restartPolicy": "Always",
        "command": [python, "-m", "inferplane_kvstore"],
        "args": ["--inline", json.dumps(config, separators=(",", ":"))],
        "env": credentials,
        "resources": {"requests": {"cpu": "250m", "memory": memory}, "limits": {"memory": memory}},
        "securityContext": security,
        "volumeMounts": mounts,
    }
    bringer: Manifest = {
        "name": CONNECTOR_CONTAINER,
        "image": image,
        "command": [python, "-m", "inferplane_kvstore.bringing"],
        "args": ["--into", _CONNECTOR_DIR],
        "securityContext": security,
        "volumeMounts": [_mount(CONNECTOR_VOLUME, _CONNECTOR_DIR)],
    }
    return [sidecar, bringer]


def store_volumes(store: KVStore) -> list[Manifest]:
    """Raise RenderError."""
    secret = store.integrity_secret
    if secret is None:
        raise RenderError(
            "spec.kvStore",
            f"KVStore {store.metadata.name} has no Secret yet that keys its checksums",
            "wait for the operator to make one, or name one in its integritySecretRef",
        )
    dram, ssd = _tier(store, TierMedium.DRAM), _tier(store, TierMedium.SSD)
    size = format_bytes((dram.capacity_bytes or 0) + _ROOM) if dram is not None else "0"
    volumes: list[Manifest] = [
        {"name": SECRET_VOLUME, "secret": {"secretName": secret, "items": [{"key": SECRET_KEY, "path": SECRET_KEY}]}},
        {"name": CONNECTOR_VOLUME, "emptyDir": {}},
        {"name": ARENA_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": size}},
    ]
    if ssd is not None:
        volumes.append({"name": SSD_VOLUME, "hostPath": {"path": str(ssd.path), "type": "DirectoryOrCreate"}})
    return volumes


def configuration(store: KVStore, *, socket: str, secret_file: str, arena: str, slabs: str) -> dict[str, Any]:
    """Return the store's configuration file.  Raises RenderError."""
    _check(store)
    dram, ssd, redis = (_tier(store, medium) for medium in (TierMedium.DRAM, TierMedium.SSD, TierMedium.REDIS))
    config: dict[str, Any] = {
        "socket": socket,
        "secretFile": secret_file,
        "minHits": store.spec.admission.min_hits,
        "ttlS": store.spec.ttl_s,
        "quotas": {quota.tenant: quota.capacity_bytes for quota in store.spec.quotas},
    }
    if dram is not None:
        config["dram"] = {"path": arena, "capacityBytes": dram.capacity_bytes}
    if ssd is not None:
        config["ssd"] = {"path": slabs, "capacityBytes": ssd.capacity_bytes}
    if redis is not None:
        config["redis"] = {"url": redis.address}
    return config


def _check(store: KVStore) -> None:
    where = f"KVStore {store.metadata.name}"
    media = [tier.medium for tier in store.spec.tiers]
    if TierMedium.DRAM not in media:
        raise RenderError("spec.kvStore", f"{where} has no dram tier, through which blocks pass", "give it one")
    if len(set(media)) != len(media):
        raise RenderError("spec.kvStore", f"{where} has two tiers of one medium", "merge them")


def _tier(store: KVStore, medium: TierMedium) -> Tier | None:
    return next((tier for tier in store.spec.tiers if tier.medium is medium), None)


def _credentials(secret: str) -> list[Manifest]:
    pairs = (("INFERPLANE_KV_REDIS_USER", "username"), ("INFERPLANE_KV_REDIS_PASSWORD", "password"))
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key, "optional": key == "username"}}}
        for name, key in pairs
    ]


def _mount(volume: str, path: str) -> Manifest:
    return {"name": volume, "mountPath": path}
