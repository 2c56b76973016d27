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
    """Fans observations out to any number of observers."""

    def __init__(self, *, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._observers: set[tuple[asyncio.Queue[pb.Observation], frozenset[str]]] = set()

    @property
    def observers(self) -> int:
        """Return how many listen."""
        return len(self._observers)

    def arrived(self, ask: Ask) -> None:
        """Note a request, before it is placed."""
        if not self._observers:
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
        self._publish(arrival.service, pb.Observation(arrival=arrival))

    def reported(self, message: WorkerMessage, explain: Callable[[str], pb.DecisionRecord | None]) -> None:
        """Note that the answering side of a request has reported its end."""
        if not self._observers or message.report.side != ROLE_DECODE:
            return
        record = explain(message.report.request_id)
        if record is not None:
            self._publish(record.service, pb.Observation(finished=record))

    async def observe(self, services: frozenset[str]) -> AsyncIterator[pb.Observation]:
        """Yield what happens to these services (all, when none is named) until the caller stops."""
        observer = asyncio.Queue[pb.Observation](_QUEUE), services
        self._observers.add(observer)
        try:
            while True:
                yield await observer[0].get()
        finally:
            self._observers.discard(observer)

    def _publish(self, service: str, observation: pb.Observation) -> None:
        for queue, services in self._observers:
            if services and service not in services:
                continue
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(observation)
