"""From the model name that a client wrote to a service, the name its engines know, and an adapter.

Order: routes first (a weighted choice, one level), then served names, then adapters of any service.  Where two
services claim one name the earlier in the catalogue has it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

from inferplane_api.catalogue import Catalogue, CatalogueService
from inferplane_engine.identity import Adapter

ServiceKey = tuple[str, str]
"""(namespace, name)."""


def service_key(service: CatalogueService) -> ServiceKey:
    return service.namespace, service.name


@dataclass(frozen=True, slots=True)
class Names:
    """All names of one catalogue."""

    served: Mapping[str, CatalogueService] = field(default_factory=dict[str, CatalogueService])
    routes: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict[str, tuple[tuple[str, int], ...]])

    @classmethod
    def of(cls, catalogue: Catalogue) -> "Names":
        served: dict[str, CatalogueService] = {}
        for service in catalogue.services:
            for name in service.served_names:
                served.setdefault(name, service)
        return cls(served, {route.name: route.targets for route in catalogue.routes})

    def follow(self, name: str, rng: Random) -> str:
        """Replace a route's name by one of its targets, by weight."""
        targets = [(target, weight) for target, weight in self.routes.get(name, ()) if weight > 0]
        if not targets:
            return name
        return rng.choices([target for target, _ in targets], [weight for _, weight in targets])[0]


def find_adapter(name: str, loaded: Iterable[tuple[ServiceKey, Adapter]]) -> tuple[ServiceKey, Adapter] | None:
    """Find the service that has an adapter of this name loaded."""
    return next(((key, adapter) for key, adapter in loaded if adapter.name == name), None)
