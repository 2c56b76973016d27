"""KVStore: tiers of KV blocks beyond the engines' own memory, shared by the services that name it."""

import re
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from inferplane_api.v1alpha1.conditions import Conditions
from inferplane_api.v1alpha1.metadata import API_VERSION, DnsLabel, DnsSubdomain, ObjectMeta
from inferplane_api.v1alpha1.source import AbsolutePath
from inferplane_api.v1alpha1.units import ByteCount, Duration
from inferplane_api.v1alpha1.wire import FORM, Finding, WireModel, invalid, keyed_by


class TierMedium(StrEnum):
    DRAM = "dram"
    SSD = "ssd"
    REDIS = "redis"
    MOONCAKE = "mooncake"
    LMCACHE = "lmcache"


_RANK: Final = {
    TierMedium.DRAM: 0,
    TierMedium.SSD: 1,
    TierMedium.REDIS: 2,
    TierMedium.MOONCAKE: 2,
    TierMedium.LMCACHE: 2,
}
_LOCAL: Final = (TierMedium.DRAM, TierMedium.SSD)
ADDRESS_PATTERN: Final = r"^([a-z][a-z0-9+.-]*://[^\s]+|[^\s/:]+:[0-9]{1,5}|\[[0-9A-Fa-f:.]+\]:[0-9]{1,5})$"


def _address(value: str) -> str:
    if value and not re.fullmatch(ADDRESS_PATTERN, value):
        raise invalid(Finding("", f"{value[:80]!r} is not an address", 'give host:port or a URL, such as "redis:6379"'))
    return value


Address = Annotated[str, Field(max_length=512, json_schema_extra={FORM: "address"}), AfterValidator(_address)]


class Tier(WireModel):
    name: DnsLabel = Field(description="Name in metrics and in status.")
    medium: TierMedium = Field(description="What holds the blocks.")
    capacity_bytes: ByteCount | None = Field(
        default=None, description="Size per node (dram, ssd), or what each engine gives (mooncake)."
    )
    path: AbsolutePath | None = Field(default=None, description="Directory on the node, for ssd.")
    address: Address | None = Field(default=None, description="host:port or URL, for redis, mooncake, lmcache.")
    secret_ref: DnsSubdomain | None = Field(default=None, description="Secret with the keys `username` and `password`.")
    bandwidth_bytes: ByteCount | None = Field(
        default=None, description="Bytes a second expected of one reader, until measured."
    )

    @model_validator(mode="after")
    def _fits_medium(self) -> Self:
        local, findings = self.medium in _LOCAL, list[Finding]()
        if local and not self.capacity_bytes:
            findings.append(Finding("capacity", f"{self.medium} needs a size", 'give one, such as "64Gi"'))
        if self.medium is TierMedium.SSD and self.path is None:
            findings.append(Finding("path", "ssd needs a directory", 'give one, such as "/var/lib/inferplane/kv"'))
        if self.path is not None and self.medium is not TierMedium.SSD:
            findings.append(Finding("path", f"{self.medium} has no directory", "remove it"))
        if local and self.address is not None:
            findings.append(Finding("address", f"{self.medium} is on the node", "remove it"))
        if not local and not self.address:
            findings.append(
                Finding("address", f"{self.medium} needs an address", 'give host:port, such as "redis:6379"')
            )
        if findings:
            raise invalid(*findings)
        return self


class Admission(WireModel):
    """Which blocks are worth keeping."""

    min_hits: int = Field(default=2, ge=1, le=1000, description="Uses after which a block is stored.")
    half_life_s: Duration = Field(default=600.0, description="After this without use a block counts half.")


class Quota(WireModel):
    tenant: str = Field(min_length=1, max_length=256, description="Tenant.")
    capacity_bytes: ByteCount = Field(description="Most bytes of this tenant over all tiers.")


class KVStoreSpec(WireModel):
    tiers: tuple[Tier, ...] = Field(
        min_length=1, max_length=4, description="Fastest first.", json_schema_extra=keyed_by("name")
    )
    admission: Admission = Field(default_factory=Admission, description="Which blocks are worth keeping.")
    quotas: tuple[Quota, ...] = Field(
        default=(),
        max_length=256,
        description="Bytes by tenant; others share what is left.",
        json_schema_extra=keyed_by("tenant"),
    )
    ttl_s: Duration = Field(default=86400.0, description="Blocks not used for this long are dropped.")
    integrity_secret_ref: DnsSubdomain | None = Field(
        default=None,
        description="Secret whose key `hmac` keys the blocks' checksums; without one the operator makes it.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        findings = [
            Finding(f"tiers.{index}.medium", f"{slower.medium} is faster than the tier before", "sort fastest first")
            for index, (faster, slower) in enumerate(pairwise(self.tiers), start=1)
            if _RANK[slower.medium] < _RANK[faster.medium]
        ]
        names = [tier.name for tier in self.tiers]
        findings += [
            Finding(f"tiers.{index}.name", f"{name!r} is taken", "give each tier its own name")
            for index, name in enumerate(names)
            if name in names[:index]
        ]
        tenants = [quota.tenant for quota in self.quotas]
        findings += [
            Finding(f"quotas.{index}.tenant", f"{tenant!r} appears twice", "merge the two entries")
            for index, tenant in enumerate(tenants)
            if tenant in tenants[:index]
        ]
        if self.ttl_s <= 0:
            findings.append(Finding("ttl", "it must be longer than 0s", 'try "24h"'))
        if findings:
            raise invalid(*findings)
        return self


class TierStatus(WireModel):
    name: str = Field(description="Name of the tier.")
    used_bytes: ByteCount = Field(default=0, description="Bytes in use.")
    blocks: int = Field(default=0, ge=0, description="Blocks held.")
    hit_ratio: float | None = Field(default=None, ge=0, le=1, description="Share of look-ups that found their block.")
    corrupt_blocks: int = Field(default=0, ge=0, description="Blocks whose checksum was wrong, since the start.")


class KVStoreStatus(WireModel):
    observed_generation: int = Field(default=0, ge=0, description="Generation of the spec that this speaks of.")
    conditions: Conditions = Field(default=(), description="One per type.")
    tiers: tuple[TierStatus, ...] = Field(
        default=(), description="The tiers, measured.", json_schema_extra=keyed_by("name")
    )
    used_by: tuple[str, ...] = Field(default=(), description="InferenceServices that name this store.")
    integrity_secret: DnsSubdomain | None = Field(
        default=None, description="Secret that the operator made where the spec names none."
    )


class KVStore(WireModel):
    api_version: Literal["inferplane.dev/v1alpha1"] = Field(default=API_VERSION, description="API group and version.")
    kind: Literal["KVStore"] = Field(default="KVStore", description="Kind.")
    metadata: ObjectMeta = Field(description="Name, namespace, labels, annotations.")
    spec: KVStoreSpec = Field(description="What is wanted.")
    status: KVStoreStatus | None = Field(default=None, description="What is; written by the operator.")

    @property
    def integrity_secret(self) -> str | None:
        """Return the name of the Secret that keys the checksums; None while there is none."""
        made = self.status.integrity_secret if self.status is not None else None
        return self.spec.integrity_secret_ref or made
