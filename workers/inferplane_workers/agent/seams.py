"""What the data path is given and what it tells, as values and narrow protocols."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from inferplane_workers.agent.routing_headers import Routing
from inferplane_workers.agent.timeline import Report, Side


class Observer(Protocol):
    """Hears what the data path does: the stream to routers, metrics and logs stand behind it."""

    def accepted(self, routing: Routing, side: Side) -> None: ...

    def reported(self, report: Report) -> None: ...

    def stripped(self, fields: Sequence[str]) -> None:
        """Note that a client sent what no client may."""
        ...

    def handoff_failed(self, address: str, cause: str) -> None: ...


@dataclass(frozen=True, slots=True)
class DataPathSettings:
    """Bounds of the data path; times in seconds."""

    worker_id: str
    engine_address: str
    role: Side
    model: str = ""
    """The model's first served name."""
    handoff_deadline_s: float = 15.0
    """From a prefill answer to its use; well under the engine's lease."""
    prefill_silence_s: float = 120.0
    engine_silence_s: float = 3600.0
    bootstrap_port: int = 8998
    """Of the engines beside prefill agents, where halves that are sent at once meet."""
