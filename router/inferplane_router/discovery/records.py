"""What is kept of each object of a cluster: the few fields that a catalogue is made of.

A Pod is ten thousand bytes and more on the wire, here it is a few hundred.  Records are compared: an event that
changes none of these fields (a status, an annotation, a probe) is no news.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from inferplane_api.catalogue import CatalogueRoute, CatalogueService
from inferplane_api.claims import Key


@dataclass(frozen=True, slots=True)
class Controller:
    """The one owner that manages an object."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Owned:
    """An object as far as the chain from a Pod to its service goes."""

    kind: str
    key: Key
    uid: str
    controller: Controller | None = None


@dataclass(frozen=True, slots=True)
class PodRecord:
    owned: Owned
    address: str = ""
    """Empty: it has none yet."""
    over: bool = False
    """All its containers have ended for good."""
    revision: str = ""
    http_port: int = 0
    stream_port: int = 0


@dataclass(frozen=True, slots=True)
class ServiceRecord:
    key: Key
    uid: str
    generation: int
    since: str
    """Creation time as the API server writes it."""
    entry: CatalogueService | None
    """With the service's own names; None: this version cannot carry it out."""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class AdapterRecord:
    key: Key
    uid: str
    generation: int
    since: str
    service: str = ""
    served_name: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RouteRecord:
    key: Key
    uid: str
    generation: int
    since: str
    entries: tuple[CatalogueRoute, ...] = ()
    problem: str = ""


Record = Owned | PodRecord | ServiceRecord | AdapterRecord | RouteRecord


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything known of a cluster at one moment, each kind by uid."""

    services: Mapping[str, ServiceRecord] = field(default_factory=dict[str, ServiceRecord])
    adapters: Mapping[str, AdapterRecord] = field(default_factory=dict[str, AdapterRecord])
    routes: Mapping[str, RouteRecord] = field(default_factory=dict[str, RouteRecord])
    owners: Mapping[str, Mapping[str, Owned]] = field(default_factory=dict[str, Mapping[str, Owned]])
    """By kind: pools, Deployments, ReplicaSets, StatefulSets and LeaderWorkerSets."""
    pods: Mapping[str, PodRecord] = field(default_factory=dict[str, PodRecord])
