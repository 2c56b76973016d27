"""What rendering gives: plain values."""

from dataclasses import dataclass
from typing import Any

from inferplane_api.catalogue import CatalogueRoute, CatalogueService, WorkerRole

Manifest = dict[str, Any]
"""A piece of a Kubernetes manifest: JSON values only."""


@dataclass(frozen=True, slots=True)
class RenderedPool:
    """One pool of a service."""

    name: str
    role: WorkerRole
    replicas: int
    min_replicas: int
    max_replicas: int
    revision: str
    """Equal in all pools of a service: prefill and decode workers of one revision talk to each other only."""
    devices: int
    """Devices (GPUs) that one worker needs; 0 where it computes on the CPU or in simulation."""
    data_parallel: int
    """Ranks of one worker; it takes as many side-channel ports, in a row."""
    accelerator: str
    pod_template: Manifest
    """Of the node that serves, where a worker is spread over several (`multi_node` makes the others')."""
    nodes: int = 1
    """Nodes that one worker is spread over."""
    claim_templates: tuple[Manifest, ...] = ()
    """ResourceClaimTemplates that the Pods refer to; they have to be there first."""


@dataclass(frozen=True, slots=True)
class RenderedService:
    """Everything that one InferenceService becomes."""

    namespace: str
    name: str
    revision: str
    pools: tuple[RenderedPool, ...]
    catalogue_service: CatalogueService
    routes: tuple[CatalogueRoute, ...]
