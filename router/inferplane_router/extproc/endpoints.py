"""Addresses to workers and back: what a proxy knows of the fleet, and what it may be told.

A proxy speaks of endpoints (host:port of agents), the core of workers.  A subset that the proxy names binds the worker
that is to answer; who prefills is no destination of the proxy's, so every prefill worker stays open.
"""

from collections.abc import Collection, Sequence
from zlib import crc32

from inferplane_api.catalogue import Catalogue, CatalogueService, CatalogueWorker, WorkerRole
from inferplane_router.core.values import RefusalReason, Refused, Routed
from inferplane_router.gateway.errors import NoPlaceError

Fleet = tuple[CatalogueWorker, ...]


class Endpoints:
    """What the catalogue in force says of the places of workers."""

    def __init__(self, *, fallbacks: int) -> None:
        self._fallbacks = fallbacks
        """How many further endpoints a proxy is told of besides the chosen one."""
        self.known = False
        """Some catalogue has been read."""
        self._of_service: dict[tuple[str, str], Fleet] = {}
        self._by_id: dict[str, CatalogueWorker] = {}

    def follow(self, catalogue: Catalogue) -> None:
        """Replace what is known."""
        fleets: dict[tuple[str, str], list[CatalogueWorker]] = {}
        for worker in catalogue.workers:
            fleets.setdefault((worker.namespace, worker.service), []).append(worker)
        self._of_service = {key: tuple(fleet) for key, fleet in fleets.items()}
        self._by_id = {worker.worker_id: worker for worker in catalogue.workers}
        self.known = True

    def within(self, service: CatalogueService, subset: Collection[str]) -> frozenset[str]:
        """Return the workers that may serve a request bound to `subset`; raises `NoPlaceError` if none is there."""
        fleet = self._of_service.get((service.namespace, service.name), ())
        answering = [each.worker_id for each in fleet if _answers(each) and each.http_address in subset]
        if not answering:
            words = f"no worker of service {service.name} is among the endpoints that the proxy allows"
            raise NoPlaceError(Refused("", RefusalReason.NO_WORKERS, words, retry_after_s=1.0))
        return frozenset(answering) | {each.worker_id for each in fleet if not _answers(each)}

    def destinations(self, routed: Routed, only: frozenset[str]) -> Sequence[str]:
        """Return the chosen endpoint, then others that can take the request if that one does not.

        Fall-backs are of the same revision, and of a request that was placed on a rank of its own there are none.
        """
        chosen = self._by_id.get(routed.decode.worker_id)
        if not self._fallbacks or chosen is None or routed.decode.rank:
            return (routed.decode.address,)
        others = [each for each in self._of_service[chosen.namespace, chosen.service] if _replaces(each, chosen, only)]
        at = crc32(routed.request_id.encode()) % len(others) if others else 0
        spread = (others[at:] + others[:at])[: self._fallbacks]
        return (routed.decode.address, *(each.http_address for each in spread))


def _answers(worker: CatalogueWorker) -> bool:
    return worker.role is WorkerRole.DECODE


def _replaces(other: CatalogueWorker, chosen: CatalogueWorker, only: frozenset[str]) -> bool:
    if not _answers(other) or other is chosen or other.revision != chosen.revision:
        return False
    return not only or other.worker_id in only
