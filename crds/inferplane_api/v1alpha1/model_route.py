"""ModelRoute: names that clients use, and the served names that stand behind them with weights."""

from typing import Literal, Self

from pydantic import Field, model_validator

from inferplane_api.v1alpha1.conditions import Conditions
from inferplane_api.v1alpha1.metadata import API_VERSION, ObjectMeta
from inferplane_api.v1alpha1.model import ServedName
from inferplane_api.v1alpha1.wire import Finding, WireModel, counted_in, invalid, keyed_by

_WEIGHT_LIMIT = 1_000_000


class RouteTarget(WireModel):
    served_name: ServedName = Field(description="Served name of a service or an adapter.")
    weight: int = Field(default=1, ge=0, le=_WEIGHT_LIMIT, description="Share of requests, relative to the others.")


class Canary(WireModel):
    """A small share for something new, on top of the targets."""

    served_name: ServedName = Field(description="Served name that is tried.")
    percent: int = Field(
        ge=0,
        le=100,
        description="Percent of requests; the targets share the rest.",
        json_schema_extra=counted_in("percent"),
    )


class ModelRouteSpec(WireModel):
    aliases: tuple[ServedName, ...] = Field(
        default=(), max_length=32, description="Names that clients use; default: the object's name."
    )
    targets: tuple[RouteTarget, ...] = Field(
        min_length=1, max_length=64, description="What stands behind them.", json_schema_extra=keyed_by("servedName")
    )
    canary: Canary | None = Field(default=None, description="A small share for something new.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        findings: list[Finding] = []
        if not any(target.weight for target in self.targets):
            findings.append(Finding("targets", "all weights are 0", "give one target a weight of 1 or more"))
        names = [target.served_name for target in self.targets]
        findings += [
            Finding(f"targets.{index}.servedName", f"{name!r} appears twice", "merge the two entries")
            for index, name in enumerate(names)
            if name in names[:index]
        ]
        findings += [
            Finding(f"aliases.{index}", f"{alias!r} appears twice", "name each one once")
            for index, alias in enumerate(self.aliases)
            if alias in self.aliases[:index]
        ]
        findings += [
            Finding("aliases", f"{alias!r} is also a target", "a name cannot stand for itself: rename the alias")
            for alias in self.aliases
            if alias in names
        ]
        if self.canary is not None and self.canary.served_name in names:
            findings.append(
                Finding("canary.servedName", f"{self.canary.served_name!r} is a target", "change its weight instead")
            )
        if findings:
            raise invalid(*findings)
        return self


class ModelRouteStatus(WireModel):
    observed_generation: int = Field(default=0, ge=0, description="Generation of the spec that this speaks of.")
    conditions: Conditions = Field(default=(), description="One per type.")


class ModelRoute(WireModel):
    api_version: Literal["inferplane.dev/v1alpha1"] = Field(default=API_VERSION, description="API group and version.")
    kind: Literal["ModelRoute"] = Field(default="ModelRoute", description="Kind.")
    metadata: ObjectMeta = Field(description="Name, namespace, labels, annotations.")
    spec: ModelRouteSpec = Field(description="What is wanted.")
    status: ModelRouteStatus | None = Field(default=None, description="What is; written by the operator.")

    @model_validator(mode="after")
    def _not_itself(self) -> Self:
        if not self.spec.aliases and any(target.served_name == self.metadata.name for target in self.spec.targets):
            raise invalid(
                Finding("metadata.name", f"{self.metadata.name!r} is also a target", "give spec.aliases, or rename it")
            )
        return self

    @property
    def aliases(self) -> tuple[str, ...]:
        """The names clients use; never empty."""
        return self.spec.aliases or (self.metadata.name,)
