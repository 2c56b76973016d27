"""InferenceService: a model, its objective, and how it may be served; the one resource a user has to write.

Everything but the model has a default.  Checks that need more than one field live here: what can be said before
anything is started is said here, with the field and the fix, instead of in an engine's log ten minutes later.
"""

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from inferplane_api.catalogue import RoutingMode
from inferplane_api.v1alpha1.conditions import Conditions
from inferplane_api.v1alpha1.engine import EngineSpec
from inferplane_api.v1alpha1.metadata import API_VERSION, DnsSubdomain, ObjectMeta
from inferplane_api.v1alpha1.model import ModelSpec
from inferplane_api.v1alpha1.pairing import pairing_findings
from inferplane_api.v1alpha1.pool_template import MAX_REPLICAS, PoolTemplate
from inferplane_api.v1alpha1.slo import Slo
from inferplane_api.v1alpha1.units import Duration
from inferplane_api.v1alpha1.windows import ScalingWindow, contradictions
from inferplane_api.v1alpha1.wire import INT32_MAX, Finding, WireModel, invalid, keyed_by

_NAME_LENGTH = 40
_MAX_DRAIN_S = 86_400


class RoutingPolicy(StrEnum):
    KV_AWARE = "kv-aware"
    LEAST_REQUEST = "least-request"
    ROUND_ROBIN = "round-robin"


class ScalingMode(StrEnum):
    SLO = "slo"
    """The planner keeps the objective at the least cost."""
    ADVISE = "advise"
    """The planner only says what it would do."""
    MANUAL = "manual"
    """Replicas change when somebody changes them."""
    EXTERNAL = "external"
    """An HPA or KEDA changes them through the scale subresource."""


class Budget(WireModel):
    """What the service may cost; absent fields do not limit."""

    max_devices: int | None = Field(default=None, ge=1, le=INT32_MAX, description="Devices in all pools together.")
    max_cost_per_hour: float | None = Field(
        default=None, gt=0, description="Cost per hour of all pools, in the currency of the planner's price list."
    )


class KvStoreReference(WireModel):
    name: DnsSubdomain = Field(description="KVStore in the same namespace.")


class Routing(WireModel):
    policy: RoutingPolicy = Field(default=RoutingPolicy.KV_AWARE, description="How workers are chosen.")
    queue_limit: int = Field(
        default=1024, ge=0, le=INT32_MAX, description="Requests that may wait for a worker; more get 429."
    )
    queue_timeout_s: Duration = Field(default=30.0, description="Longest wait for a worker.")
    request_timeout_s: Duration = Field(default=3600.0, description="Longest time between two bytes of an answer.")
    expose_headers: bool = Field(default=False, description="Send the x-inferplane-* response headers.")
    record_decisions: bool = Field(default=True, description="Keep a record of each pick, for `explain` and `replay`.")


class Scaling(WireModel):
    mode: ScalingMode = Field(default=ScalingMode.MANUAL, description="Who changes the number of replicas.")
    max_step: int = Field(default=4, ge=1, le=MAX_REPLICAS, description="Most workers added or removed at once.")
    scale_down_delay_s: Duration = Field(default=300.0, description="How long less must be enough before it is less.")
    allow_lending: bool = Field(default=True, description="Let decode workers prefill when prefill is short.")
    windows: tuple[ScalingWindow, ...] = Field(
        default=(),
        max_length=32,
        description="Times of the week in which the planner has narrower bounds than the pools' own.",
        json_schema_extra=keyed_by("name"),
    )


class Rollout(WireModel):
    max_surge: int = Field(default=1, ge=0, le=MAX_REPLICAS, description="Extra workers per pool during a rollout.")
    max_unavailable: int = Field(
        default=0, ge=0, le=MAX_REPLICAS, description="Workers per pool that may be missing during a rollout."
    )
    progress_deadline_s: Duration = Field(
        default=3600.0, description="A rollout without progress for this long failed."
    )
    auto_rollback: bool = Field(default=True, description="Return to the revision before when a rollout failed.")
    canary_time_s: Duration = Field(
        default=30.0,
        description=(
            "How long the first new workers are watched beside the old ones where there is too little traffic to "
            "compare them sooner."
        ),
    )

    @model_validator(mode="after")
    def _moves(self) -> Self:
        findings: list[Finding] = []
        if self.max_surge == 0 and self.max_unavailable == 0:
            findings.append(Finding("", "nothing may move: maxSurge and maxUnavailable are 0", "set one of them to 1"))
        if self.progress_deadline_s <= 0:
            findings.append(Finding("progressDeadline", "it must be longer than 0s", 'try "1h"'))
        if findings:
            raise invalid(*findings)
        return self


