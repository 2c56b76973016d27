"""The services' conditions as metrics, so that what `kubectl` shows can wake somebody up.

Problem: a status is in compressed objects, and a scrape of five hundred of them would unpack each.
Idea: what a version said is remembered until there is another.  Trade-off: a tuple of a few words for each service.
Invariant: a service that is gone is gone from the page.
"""

from collections.abc import Iterable
from typing import Final

from inferplane_operator.cluster.raw import items, part, text
from inferplane_operator.cluster.stored import ObjectId, Stored
from inferplane_runtime.metrics.catalogue import kube_operator as catalogue
from inferplane_runtime.metrics.instruments import Instruments

Said = tuple[tuple[str, str], ...]
"""(type, status) of each condition."""
_NEVER: Final = -1


class ConditionMeters:
    """One gauge for each condition of each service."""

    def __init__(self, make: Instruments) -> None:
        self._cells = make.cells(catalogue.SERVICE_CONDITION)
        self._known: dict[ObjectId, tuple[int, Said]] = {}

    def refresh(self, services: Iterable[Stored]) -> None:
        """Take over what the store's services say of themselves."""
        self._known = {service.id: (service.version, self._said(service)) for service in services}
        self._cells.clear()
        for name, (_, said) in self._known.items():
            for kind, status in said:
                self._cells.labels(name.namespace, name.name, kind, status).set(1)

    def _said(self, service: Stored) -> Said:
        version, said = self._known.get(service.id, (_NEVER, ()))
        return said if version == service.version else _read(service)


def _read(service: Stored) -> Said:
    conditions = items(part(service.manifest(), "status"), "conditions")
    return tuple((text(each, "type"), text(each, "status")) for each in conditions)
