"""The catalogue: what a router needs to know about services and where their workers are.

Discovery is one small protocol: a sequence of whole catalogues, each replacing the one before.  Locally it is a JSON
file that the process runner rewrites atomically; in Kubernetes it is computed from a watch of resources and Pods.
Whole values instead of patches keep every consumer level-based: a missed update costs nothing.

The catalogue names endpoints only.  What a worker *is* (block size, ranks, adapters) it says itself on its stream.
"""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class WorkerRole(StrEnum):
    """What a worker's pool is for; a decode worker can prefill where its engine does both."""

    PREFILL = "prefill"
    DECODE = "decode"


class RoutingMode(StrEnum):
    """When a request is handed from a prefill to a decode worker."""

    DISAGGREGATED = "disaggregated"
    AGGREGATED = "aggregated"
    AUTO = "auto"


class CatalogueWorker(_Value):
    """One worker agent's addresses, as host:port."""

    worker_id: str
    namespace: str = "default"
    service: str
    pool: str
    role: WorkerRole
    revision: str
    http_address: str
    stream_address: str
    zone: str = ""


class PoolDevices(_Value):
    """What one worker of a role runs on."""

    accelerator: str = ""
    devices: int = Field(default=1, ge=0)


class LengthLimit(_Value):
    """The TTFT limit of prompts up to a length."""

    max_prompt_tokens: int
    ttft_s: float


class PriorityLimit(_Value):
    """What is another limit for one priority."""

    priority: int
    ttft_s: float | None = None
    tpot_s: float | None = None


class CatalogueService(_Value):
    """One InferenceService, reduced to what routing needs.  Times in seconds."""

    namespace: str = "default"
    name: str
    served_names: tuple[str, ...] = Field(min_length=1)
    adapters: tuple[str, ...] = Field(
        default=(), description="Served names of adapters: which workers have one they say themselves."
    )
    mode: RoutingMode = RoutingMode.AUTO
    policy: str = "kv-aware"
    ttft_s: float = Field(default=2.0, gt=0)
    tpot_s: float = Field(default=0.1, gt=0)
    ttft_by_prompt_length: tuple[LengthLimit, ...] = Field(default=(), description="Ascending.")
    priorities: tuple[PriorityLimit, ...] = ()
    percentile: float = Field(default=99.0, gt=0, lt=100, description="Percent of requests that are to be in time.")
    queue_limit: int = Field(default=1024, ge=0, description="Requests that may wait for a worker.")
    queue_timeout_s: float = Field(default=30.0, gt=0)
    request_timeout_s: float = Field(default=3600.0, gt=0, description="Longest time between two bytes of an answer.")
    expose_headers: bool = Field(default=False, description="Send the x-inferplane-* response headers.")
    prefill: PoolDevices = PoolDevices()
    decode: PoolDevices = PoolDevices()


class CatalogueRoute(_Value):
    """One served name that stands for weighted others (ModelRoute)."""

    name: str
    targets: tuple[tuple[str, int], ...] = Field(min_length=1, description="(served name, weight) pairs.")


class Catalogue(_Value):
    """Everything, at one moment."""

    generation: int = 0
    services: tuple[CatalogueService, ...] = ()
    routes: tuple[CatalogueRoute, ...] = ()
    workers: tuple[CatalogueWorker, ...] = ()
