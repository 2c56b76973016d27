"""Which Pods are workers, and of which pool: decided by controller references alone.

Problem.  Anyone who may create a Pod may give it our labels, and a router that believed them would send it prompts.
Idea.  From the Pod upwards each controller reference must meet an object of a kind that may control it, with that uid,
name and namespace, up to a pool and from there to an InferenceService.
A worker that spans nodes is a LeaderWorkerSet's leader; the Pods of its other nodes belong to the leader, have no
agent, and are neither workers nor strangers.
Trade-off.  Every Pod is looked at for every change.  What siblings share (the way up) is found once, and what a Pod
became last time is used again while neither it nor its pool has changed: a thousand Pods are a millisecond's work.
Invariants.  A missing link makes no worker, also if it is only not seen yet: the next picture has it.  What was known
before changes the work, never the result.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from inferplane_api.catalogue import CatalogueService, CatalogueWorker, WorkerRole
from inferplane_router.discovery.records import Controller, Owned, Picture, PodRecord, ServiceRecord

_CONTROLLERS: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": ("ReplicaSet", "StatefulSet"),
    "ReplicaSet": ("Deployment",),
    "Deployment": ("PrefillPool", "DecodePool"),
    "StatefulSet": ("LeaderWorkerSet", "Pod"),
    "LeaderWorkerSet": ("PrefillPool", "DecodePool"),
}
"""Kind -> kinds that may control it, on the way from a Pod to a pool."""
_LONGEST: Final = 8
"""Objects between a Pod and its pool, both included, and more: references that run in a circle end here."""
_ROLES: Final = {"PrefillPool": WorkerRole.PREFILL, "DecodePool": WorkerRole.DECODE}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a Pod belongs."""

    pool: Owned
    service: ServiceRecord
    leads: bool
    """It is not one of the further nodes of another worker."""


def place_of(pod: PodRecord, picture: Picture) -> Place | None:
    """Climb from a Pod to its pool and service; None where a link is missing."""
    current, leads = pod.owned, True
    for _ in range(_LONGEST):
        if current.kind in _ROLES:
            service = _service_of(current, picture)
            return Place(current, service, leads) if service is not None else None
        above = _controller_of(current, picture)
        if above is None:
            return None
        current, leads = above, leads and above.kind != "Pod"
    return None


@dataclass(frozen=True, slots=True)
class Member:
    """A worker and what it was made of."""

    pod: PodRecord
    pool: Owned
    worker: CatalogueWorker


@dataclass(frozen=True, slots=True)
class Roll:
    """All Pods of a picture."""

    members: Mapping[str, Member]
    """By uid."""
    strangers: int
    """Pods with our labels and no place."""


def call_roll(picture: Picture, services: Mapping[str, CatalogueService], before: Mapping[str, Member]) -> Roll:
    """Find the workers of these services (by uid)."""
    places: dict[tuple[str, Controller | None], Place | None] = {}
    members: dict[str, Member] = {}
    strangers = 0
    for uid, pod in picture.pods.items():
        if pod.over:
            continue
        siblings = (pod.owned.key.namespace, pod.owned.controller)
        if siblings not in places:
            places[siblings] = place_of(pod, picture)
        place = places[siblings]
        if place is None:
            strangers += 1
        elif place.leads and pod.address and place.service.uid in services:
            known = before.get(uid)
            same = known is not None and known.pod is pod and known.pool is place.pool
            members[uid] = known if known is not None and same else Member(pod, place.pool, _worker(pod, place))
    return Roll(members, strangers)


def _controller_of(child: Owned, picture: Picture) -> Owned | None:
    controller = child.controller
    if controller is None or controller.kind not in _CONTROLLERS.get(child.kind, ()):
        return None
    if controller.kind == "Pod":
        leader = picture.pods.get(controller.uid)
        found = leader.owned if leader is not None else None
    else:
        found = picture.owners.get(controller.kind, {}).get(controller.uid)
    if found is None or (found.key.namespace, found.key.name) != (child.key.namespace, controller.name):
        return None
    return found


def _service_of(pool: Owned, picture: Picture) -> ServiceRecord | None:
    controller = pool.controller
    if controller is None or controller.kind != "InferenceService":
        return None
    found = picture.services.get(controller.uid)
    if found is None or (found.key.namespace, found.key.name) != (pool.key.namespace, controller.name):
        return None
    return found


def _worker(pod: PodRecord, place: Place) -> CatalogueWorker:
    key = pod.owned.key
    host = f"[{pod.address}]" if ":" in pod.address else pod.address
    return CatalogueWorker(
        worker_id=f"{key.namespace}/{key.name}",
        namespace=key.namespace,
        service=place.service.key.name,
        pool=place.pool.key.name,
        role=_ROLES[place.pool.kind],
        revision=pod.revision,
        http_address=f"{host}:{pod.http_port}",
        stream_address=f"{host}:{pod.stream_port}",
    )
