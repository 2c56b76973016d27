"""What all jobs of one agent share."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from inferplane_runtime.http.api import Upstream
from inferplane_runtime.tracing.tracer import Tracer
from inferplane_workers.agent.adapter_dialect import AdapterDialect
from inferplane_workers.agent.adapters import Adapters, Use
from inferplane_workers.agent.engine_adapter import EngineAdapter
from inferplane_workers.agent.ledger import Ledger
from inferplane_workers.agent.peers import Peers
from inferplane_workers.agent.seams import DataPathSettings, Observer
from inferplane_workers.agent.transfers import Transfers


class LiveJob(Protocol):
    """A request in force, as far as others may touch it."""

    def fail(self, message: str) -> None:
        """End it: its engine was found dead or hung."""
        ...


@dataclass(slots=True)
class JobContext:
    """Neighbours of every job, and what is known of the engine from all of them."""

    settings: DataPathSettings
    adapter: EngineAdapter
    upstream: Upstream
    ledger: Ledger
    transfers: Transfers
    observer: Observer
    now: Callable[[], float]
    adapters: Adapters
    dialect: AdapterDialect
    peers: Peers = field(default_factory=Peers)
    tracer: Tracer | None = None
    """None: nothing is traced."""
    draw_room: Callable[[], int] = lambda: secrets.randbits(63)
    """Gives the number on which two halves meet; none comes twice."""
    live: set[LiveJob] = field(default_factory=set[LiveJob])
    busy_since: float = 0.0
    """When the first of the requests in force came."""
    progress_at: float = 0.0
    """When the engine last sent anything."""
    fingerprint: bytes = b""
    """The engine's system fingerprint as JSON, once seen."""

    def engine_model(self, use: Use) -> str:
        """Return how a request under an adapter names its model to the engine."""
        return self.dialect.model(use.engine_name, self.settings.model)
