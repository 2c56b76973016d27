"""From the model name that a client wrote to a service, the name its engines know, and an adapter.

Order: routes first (a weighted choice, one level), then served names, then adapters.  A target that nobody serves is
passed over, and the others share what was its: a canary that is gone would else fail its share of requests.  Where two
services claim one name the earlier in the catalogue has it.  An adapter that the catalogue names is known before any
worker has it.
"""

from collections.abc import Container, Mapping, Sequence
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
    adapters: Mapping[str, ServiceKey] = field(default_factory=dict[str, ServiceKey])
    """Adapter to the service that offers it."""

    @classmethod
    def of(cls, catalogue: Catalogue) -> "Names":
        served: dict[str, CatalogueService] = {}
        for service in catalogue.services:
            for name in service.served_names:
                served.setdefault(name, service)
        adapters: dict[str, ServiceKey] = {}
        for service in catalogue.services:
            for name in service.adapters:
                adapters.setdefault(name, service_key(service))
        return cls(served, {route.name: route.targets for route in catalogue.routes}, adapters)

    def adapter(self, name: str, loaded: Sequence[tuple[ServiceKey, Adapter]]) -> tuple[ServiceKey, Adapter] | None:
        """Find an adapter: of the service that offers the name, else of any that has it."""
        key = self.adapters.get(name)
        found = [(at, adapter) for at, adapter in loaded if adapter.name == name and key in (None, at)]
        if found:
            return found[0]
        return None if key is None else (key, Adapter(name))

    def targets(self, name: str) -> tuple[tuple[str, int], ...]:
        """Return what stands behind a route, with weights; nothing for other names."""
        return tuple((target, weight) for target, weight in self.routes.get(name, ()) if weight > 0)

    def follow(self, name: str, rng: Random, *, without: Container[str] = ()) -> str:
        """Replace a route's name by one of its targets, by weight; none left, or no route: the name itself."""
        targets = [(target, weight) for target, weight in self.targets(name) if target not in without]
        if not targets:
            return name
        return rng.choices([target for target, _ in targets], [weight for _, weight in targets])[0]
