"""Who holds a served name when several services claim it.

Problem.  Clients name a model, not a service, so one name may lead to one service only; and the operator's status must
say what every router does, though they read the objects at different moments.
Idea.  The older claim wins.  A service claims its own names from its creation on, and an adapter's name from when both
exist: an old service does not take a name from a younger one by getting an adapter.  Equal times are decided by
namespace and name.
Trade-off.  When a name was written into a service cannot be known, so an old service that adds a name later takes it
from a younger one that had it first.
Invariant.  The order in which objects are seen changes nothing: equal sets of claims have equal holders.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inferplane_api.v1alpha1.inference_service import InferenceService
    from inferplane_api.v1alpha1.lora_adapter import LoRAAdapter


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """A namespaced object of one kind."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Claim:
    """One served name that one service wants."""

    name: str
    service: Key
    since: str = ""
    """Creation time as an API server writes it (RFC 3339, UTC, whole seconds); "": not created yet, so youngest."""


def holders(claims: Iterable[Claim]) -> Mapping[str, Key]:
    """Return the service that holds each name."""
    oldest: dict[str, Claim] = {}
    for claim in claims:
        rival = oldest.get(claim.name)
        if rival is None or _age(claim) < _age(rival):
            oldest[claim.name] = claim
    return {name: claim.service for name, claim in oldest.items()}


def claims_of(service: "InferenceService", adapters: Iterable["LoRAAdapter"] = ()) -> tuple[Claim, ...]:
    """Return what a service claims; adapters of other services are left out."""
    key, created = Key(service.metadata.namespace, service.metadata.name), service.metadata.creation_timestamp or ""
    own = tuple(Claim(name, key, created) for name in service.spec.model.all_served_names)
    offered = tuple(
        adapter_claim(adapter.served_name, key, created, adapter.metadata.creation_timestamp or "")
        for adapter in adapters
        if Key(adapter.metadata.namespace, adapter.spec.service) == key
    )
    return own + offered


def adapter_claim(name: str, service: Key, service_created: str, adapter_created: str) -> Claim:
    """Return what a service claims through one of its adapters."""
    return Claim(name, service, _later(service_created, adapter_created))


def alias_holders(aliases: Iterable[Claim], served: Container[str]) -> Mapping[str, Key]:
    """Return the ModelRoute that holds each alias (`Claim.service` names the route).

    A name that is served is nobody's alias: else a route in one namespace could take requests from a service in
    another.
    """
    return holders(claim for claim in aliases if claim.name not in served)


def _later(one: str, other: str) -> str:
    return max(one, other) if one and other else ""


def _age(claim: Claim) -> tuple[bool, str, Key]:
    return (not claim.since, claim.since, claim.service)
