"""LoRAAdapter: a fine-tuned adapter that a service offers under a name of its own."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from inferplane_api.v1alpha1.conditions import Conditions
from inferplane_api.v1alpha1.lora import AdapterRank
from inferplane_api.v1alpha1.metadata import API_VERSION, DnsLabel, DnsSubdomain, ObjectMeta
from inferplane_api.v1alpha1.model import ServedName
from inferplane_api.v1alpha1.source import ModelSource
from inferplane_api.v1alpha1.wire import WireModel, keyed_by


class LoRAAdapterSpec(WireModel):
    service: DnsLabel = Field(description="InferenceService that offers it, in the same namespace.")
    served_name: ServedName | None = Field(
        default=None, description="Name under which clients ask for it; default: the object's name."
    )
    source: ModelSource = Field(description="Where its weights come from.")
    revision: str = Field(
        default="",
        max_length=256,
        description="Branch, tag or commit of a Hugging Face source; a word of yours for others, whose weights are "
        "loaded anew when it changes.",
    )
    secret_ref: DnsSubdomain | None = Field(default=None, description="Secret whose key `token` opens the source.")
    rank: AdapterRank = Field(default=16, description="Rank of its matrices; engines reserve memory for the largest.")
    pinned: bool = Field(default=False, description="Never unload it to make room for another.")


class AdapterState(StrEnum):
    LOADED = "Loaded"
    LOADING = "Loading"
    FAILED = "Failed"
    UNREACHABLE = "Unreachable"
    """The worker's agent does not answer."""
    FULL = "Full"
    """The worker holds as many as it may, and others come first."""
    NO_ROOM = "NoRoom"
    """The worker was started without adapters, for a smaller rank, or without the volume of its weights."""


class AdapterOnWorker(WireModel):
    name: str = Field(max_length=253, description="The worker: its Pod.")
    state: AdapterState = Field(description="Whether it has the adapter.")
    revision: str = Field(default="", max_length=256, description="Revision that its requests get; empty: none.")
    message: str = Field(default="", max_length=1024, description="What is in the way, in the engine's own words.")


class LoRAAdapterStatus(WireModel):
    observed_generation: int = Field(default=0, ge=0, description="Generation of the spec that this speaks of.")
    conditions: Conditions = Field(default=(), description="One per type.")
    revision: str = Field(default="", description="Commit that the revision resolved to.")
    loaded_on: int = Field(default=0, ge=0, description="Workers that have it loaded.")
    wanted_on: int = Field(default=0, ge=0, description="Workers that shall have it: the ready ones of its service.")
    workers: Annotated[tuple[AdapterOnWorker, ...], Field(max_length=64, json_schema_extra=keyed_by("name"))] = Field(
        default=(), description="One entry a worker, those in trouble first; the first 64."
    )


class LoRAAdapter(WireModel):
    api_version: Literal["inferplane.dev/v1alpha1"] = Field(default=API_VERSION, description="API group and version.")
    kind: Literal["LoRAAdapter"] = Field(default="LoRAAdapter", description="Kind.")
    metadata: ObjectMeta = Field(description="Name, namespace, labels, annotations.")
    spec: LoRAAdapterSpec = Field(description="What is wanted.")
    status: LoRAAdapterStatus | None = Field(default=None, description="What is; written by the operator.")

    @property
    def served_name(self) -> str:
        return self.spec.served_name or self.metadata.name
