"""Arrivals and finished decisions, for whoever observes (the planner).

An observer that reads too slowly loses the oldest observations, never the router its time: the planner works with
rates, and a rate survives a gap better than a router survives a queue without end.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from inferplane_api.proto import router_pb2 as pb
from inferplane_api.proto.worker_pb2 import ROLE_DECODE, WorkerMessage
from inferplane_router.core.values import Ask

_QUEUE: Final = 8192


class Observations:
    """Fans observations out to any number of observers, here and in other processes of the router."""

    def __init__(self, *, wall: Callable[[], float], share: Callable[[pb.Observation], None] | None = None) -> None:
        self._wall = wall
        self._share = share
        self.elsewhere = 0
        """How many observe in other processes."""
        self._observers: set[tuple[asyncio.Queue[pb.Observation], frozenset[str]]] = set()

    @property
    def observers(self) -> int:
        """Return how many listen."""
        return len(self._observers)

    def arrived(self, ask: Ask) -> None:
        """Note a request, before it is placed."""
        if not self._observers and not self.elsewhere:
            return
        tokens = 0 if ask.tokens is None else int(ask.tokens.size)
        arrival = pb.Arrival(
            request_id=ask.request_id,
            arrived_at=self._wall(),
            service=ask.model.service.name,
            namespace=ask.model.service.namespace,
            tenant=ask.tenant,
            prompt_tokens=tokens,
            max_tokens=ask.max_tokens,
        )
        self._publish(pb.Observation(arrival=arrival))

    def reported(self, message: WorkerMessage, explain: Callable[[str], pb.DecisionRecord | None]) -> None:
        """Note that the answering side of a request has reported its end."""
        if (not self._observers and not self.elsewhere) or message.report.side != ROLE_DECODE:
            return
        record = explain(message.report.request_id)
        if record is not None:
            self._publish(pb.Observation(finished=record))

    async def observe(self, services: frozenset[str]) -> AsyncIterator[pb.Observation]:
        """Yield what happens to these services (all, when none is named) until the caller stops."""
        observer = asyncio.Queue[pb.Observation](_QUEUE), services
        self._observers.add(observer)
        try:
            while True:
                yield await observer[0].get()
        finally:
            self._observers.discard(observer)

    def heard(self, observation: pb.Observation) -> None:
        """Pass on what another process of the router has observed."""
        seen = observation.arrival if observation.HasField("arrival") else observation.finished
        for queue, services in self._observers:
            if services and seen.service not in services:
                continue
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(observation)

    def _publish(self, observation: pb.Observation) -> None:
        self.heard(observation)
        if self.elsewhere and self._share is not None:
            self._share(observation)
