"""The ext_proc service: messages between a proxy and conversations, one stream a request; nothing is decided here.

Problem: a stream in grpc.aio costs more than the choice that it carries, so every operation on it counts.
Idea: one coroutine a stream and no task besides: it reads, steps, waits for a place where the step asks for one, and
writes.  Trade-off: while a place is looked for nothing is read; the stream's cancellation says that the client left.
Invariant: a request that got a place is ended exactly once, in whatever way its stream ends.
"""

import asyncio
from typing import Protocol

import grpc
import structlog

from inferplane_api.proto import ext_proc_pb2 as pb
from inferplane_api.proto.worker_pb2 import OUTCOME_CLIENT_GONE, OUTCOME_ENGINE_LOST, OUTCOME_OK, Outcome
from inferplane_router.core.values import Routed
from inferplane_router.extproc.conversation import Conversation, Ending, Phase, Replies, Surroundings, UnsupportedError
from inferplane_router.gateway.data_plane import DataPlane, Placement, Wish
from inferplane_router.gateway.errors import GatewayError
from inferplane_router.gateway.forward import OUTCOME_LABELS, outcome_of
from inferplane_router.gateway.meters import GatewayMeters

_log = structlog.get_logger("inferplane.extproc")


class Stream(Protocol):
    """What is used of grpc.aio's context."""

    async def read(self) -> object:
        """Return a message, or what says that no more will come."""
        ...

    async def write(self, message: pb.ProcessingResponse, /) -> None: ...
    async def abort(self, code: grpc.StatusCode, details: str) -> None: ...


class Picker:
    """Implements `envoy.service.ext_proc.v3.ExternalProcessor`."""

    def __init__(self, *, plane: DataPlane, surroundings: Surroundings, meters: GatewayMeters) -> None:
        self._plane = plane
        self._surroundings = surroundings
        self._meters = meters

    async def process(self, _: object, stream: Stream) -> None:
        """Serve one stream; what cannot be served ends it with a status, and the proxy's failure mode decides."""
        if not self._surroundings.endpoints.known:
            await stream.read()  # a caller whose stream ends while it writes is told of an internal error instead
            await stream.abort(grpc.StatusCode.UNAVAILABLE, "no catalogue has been read yet")
        request = _Request(self._plane, self._meters, self._surroundings)
        try:
            await request.run(stream)
        except UnsupportedError as error:
            _log.error("a proxy is configured in a way that is not supported", error=str(error))
            await stream.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        except grpc.aio.AbortError:
            raise
        except Exception:  # noqa: BLE001 - the request's boundary: the proxy's failure mode decides what becomes of it
            _log.exception("a request could not be processed")
            await stream.abort(grpc.StatusCode.INTERNAL, "the endpoint picker failed")
        finally:
            request.end()


class _Request:
    """One stream, its conversation, and the place that it found."""

    __slots__ = ("_begun", "_conversation", "_meters", "_placement", "_plane")

    def __init__(self, plane: DataPlane, meters: GatewayMeters, surroundings: Surroundings) -> None:
        self._plane = plane
        self._meters = meters
        self._conversation = Conversation(surroundings)
        self._placement: Placement | None = None
        self._begun = 0.0

    async def run(self, stream: Stream) -> None:
        """Go on until the proxy has said all, or there is nothing more to hear from it."""
        while self._conversation.phase is not Phase.OVER:
            message = await stream.read()
            if not isinstance(message, pb.ProcessingRequest):
                return
            step = self._conversation.receive(message)
            for reply in await self._place(step) if isinstance(step, Wish) else step:
                await stream.write(reply)

    def end(self) -> None:
        """End what was begun, as the conversation saw it end."""
        placement, conversation = self._placement, self._conversation
        if placement is None:
            return
        outcome = _outcome(conversation.ending, conversation.status)
        meters = self._meters.of(placement.wish.model.service.name)
        meters.running.value -= 1
        meters.duration.observe(self._plane.now() - self._begun)
        meters.ended(placement.wish.route.value, OUTCOME_LABELS[outcome])
        if conversation.status:
            meters.answered(conversation.status)
        if conversation.ending is Ending.LEFT:
            self._plane.forget(placement)
            return
        if conversation.ending is Ending.FAILED and conversation.routed is not None and not placement.over:
            # The proxy has found another worker, or given up: what is wanted here is that the core thinks less of
            # the one that failed, and the place that it offers instead goes back at once.
            placement.again(conversation.routed.decode.worker_id)
        placement.complete(outcome)

    async def _place(self, wish: Wish) -> Replies:
        self._begun = self._plane.now()
        result: asyncio.Future[Routed | GatewayError] = asyncio.get_running_loop().create_future()

        def deliver(found: Routed | GatewayError) -> None:
            if not result.done():
                result.set_result(found)

        self._placement = self._plane.place(wish, deliver)
        self._meters.of(wish.model.service.name).running.value += 1
        return self._conversation.placed(await result)


def _outcome(ending: Ending, status: int) -> Outcome:
    if ending is Ending.ABANDONED:
        return OUTCOME_CLIENT_GONE
    if ending is Ending.FAILED:
        return OUTCOME_ENGINE_LOST
    return outcome_of(status) if status else OUTCOME_OK
