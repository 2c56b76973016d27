"""The router core as its callers see it; `RouterCore` is the real one.

No call blocks, does I/O or looks at a clock.  All calls come from one thread.  `now` never goes back.
A caller that got `Queued` calls `poll` when `next_wakeup` has come and after every worker message or completion.
"""

from typing import Protocol

from inferplane_api.catalogue import Catalogue
from inferplane_api.proto.router_pb2 import DecisionRecord
from inferplane_api.proto.worker_pb2 import Outcome, WorkerMessage
from inferplane_router.core.values import Answer, Ask, Refused, ResolvedModel, Resync, Routed, Statistics, UnknownModel


class Routing(Protocol):
    """What gateways and the Router service need."""

    def resolve_model(self, name: str) -> ResolvedModel | UnknownModel:
        """Lead a client's model name to a service, through routes (weighted), served names and adapters."""
        ...

    def model_names(self) -> tuple[str, ...]:
        """List every name that `resolve_model` knows."""
        ...

    def pick(self, ask: Ask, now: float) -> Answer:
        """Choose and reserve; a request id that is in force already is a ValueError."""
        ...

    def retry(self, request_id: str, failed_worker: str, now: float) -> Answer:
        """Choose again without `failed_worker`, which did not take the request; an id not in force is a KeyError."""
        ...

    def in_force(self, request_id: str) -> bool:
        """Say whether a request of this id was picked or queued, and has not ended."""
        ...

    def complete(self, request_id: str, outcome: Outcome, now: float) -> None:
        """Say how a picked or queued request ended; idempotent, unknown ids are ignored."""
        ...

    def poll(self, now: float) -> list[tuple[str, Routed | Refused]]:
        """Do what time brings: expire entries, place queued requests, refuse those whose deadline passed."""
        ...

    def next_wakeup(self) -> float | None:
        """Return when `poll` has something to do at the latest, None for never."""
        ...

    def explain(self, request_id: str) -> DecisionRecord | None:
        """Return the decision record of a recent request, with what was observed so far."""
        ...

    def statistics(self) -> Statistics: ...


class WorkerFeed(Protocol):
    """What worker streams and discovery tell the core."""

    def apply_catalogue(self, catalogue: Catalogue, now: float) -> None:
        """Replace what is known of services, routes and workers."""
        ...

    def worker_connected(self, worker_id: str, now: float) -> None:
        """Begin a stream: what follows starts at sequence 1."""
        ...

    def worker_lost(self, worker_id: str, now: float) -> None: ...

    def on_worker_message(self, worker_id: str, message: WorkerMessage, now: float) -> Resync | None:
        """Take one message of a worker's stream; a Resync must be sent to that worker."""
        ...
