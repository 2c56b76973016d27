"""All worker streams of this process, kept in step with the catalogue.

Invariant: exactly one stream per worker and address in the catalogue; a worker that leaves it is forgotten at once.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from inferplane_api.catalogue import CatalogueWorker
from inferplane_api.proto import worker_pb2 as wire
from inferplane_router.streams.worker_stream import StreamObserver


class Stream(Protocol):
    """One worker's stream."""

    @property
    def tried(self) -> bool: ...

    def tell(self, message: wire.SubscriberMessage) -> bool: ...

    async def run(self) -> None: ...


Open = Callable[[CatalogueWorker], Stream]


class StreamFleet:
    """Starts and stops streams inside one task group."""

    def __init__(self, open_stream: Open) -> None:
        self._open = open_stream
        self._streams: dict[str, tuple[CatalogueWorker, Stream, asyncio.Task[None]]] = {}

    def follow(self, workers: Iterable[CatalogueWorker], group: asyncio.TaskGroup) -> None:
        """Have one stream for each of these workers and no others."""
        wanted = {worker.worker_id: worker for worker in workers}
        for worker_id, (known, _, task) in list(self._streams.items()):
            if worker_id not in wanted or wanted[worker_id].stream_address != known.stream_address:
                task.cancel()
                del self._streams[worker_id]
        for worker_id, worker in wanted.items():
            if worker_id not in self._streams:
                stream = self._open(worker)
                task = group.create_task(stream.run(), name=f"stream {worker_id}")
                self._streams[worker_id] = worker, stream, task

    @property
    def any_tried(self) -> bool:
        """At least one stream was tried, or there is none to try."""
        return not self._streams or any(stream.tried for _, stream, _ in self._streams.values())

    def tell(self, worker_id: str, expects: wire.Expects) -> None:
        """Tell a worker's agent which blocks routed requests will store; lost when its stream is down."""
        entry = self._streams.get(worker_id)
        if entry is not None:
            entry[1].tell(wire.SubscriberMessage(expects=expects))

    def stop(self) -> None:
        for _, _, task in self._streams.values():
            task.cancel()
        self._streams.clear()


__all__ = ["Stream", "StreamFleet", "StreamObserver"]