class Gateway(WireModel):
    processes: int = Field(
        default=1,
        ge=1,
        le=64,
        description=(
            "Gateway processes of a router on one machine (`inferplane up`), one for each core that it may use; "
            "read when the router starts. A release's gateway has its own value, gateway.processes."
        ),
    )


class InferenceServiceSpec(WireModel):
    model: ModelSpec = Field(description="What is served.")
    engine: EngineSpec = Field(default_factory=EngineSpec, description="The program that serves it.")
    slo: Slo = Field(default_factory=Slo, description="How fast it has to be.")
    mode: RoutingMode = Field(
        default=RoutingMode.AUTO,
        description="disaggregated: prefill and decode apart, always; aggregated: decode pool alone; auto: by time.",
    )
    budget: Budget = Field(default_factory=Budget, description="What it may cost.")
    prefill: PoolTemplate | None = Field(default=None, description="Prefill pool; not in mode aggregated.")
    decode: PoolTemplate = Field(
        default_factory=PoolTemplate, description="Decode pool; in mode aggregated the only one."
    )
    kv_store: KvStoreReference | None = Field(default=None, description="Tiers of KV blocks beyond the engines.")
    routing: Routing = Field(default_factory=Routing, description="How requests find workers.")
    scaling: Scaling = Field(default_factory=Scaling, description="How the number of workers changes.")
    rollout: Rollout = Field(default_factory=Rollout, description="How a change reaches the workers.")
    drain_timeout_s: Duration = Field(default=120.0, description="Time for a worker to finish what it has.")
    gateway: Gateway = Field(default_factory=Gateway, description="Where clients connect.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        findings = pairing_findings(
            mode=self.mode, engine=self.engine, model=self.model, prefill=self.prefill, decode=self.decode
        )
        if not 1 <= self.drain_timeout_s <= _MAX_DRAIN_S:
            findings.append(Finding("drainTimeout", "it is out of range", 'use 1s to 24h, such as "2m"'))
        findings += [
            Finding(f"routing.{field}", "it must be longer than 0s", 'try "30s"')
            for field, value in (
                ("queueTimeout", self.routing.queue_timeout_s),
                ("requestTimeout", self.routing.request_timeout_s),
            )
            if value <= 0
        ]
        findings += self._budget_findings()
        findings += contradictions(self.scaling.windows, {"prefill": self.prefill, "decode": self.decode})
        if findings:
            raise invalid(*findings)
        return self

    def _budget_findings(self) -> list[Finding]:
        pools = [pool for pool in (self.prefill, self.decode) if pool is not None]
        least = sum(pool.min_replicas * pool.parallelism.devices for pool in pools)
        limit = self.budget.max_devices
        if limit is None or least <= limit:
            return []
        return [
            Finding(
                "budget.maxDevices",
                f"minReplicas of the pools alone take {least} devices, the budget allows {limit}",
                "raise the budget or lower minReplicas",
            )
        ]


class PoolSummary(WireModel):
    name: str = Field(description="Name of the pool.")
    replicas: int = Field(default=0, ge=0, description="Workers wanted.")
    ready_replicas: int = Field(default=0, ge=0, description="Workers that serve.")
    updated_replicas: int = Field(default=0, ge=0, description="Workers of the current revision.")
    failed_replicas: int = Field(default=0, ge=0, description="Workers that failed.")


class PlanSummary(WireModel):
    """What the planner decided last, and why."""

    prefill_replicas: int = Field(default=0, ge=0, description="Prefill workers planned.")
    decode_replicas: int = Field(default=0, ge=0, description="Decode workers planned.")
    lent_replicas: int = Field(default=0, ge=0, description="Decode workers lent to prefill.")
    predicted_ttft_s: Duration | None = Field(default=None, description="TTFT expected at the percentile.")
    predicted_tpot_s: Duration | None = Field(default=None, description="TPOT expected at the percentile.")
    predicted_attainment: float | None = Field(
        default=None, ge=0, le=1, description="Share of requests expected within the TTFT limit."
    )
    devices: int = Field(default=0, ge=0, description="Devices that the plan takes.")
    cost_per_hour: float = Field(default=0.0, ge=0, description="What they cost, by the planner's price list.")
    would_take: str = Field(
        default="", max_length=64, description="Prefill and decode workers that the limits do not allow: `3:5`."
    )
    verdict: str = Field(default="", max_length=64, description="What it means for the objective, as one word.")
    reason: str = Field(default="", max_length=4096, description="Why this plan.")
    acting: bool = Field(default=False, description="Whether it is carried out, or only told.")
    decided_at: str | None = Field(default=None, description="When; RFC 3339.")


