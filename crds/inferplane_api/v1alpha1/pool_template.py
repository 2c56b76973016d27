"""What a service says about one of its pools: size, hardware, parallelism, and the last word on its Pods."""

from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, JsonValue, WithJsonSchema, model_validator

from inferplane_api.v1alpha1.engine import Arguments, Environment
from inferplane_api.v1alpha1.metadata import DnsLabel, DnsSubdomain
from inferplane_api.v1alpha1.units import ByteCount, Quantity, parse_quantity
from inferplane_api.v1alpha1.wire import INT32_MAX, Finding, WireModel, counted_in, invalid, keyed_by

MAX_REPLICAS: Final = 10_000
_FREE: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
POD_TEMPLATE_SCHEMA: Final = {"type": "object", "properties": {"metadata": _FREE, "spec": _FREE}}
"""The two parts are free here; who makes the Pods checks them."""


class Parallelism(WireModel):
    tensor: int = Field(default=1, ge=1, le=1024, description="Devices that share every layer (TP).")
    pipeline: int = Field(default=1, ge=1, le=1024, description="Groups of devices that share the layers (PP).")
    data: int = Field(
        default=1, ge=1, le=1024, description="Engine replicas behind one worker (DP); ranks are routed to."
    )
    expert: bool = Field(default=False, description="Spread experts over all TP x DP devices (EP).")

    @property
    def devices(self) -> int:
        """Devices that one worker needs."""
        return self.tensor * self.pipeline * self.data


class ResourceClaim(WireModel):
    """A device claim of the Pod (dynamic resource allocation); exactly one of the three names is set."""

    name: DnsLabel = Field(description="Name within the Pod.")
    resource_claim_name: DnsSubdomain | None = Field(default=None, description="A ResourceClaim to use.")
    resource_claim_template_name: DnsSubdomain | None = Field(
        default=None, description="A ResourceClaimTemplate from which each Pod gets its own claim."
    )
    device_class_name: DnsSubdomain | None = Field(
        default=None, description="A DeviceClass; the ResourceClaimTemplate for it is made."
    )
    count: int | None = Field(
        default=None, ge=1, le=1024, description="Devices of that class in one Pod; default: TP x PP x DP."
    )
    selectors: tuple[Annotated[str, Field(min_length=1, max_length=10_240)], ...] = Field(
        default=(), max_length=32, description="CEL expressions that each of these devices must fulfil."
    )

    @model_validator(mode="after")
    def _one_name(self) -> Self:
        names = (self.resource_claim_name, self.resource_claim_template_name, self.device_class_name)
        findings: list[Finding] = []
        if sum(name is not None for name in names) != 1:
            fix = "set one of resourceClaimName, resourceClaimTemplateName, deviceClassName"
            findings.append(Finding("", "exactly one reference is needed", fix))
        elif self.device_class_name is None:
            findings += [
                Finding(field, "it belongs to a deviceClassName", "remove it, or set deviceClassName")
                for field, given in (("count", self.count is not None), ("selectors", bool(self.selectors)))
                if given
            ]
        if findings:
            raise invalid(*findings)
        return self


class Resources(WireModel):
    """Resources of the engine container, as in a Pod; MIG slices are ordinary resource names."""

    requests: dict[str, Quantity] = Field(
        default_factory=dict, max_length=32, description="What is set aside; default: the limits."
    )
    limits: dict[str, Quantity] = Field(
        default_factory=dict, max_length=32, description="What it may use, devices included."
    )
    claims: tuple[ResourceClaim, ...] = Field(
        default=(),
        max_length=32,
        description="Devices by dynamic resource allocation.",
        json_schema_extra=keyed_by("name"),
    )

    @model_validator(mode="after")
    def _requests_within_limits(self) -> Self:
        findings = [
            Finding(
                f"requests.{name}", f"{wanted} exceeds the limit {self.limits[name]}", "raise the limit or lower it"
            )
            for name, wanted in self.requests.items()
            if name in self.limits and parse_quantity(wanted) > parse_quantity(self.limits[name])
        ]
        names = [claim.name for claim in self.claims]
        findings += [
            Finding(f"claims.{index}.name", f"{name!r} is taken", "give each claim its own name")
            for index, name in enumerate(names)
            if name in names[:index]
        ]
        if findings:
            raise invalid(*findings)
        return self

    @property
    def names_device(self) -> bool:
        """Whether a device (an extended resource or a claim) is asked for."""
        return bool(self.claims) or any("/" in name for name in {*self.requests, *self.limits})


