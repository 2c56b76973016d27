"""What PrefillPool and DecodePool have in common: replicas of one rendered Pod template.

`replicas` is written once at creation and then belongs to whoever scales (kubectl, an HPA, KEDA or the planner)
through the scale subresource; the status carries the selector that the scale subresource needs.
"""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, JsonValue, WithJsonSchema, model_validator

from inferplane_api.v1alpha1.conditions import Conditions
from inferplane_api.v1alpha1.metadata import DnsLabel
from inferplane_api.v1alpha1.pool_template import MAX_REPLICAS, POD_TEMPLATE_SCHEMA, Parallelism
from inferplane_api.v1alpha1.units import Duration
from inferplane_api.v1alpha1.wire import Finding, WireModel, invalid, keyed_by


def _rendered(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    missing = [part for part in ("metadata", "spec") if not isinstance(value.get(part), dict)]
    if missing:
        raise invalid(*(Finding(part, "is missing or not a mapping", "give a whole Pod template") for part in missing))
    return value


class PoolSpec(WireModel):
    service: DnsLabel = Field(description="InferenceService that this pool belongs to, in the same namespace.")
    replicas: int = Field(
        default=1, ge=0, le=MAX_REPLICAS, description="Workers wanted; the scale subresource's field."
    )
    min_replicas: int = Field(default=1, ge=0, le=MAX_REPLICAS, description="The planner never goes below.")
    max_replicas: int = Field(default=1, ge=1, le=MAX_REPLICAS, description="The planner never goes above.")
    accelerator: str = Field(default="", max_length=64, description="Accelerator class.")
    parallelism: Parallelism = Field(default_factory=Parallelism, description="How one worker spreads the model.")
    revision: str = Field(pattern=r"^[a-z0-9]{1,16}$", description="Revision of the Pod template.")
    drain_timeout_s: Duration = Field(default=120.0, description="Time for a worker to finish what it has.")
    max_surge: int = Field(default=1, ge=0, le=MAX_REPLICAS, description="Extra workers during a rollout.")
    max_unavailable: int = Field(
        default=0, ge=0, le=MAX_REPLICAS, description="Workers that may be missing during a rollout."
    )
    pod_template: Annotated[
        dict[str, JsonValue],
        AfterValidator(_rendered),
        WithJsonSchema({**POD_TEMPLATE_SCHEMA, "required": ["metadata", "spec"]}),
    ] = Field(description="The rendered Pod template (metadata, spec).")

    @model_validator(mode="after")
    def _range(self) -> Self:
        # `replicas` itself may lie outside: whoever scales by hand is right.
        if self.min_replicas > self.max_replicas:
            raise invalid(
                Finding(
                    "minReplicas",
                    f"{self.min_replicas} exceeds maxReplicas {self.max_replicas}",
                    "lower it or raise the other",
                )
            )
        return self


class RevisionStatus(WireModel):
    revision: str = Field(description="Revision of the Pod template.")
    replicas: int = Field(default=0, ge=0, description="Workers of it.")
    ready_replicas: int = Field(default=0, ge=0, description="Workers of it that serve.")


class StartupSummary(WireModel):
    """How long the worker that became ready last took to start, phase by phase."""

    worker: str = Field(description="The worker: its Pod.")
    scheduled_s: Duration = Field(default=0.0, description="From creation until it had a node.")
    initialized_s: Duration = Field(default=0.0, description="Volumes, images and containers that run first.")
    started_s: Duration = Field(default=0.0, description="Until the engine's program ran.")
    ready_s: Duration = Field(default=0.0, description="Until the engine served: weights, compilation, first answer.")


class PoolStatus(WireModel):
    observed_generation: int = Field(default=0, ge=0, description="Generation of the spec that this speaks of.")
    conditions: Conditions = Field(default=(), description="One per type.")
    replicas: int = Field(default=0, ge=0, description="Workers that exist; the scale subresource's field.")
    ready_replicas: int = Field(default=0, ge=0, description="Workers that serve.")
    updated_replicas: int = Field(default=0, ge=0, description="Workers of the current revision.")
    draining_replicas: int = Field(default=0, ge=0, description="Workers that finish what they have.")
    failed_replicas: int = Field(default=0, ge=0, description="Workers that failed.")
    selector: str = Field(default="", description="Label selector of its Pods; the scale subresource's field.")
    revisions: tuple[RevisionStatus, ...] = Field(
        default=(), description="Workers by revision.", json_schema_extra=keyed_by("revision")
    )
    startup: StartupSummary | None = Field(default=None, description="How long the last start took.")
    scaled_by: str = Field(default="", description="Field manager that set replicas last.")
