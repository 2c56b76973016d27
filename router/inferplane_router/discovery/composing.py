"""From what is known of a cluster to a catalogue: pure.

Names first: of several that claim a served name or an alias one holds it (`inferplane_api.claims`, by which the
operator writes its status too); the others keep the rest of theirs.  A service without any name of its own is left
out, and its workers and adapters with it.
Invariants.  Equal pictures give equal catalogues, whatever the order in which objects were seen: so all routers of a
cluster agree.  A name appears once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from inferplane_api.catalogue import CatalogueRoute, CatalogueService, CatalogueWorker
from inferplane_api.claims import Claim, Key, adapter_claim, alias_holders, holders
from inferplane_router.discovery.ownership import Member, call_roll
from inferplane_router.discovery.records import AdapterRecord, Picture, RouteRecord, ServiceRecord


class Ignored(StrEnum):
    """Why something that was found is not in the catalogue."""

    UNOWNED_POD = "unowned_pod"
    """A Pod with our labels that no pool owns."""
    INVALID = "invalid"
    """A resource that this version cannot carry out."""
    NAME_TAKEN = "name_taken"
    """A served name or alias that somebody else holds."""


@dataclass(frozen=True, slots=True)
class Composed:
    services: tuple[CatalogueService, ...]
    routes: tuple[CatalogueRoute, ...]
    workers: tuple[CatalogueWorker, ...]
    lost: frozenset[tuple[str, Key]]
    """Names, and who claims them in vain."""
    ignored: Mapping[Ignored, int]
    members: Mapping[str, Member] = field(default_factory=dict[str, Member], compare=False)
    """What the workers were made of; spares the next composition work."""


def compose(picture: Picture, before: Composed | None = None) -> Composed:
    """Return the catalogue's content; `before` is an earlier one, whose parts are used again where nothing changed."""
    claims = _served_claims(picture)
    held = holders(claims)
    aliases = _alias_claims(picture.routes.values())
    held_aliases = alias_holders(aliases, held)
    services = _services(picture.services, claims, held)
    roll = call_roll(picture, services, before.members if before is not None else {})
    workers = (member.worker for member in roll.members.values())
    lost = _lost(claims, held) | _lost(aliases, held_aliases)
    return Composed(
        services=tuple(sorted(services.values(), key=lambda entry: (entry.namespace, entry.name))),
        routes=_routes(picture.routes.values(), held_aliases),
        workers=tuple(sorted(workers, key=lambda worker: worker.worker_id)),
        lost=lost,
        ignored={
            Ignored.UNOWNED_POD: roll.strangers,
            Ignored.INVALID: _invalid(picture),
            Ignored.NAME_TAKEN: len(lost),
        },
        members=roll.members,
    )


def _served_claims(picture: Picture) -> list[Claim]:
    """List what every service claims: its own names in their order, then its adapters' by name."""
    offered: dict[Key, list[AdapterRecord]] = {}
    for adapter in picture.adapters.values():
        if adapter.served_name:
            offered.setdefault(Key(adapter.key.namespace, adapter.service), []).append(adapter)
    claims: list[Claim] = []
    for service in picture.services.values():
        if service.entry is None:
            continue
        claims += [Claim(name, service.key, service.since) for name in service.entry.served_names]
        claims += [
            adapter_claim(adapter.served_name, service.key, service.since, adapter.since)
            for adapter in sorted(offered.get(service.key, ()), key=lambda adapter: adapter.served_name)
        ]
    return claims


def _alias_claims(routes: Iterable[RouteRecord]) -> list[Claim]:
    return [Claim(entry.name, route.key, route.since) for route in routes for entry in route.entries]


def _services(
    records: Mapping[str, ServiceRecord], claims: Sequence[Claim], held: Mapping[str, Key]
) -> dict[str, CatalogueService]:
    names: dict[Key, dict[str, None]] = {}
    for claim in claims:
        if held[claim.name] == claim.service:
            names.setdefault(claim.service, {})[claim.name] = None
    found: dict[str, CatalogueService] = {}
    for uid, record in records.items():
        if record.entry is not None:
            own = tuple(name for name in record.entry.served_names if name in names.get(record.key, ()))
            adapters = tuple(name for name in names.get(record.key, ()) if name not in record.entry.served_names)
            if own:
                found[uid] = _named(record.entry, own, adapters)
    return found


def _named(entry: CatalogueService, own: tuple[str, ...], adapters: tuple[str, ...]) -> CatalogueService:
    if (entry.served_names, entry.adapters) == (own, adapters):
        return entry
    return entry.model_copy(update={"served_names": own, "adapters": adapters})


def _routes(records: Iterable[RouteRecord], held: Mapping[str, Key]) -> tuple[CatalogueRoute, ...]:
    found = (entry for record in records for entry in record.entries if held.get(entry.name) == record.key)
    return tuple(sorted(found, key=lambda entry: entry.name))


def _lost(claims: Iterable[Claim], held: Mapping[str, Key]) -> frozenset[tuple[str, Key]]:
    return frozenset((claim.name, claim.service) for claim in claims if held.get(claim.name) != claim.service)


def _invalid(picture: Picture) -> int:
    return sum(
        bool(record.problem)
        for kind in (picture.services, picture.adapters, picture.routes)
        for record in kind.values()
    )
