"""The store's configuration file (JSON), parsed once; an unknown or impossible value stops the start with its path."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from inferplane_engine.identity import engine_salt
from inferplane_kv_connector.keys import NOBODY, owner_of
from inferplane_kvstore.errors import ConfigError
from inferplane_kvstore.policies import DEFAULT_POLICY, POLICIES
from inferplane_kvstore.resp import RedisAddress

LEAST_CAPACITY: Final = 1 << 20
_SHORTEST_SECRET: Final = 16


@dataclass(frozen=True, slots=True)
class FileTier:
    path: Path
    capacity: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class StoreConfig:
    socket: Path
    """Where engines of this node connect."""
    secret: bytes
    """Keys the blocks' checksums; equal for all stores that share a tier."""
    dram: FileTier
    """A file on a tmpfs."""
    ssd: FileTier | None = None
    redis: RedisAddress | None = None
    redis_deadline_s: float = 2.0
    min_hits: int = 2
    """Uses after which a block goes to the tiers below DRAM."""
    ttl_s: float = 86400.0
    """Blocks not used for this long are dropped."""
    policy: str = DEFAULT_POLICY
    quotas: Mapping[bytes, int] = field(default_factory=dict[bytes, int])
    """Most bytes by owner (see `tenant_owner`)."""


def tenant_owner(tenant: str) -> bytes:
    """Return the mark that a tenant's blocks bear (8 bytes), made as the gateway makes salts."""
    return owner_of(engine_salt(tenant, "")) if tenant else NOBODY


def load(path: Path) -> StoreConfig:
    """Raise ConfigError."""
    try:
        return read(path.read_text())
    except OSError as error:
        raise ConfigError("--config", f"{path} cannot be read: {error}", "name a JSON file") from error


def read(text: str) -> StoreConfig:
    """Raise ConfigError."""
    try:
        raw: Any = json.loads(text)
    except ValueError as error:
        raise ConfigError("configuration", f"it is no JSON: {error}", "see docs/how-to/kv-store.md") from error
    if not isinstance(raw, dict):
        raise ConfigError("configuration", "it is no object", "see docs/how-to/kv-store.md")
    return parse(raw)  # pyright: ignore[reportUnknownArgumentType]  JSON: checked field by field


def parse(raw: Mapping[str, Any]) -> StoreConfig:
    """Raise ConfigError."""
    known = {"socket", "secretFile", "dram", "ssd", "redis", "minHits", "ttlS", "policy", "quotas"}
    for name in raw:
        if name not in known:
            raise ConfigError(name, "unknown field", f"use one of {', '.join(sorted(known))}")
    redis = raw.get("redis")
    policy = raw.get("policy", DEFAULT_POLICY)
    if policy not in POLICIES:
        raise ConfigError("policy", f"{policy!r} is unknown", f"use one of {', '.join(sorted(POLICIES))}")
    return StoreConfig(
        socket=Path(_text(raw, "socket")),
        secret=_secret(Path(_text(raw, "secretFile"))),
        dram=_file_tier(raw.get("dram"), "dram"),
        ssd=_file_tier(raw["ssd"], "ssd") if raw.get("ssd") else None,
        redis=RedisAddress.parse(_text(redis, "url", "redis.")) if redis else None,
        min_hits=int(_number(raw, "minHits", 2)),
        ttl_s=_number(raw, "ttlS", 86400.0),
        policy=policy,
        quotas={tenant_owner(str(name)): int(size) for name, size in dict(raw.get("quotas", {})).items()},
    )


def _file_tier(raw: object, field_name: str) -> FileTier:
    if not isinstance(raw, dict):
        raise ConfigError(field_name, "missing", 'give {"path": FILE, "capacityBytes": N}')
    capacity = int(_number(raw, "capacityBytes", 0, f"{field_name}."))  # pyright: ignore[reportUnknownArgumentType]
    if capacity < LEAST_CAPACITY:
        raise ConfigError(f"{field_name}.capacityBytes", f"{capacity} is too little", f"give {LEAST_CAPACITY} or more")
    return FileTier(Path(_text(raw, "path", f"{field_name}.")), capacity)  # pyright: ignore[reportUnknownArgumentType]


def _text(raw: Mapping[str, Any], name: str, above: str = "") -> str:
    value = raw.get(name)
    if not isinstance(value, str) or not value:
        raise ConfigError(above + name, "missing", "give a text")
    return value


def _number(raw: Mapping[str, Any], name: str, default: float, above: str = "") -> float:
    value = raw.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise ConfigError(above + name, f"{value!r} is no number from 0", "give a number")
    return float(value)


def _secret(path: Path) -> bytes:
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError("secretFile", f"{path} cannot be read: {error.strerror}", "name a file") from error
    if len(secret) < _SHORTEST_SECRET:
        raise ConfigError("secretFile", f"{path} holds {len(secret)} bytes", f"put {_SHORTEST_SECRET} or more into it")
    return secret