class PoolEngine(WireModel):
    """Where one pool's engines differ from the service's."""

    args: Arguments = Field(default=(), description="More arguments of this pool, after the service's.")
    env: Environment = Field(
        default_factory=dict, description="More variables of this pool; they win over the service's."
    )
    block_size: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="Tokens per KV block; must be equal in P and D.",
        json_schema_extra=counted_in("tokens"),
    )
    kv_cache_dtype: str | None = Field(
        default=None, min_length=1, max_length=32, description="KV data type; must be equal in P and D."
    )
    kv_cache_memory_bytes: ByteCount | None = Field(default=None, description="Memory of the KV cache per device.")
    max_num_seqs: int | None = Field(default=None, ge=1, le=INT32_MAX, description="Most requests in one batch.")
    max_num_batched_tokens: int | None = Field(
        default=None,
        ge=1,
        le=INT32_MAX,
        description="Most tokens in one step.",
        json_schema_extra=counted_in("tokens"),
    )


def _pod_template(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    unknown = sorted(set(value) - {"metadata", "spec"})
    findings = [Finding(name, "not part of a Pod template", "use metadata and spec") for name in unknown]
    findings += [
        Finding(name, "must be a mapping", "write key: value pairs")
        for name, part in value.items()
        if name not in unknown and not isinstance(part, dict)
    ]
    if findings:
        raise invalid(*findings)
    return value


class PoolTemplate(WireModel):
    replicas: int = Field(
        default=1, ge=0, le=MAX_REPLICAS, description="Workers at creation; later changes go through the pool's scale."
    )
    min_replicas: int = Field(
        default=1, ge=0, le=MAX_REPLICAS, description="The planner never goes below; who scales by hand may."
    )
    max_replicas: int | None = Field(
        default=None,
        ge=1,
        le=MAX_REPLICAS,
        description="The planner never goes above, who scales by hand may; default: replicas (at least 1).",
    )
    accelerator: str = Field(
        default="", max_length=64, description="Accelerator class, which the planner and the timing model know."
    )
    parallelism: Parallelism = Field(default_factory=Parallelism, description="How one worker spreads the model.")
    resources: Resources = Field(
        default_factory=Resources, description="Of the engine container; default: one device per TP x PP x DP."
    )
    engine: PoolEngine = Field(default_factory=PoolEngine, description="Where this pool's engines differ.")
    pod_template: Annotated[
        dict[str, JsonValue], AfterValidator(_pod_template), WithJsonSchema(POD_TEMPLATE_SCHEMA)
    ] = Field(
        default_factory=dict,
        description="Pod template (metadata, spec) merged last: tolerations, scheduler, queue, volumes, RDMA.",
    )

    @model_validator(mode="after")
    def _range(self) -> Self:
        findings: list[Finding] = []
        if self.min_replicas > self.ceiling:
            findings.append(
                Finding(
                    "minReplicas",
                    f"{self.min_replicas} exceeds maxReplicas {self.ceiling}",
                    "lower it or raise the other",
                )
            )
        elif not self.min_replicas <= self.replicas <= self.ceiling:
            findings.append(
                Finding(
                    "replicas",
                    f"{self.replicas} is outside {self.min_replicas}..{self.ceiling}",
                    "keep it between minReplicas and maxReplicas",
                )
            )
        if findings:
            raise invalid(*findings)
        return self

    @property
    def ceiling(self) -> int:
        """The most workers that scaling may reach."""
        return self.max_replicas if self.max_replicas is not None else max(self.replicas, 1)
