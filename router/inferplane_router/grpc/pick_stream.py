"""One stream of picks: read, begin, write; nearly every pick is answered before the next is read.

Problem: a task, a future and a queue for each pick cost as much as what they carry.  Idea: the coroutine that reads
also writes what it found at once; only an answer that comes later (the pick waited for room) has a task write it, one
for all of them.  Trade-off: a caller that reads no replies is not read from either.
Invariants: one write at a time; no more than so many picks are unanswered or unwritten; a pick that still waits when
its stream ends is abandoned.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from inferplane_api.proto import router_pb2 as pb
from inferplane_router.gateway.data_plane import Placement

PICKS_IN_FLIGHT: Final = 1024

Reply = Callable[[pb.PickReply], None]


class Stream(Protocol):
    """What is used of grpc.aio's context."""

    async def read(self) -> object:
        """Return a message, or what says that no more will come."""
        ...

    async def write(self, message: pb.PickReply, /) -> None: ...


class Begin(Protocol):
    """Begins a pick; calls back once, perhaps before it returns; None when there is nothing to abandon."""

    def __call__(self, request: pb.PickRequest, reply: Reply, /) -> Placement | None: ...


class PickStream:
    """Serves one stream."""

    def __init__(self, stream: Stream, begin: Begin, *, in_flight: int = PICKS_IN_FLIGHT) -> None:
        self._stream = stream
        self._begin = begin
        self._in_flight = in_flight
        """Picks that may be unanswered or unwritten at once."""
        self._replies: deque[pb.PickReply] = deque()
        self._waiting: dict[int, Placement] = {}
        """By the number of the pick; callers may use an id twice."""
        self._count = 0
        self._writing = False
        self._writer: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    async def serve(self) -> None:
        """Go on until the caller has said all and has been told all."""
        try:
            while isinstance(request := await self._stream.read(), pb.PickRequest):
                self._take(request)
                await self._settle(self._in_flight - 1)
            await self._settle(0)
        finally:
            for placement in tuple(self._waiting.values()):
                placement.abandon()
            if self._writer is not None:
                self._writer.cancel()
                await asyncio.gather(self._writer, return_exceptions=True)

    def _take(self, request: pb.PickRequest) -> None:
        number = self._count = self._count + 1
        at_once: list[pb.PickReply] = []
        begun = False

        def reply(message: pb.PickReply) -> None:
            if begun:
                self._answer_late(number, message)
            else:
                at_once.append(message)

        placement = self._begin(request, reply)
        begun = True
        if at_once:
            self._replies.append(at_once[0])
        elif placement is not None:
            self._waiting[number] = placement

    def _answer_late(self, number: int, message: pb.PickReply) -> None:
        if self._waiting.pop(number, None) is None:
            return
        self._replies.append(message)
        self._news.set()
        if not self._writing and (self._writer is None or self._writer.done()):
            self._writer = asyncio.create_task(self._write(), name="late picks")

    async def _settle(self, most: int) -> None:
        """Write what there is, then wait until no more than `most` picks are unanswered or unwritten."""
        if not self._writing:
            await self._write()
        while len(self._waiting) + len(self._replies) + self._writing > most:
            self._news.clear()
            await self._news.wait()

    async def _write(self) -> None:
        if self._writing:
            return
        self._writing = True
        try:
            while self._replies:
                await self._stream.write(self._replies.popleft())
        finally:
            self._writing = False
            self._news.set()
