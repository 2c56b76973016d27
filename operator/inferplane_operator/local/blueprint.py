"""What the desired state means on this machine: pools with everything needed to start their workers.

Plain values, made once per generation from the manifests by `assemble` and compared and carried out by the rest.
"""

from dataclasses import dataclass, field
from typing import Any

from inferplane_api.catalogue import CatalogueRoute, CatalogueService, WorkerRole
from inferplane_operator.reconcile.adapter import WantedAdapter
from inferplane_operator.render.adapter_need import AdapterNeed
from inferplane_operator.render.values import Manifest


@dataclass(frozen=True, slots=True)
class LocalPool:
    """Times in seconds; containers as rendered, `$(NAME)` not yet expanded."""

    name: str
    role: WorkerRole
    replicas: int
    min_replicas: int
    max_replicas: int
    revision: str
    agent: Manifest = field(compare=False)
    engine: Manifest = field(compare=False)
    """Equal where the revision is equal."""
    gpus: int = 0
    """Devices that one worker takes; 0 for engines that compute on the CPU or not at all."""
    ranks: int = 1
    """Side-channel ports that one worker takes, in a row."""
    drain_timeout_s: float = 120.0
    startup_timeout_s: float = 1800.0
    """An engine that is not ready after this is started anew."""
    offers: AdapterNeed | None = field(default=None, compare=False)
    """Room for adapters; None: none."""


@dataclass(frozen=True, slots=True)
class LocalAdapter:
    """One adapter of the service; `problem` says why it cannot be offered here."""

    wanted: WantedAdapter
    problem: str = ""


@dataclass(frozen=True, slots=True)
class LocalStore:
    """The KV store beside the workers."""

    name: str
    """Of its KVStore."""
    config: dict[str, Any]
    """Its configuration without its places, which are the machine's."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    service: CatalogueService
    pools: tuple[LocalPool, ...]
    routes: tuple[CatalogueRoute, ...] = ()
    adapters: tuple[LocalAdapter, ...] = ()
    kv_store: LocalStore | None = None
    """None: there is none."""
    planned: bool = False
    """Whether a planner is asked for, to scale or to advise."""
    gateway_processes: int = 1
    """Of the router, when it starts."""