class SloSummary(WireModel):
    """What was measured over the window."""

    ttft_s: Duration | None = Field(default=None, description="TTFT at the percentile.")
    tpot_s: Duration | None = Field(default=None, description="TPOT at the percentile.")
    attainment: float | None = Field(default=None, ge=0, le=1, description="Share of requests within the limits.")
    requests: int = Field(default=0, ge=0, description="Requests in the window.")
    observed_at: str | None = Field(default=None, description="When; RFC 3339.")


class RoutingSummary(WireModel):
    """How far routers believed over the window what workers say they hold."""

    requests: int = Field(default=0, ge=0, description="Requests in the window.")
    doubted: int = Field(default=0, ge=0, description="Of these, routed past what the computing worker said.")
    mismatch: str = Field(default="", max_length=64, description="The most frequent reason, as one word.")


class RolloutSummary(WireModel):
    """How far a change has come; gone when it is done."""

    revision: str = Field(description="Revision that is rolled out.")
    ready: int = Field(default=0, ge=0, description="Most workers of it that served at once.")
    old: int = Field(default=0, ge=0, description="Fewest workers of other revisions that there were.")
    progressed_at: str = Field(default="", description="When one of the two last improved; RFC 3339.")


class Columns(WireModel):
    """What a list of services shows, as text."""

    workers: str = Field(default="", max_length=64, description="Workers that serve and that are wanted: `5/6`.")
    ratio: str = Field(default="", max_length=64, description="Prefill and decode workers that serve: `1:4`.")
    ttft: str = Field(default="", max_length=64, description="TTFT at the percentile, and its limit: `310ms/800ms`.")
    tpot: str = Field(default="", max_length=64, description="TPOT at the percentile, and its limit: `22ms/25ms`.")


class InferenceServiceStatus(WireModel):
    observed_generation: int = Field(default=0, ge=0, description="Generation of the spec that this speaks of.")
    conditions: Conditions = Field(default=(), description="One per type.")
    columns: Columns | None = Field(default=None, description="What a list of services shows.")
    url: str = Field(default="", description="Where clients connect.")
    served_names: tuple[str, ...] = Field(default=(), description="Names that are served, conflicts left out.")
    model_revision: str = Field(default="", description="Commit that the model's revision resolved to.")
    revision: str = Field(default="", description="Revision that new workers have.")
    stable_revision: str = Field(default="", description="Last revision that was wholly ready.")
    failed_revision: str = Field(
        default="",
        description="Revision that failed and was taken back; not tried again until the service asks for another.",
    )
    failed_attempt: str = Field(
        default="", description="Value of the annotation `inferplane.dev/retry` then; another value tries again."
    )
    failure: str = Field(default="", description="Why it failed.")
    rollout: RolloutSummary | None = Field(default=None, description="The change that is being rolled out.")
    prefill: PoolSummary | None = Field(default=None, description="The prefill pool.")
    decode: PoolSummary | None = Field(default=None, description="The decode pool.")
    slo: SloSummary | None = Field(default=None, description="The objective, measured.")
    plan: PlanSummary | None = Field(default=None, description="The planner's last decision.")
    routing: RoutingSummary | None = Field(default=None, description="Whether predicted prefix hits come true.")
    unverified: tuple[str, ...] = Field(default=(), description="What in use was never run end to end.")


class InferenceService(WireModel):
    api_version: Literal["inferplane.dev/v1alpha1"] = Field(default=API_VERSION, description="API group and version.")
    kind: Literal["InferenceService"] = Field(default="InferenceService", description="Kind.")
    metadata: ObjectMeta = Field(description="Name, namespace, labels, annotations.")
    spec: InferenceServiceSpec = Field(description="What is wanted.")
    status: InferenceServiceStatus | None = Field(default=None, description="What is; written by the operator.")

    @model_validator(mode="after")
    def _short_name(self) -> Self:
        # Pools, Deployments and Pods append to the name, and each of them must stay a DNS label.
        name = self.metadata.name
        if len(name) > _NAME_LENGTH or "." in name:
            raise invalid(
                Finding("metadata.name", f"{name[:80]!r} is too long or has dots", "use at most 40 characters, no '.'")
            )
        return self
