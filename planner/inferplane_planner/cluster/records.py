"""What is kept of each object of a cluster: the few fields that planning goes by."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inferplane_api.claims import Key
from inferplane_api.v1alpha1.inference_service import InferenceServiceSpec


@dataclass(frozen=True, slots=True)
class Written:
    """Who wrote a field last, and when (RFC 3339, whole seconds)."""

    manager: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class ServiceRecord:
    """An InferenceService; `problem` says why `spec` is None."""

    key: Key
    uid: str
    generation: int
    spec: InferenceServiceSpec | None
    problem: str = ""
    scaling_set: Written = Written()
    """Who said last how it is scaled."""
    told: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What its status says of what a planner tells."""


@dataclass(frozen=True, slots=True)
class PoolRecord:
    key: Key
    uid: str
    service_uid: str
    """Of the InferenceService that controls it; "": none does."""
    replicas: int
    ready: int = 0
    waits_for: str = ""
    """Why workers get no device, in a word; "": none waits."""
    started: str = ""
    """The worker that became ready last; "": none was measured."""
    start_up_s: float = 0.0
    """How long it took."""
    replicas_set: Written = Written()


@dataclass(frozen=True, slots=True)
class RouterRecord:
    """One slice: addresses of routers that answer."""

    key: Key
    addresses: tuple[str, ...]
