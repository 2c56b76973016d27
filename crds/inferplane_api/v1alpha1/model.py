"""The model of a service: its name, its weights, the names clients use."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from inferplane_api.v1alpha1.metadata import DnsSubdomain
from inferplane_api.v1alpha1.source import CaBundle, ModelSource, WeightsCache
from inferplane_api.v1alpha1.wire import Finding, WireModel, invalid

ServedName = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\s\x00-\x1f]+$")]


class ModelSpec(WireModel):
    name: ServedName = Field(description="The model's own name, part of every KV block's identity.")
    source: ModelSource | None = Field(
        default=None,
        description="Where the weights come from; absent only for the simulated engine's built-in model.",
    )
    revision: str = Field(
        default="",
        max_length=256,
        description="Branch, tag or commit of a Hugging Face source; status shows the commit it resolved to.",
    )
    secret_ref: DnsSubdomain | None = Field(
        default=None, description="Secret in the same namespace whose key `token` opens the source."
    )
    served_names: tuple[ServedName, ...] = Field(
        default=(),
        max_length=32,
        description="Names under which clients ask for it, canonical first; default: the name.",
    )
    trust_remote_code: bool = Field(default=False, description="Run Python code that comes with the weights.")
    cache: WeightsCache | None = Field(
        default=None, description="Where a hub's files are kept for other Pods; default: each Pod has its own."
    )
    endpoint: str = Field(
        default="",
        max_length=512,
        pattern=r"^(https?://[^\s/?#]+(/[^\s?#]*)?)?$",
        description="Mirror of the hub to download from; default: the operator's.",
    )
    ca_bundle: CaBundle | None = Field(
        default=None, description="Certificates that the mirror is checked against, besides the usual ones."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        findings: list[Finding] = []
        twice = sorted({name for name in self.served_names if self.served_names.count(name) > 1})
        if twice:
            findings.append(Finding("servedNames", f"{', '.join(twice)} appears twice", "name each one once"))
        if self.revision and (self.source is None or self.source.hf is None):
            findings.append(
                Finding("revision", "only a Hugging Face source has revisions", "remove it, or use source.hf")
            )
        given = {"cache": self.cache, "endpoint": self.endpoint, "caBundle": self.ca_bundle}
        if self.source is None or self.source.hf is None:
            findings += [
                Finding(field, "only a Hugging Face source is downloaded", "remove it, or use source.hf")
                for field, value in given.items()
                if value
            ]
        if findings:
            raise invalid(*findings)
        return self

    @property
    def all_served_names(self) -> tuple[str, ...]:
        """The names clients may use; never empty."""
        return self.served_names or (self.name,)
