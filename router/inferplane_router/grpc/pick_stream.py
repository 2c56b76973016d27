"""One stream of picks: a message in, a pick begun, mostly answered before the next message is looked at.

Problem: a task, a future and a queue for each pick cost as much as what they carry.  Idea: there are none; a pick that
has to wait is a callback, and its answer is sent when it comes.
Trade-off: replies come in the order of the answers, not of the requests; their ids tell.
Invariants: no more than so many picks wait at once, what is beyond stays unread; a caller that takes no replies is not
heard any more (see `rpc.call`); a pick that still waits when its stream ends is abandoned.
"""

from collections.abc import Callable
from typing import Final, Protocol

from inferplane_api.proto import router_pb2 as pb
from inferplane_router.gateway.data_plane import Placement
from inferplane_router.rpc.call import Call

PICKS_IN_FLIGHT: Final = 1024

Reply = Callable[[pb.PickReply], None]


class Begin(Protocol):
    """Begins a pick; calls back once, perhaps before it returns; None when there is nothing to abandon."""

    def __call__(self, request: pb.PickRequest, reply: Reply, /) -> Placement | None: ...


class PickStream:
    """Serves one stream; with `single`, one pick."""

    __slots__ = ("_begin", "_call", "_count", "_in_flight", "_said_all", "_single", "_waiting")

    def __init__(self, call: Call, begin: Begin, *, in_flight: int = PICKS_IN_FLIGHT, single: bool = False) -> None:
        self._call = call
        self._begin = begin
        self._in_flight = in_flight
        self._single = single
        self._waiting: dict[int, Placement | None] = {}
        """By the number of the pick; callers may use an id twice.  None while it is begun."""
        self._count = 0
        self._said_all = False

    def message(self, data: bytes) -> None:
        request = pb.PickRequest.FromString(data)
        number = self._count = self._count + 1
        self._waiting[number] = None
        placement = self._begin(request, lambda reply: self._answer(number, reply))
        if number in self._waiting:
            self._waiting[number] = placement
            if len(self._waiting) >= self._in_flight:
                self._call.hold()

    def said_all(self) -> None:
        self._said_all = True
        if not self._waiting:
            self._call.finish()

    def gone(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for placement in waiting.values():
            if placement is not None:
                placement.abandon()

    def _answer(self, number: int, reply: pb.PickReply) -> None:
        if number not in self._waiting:
            return
        full = len(self._waiting) >= self._in_flight
        del self._waiting[number]
        self._call.send(reply.SerializeToString())
        if (self._said_all or self._single) and not self._waiting:
            self._call.finish()
        elif full:
            self._call.release()
