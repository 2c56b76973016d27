"""The ext_proc service: messages between a proxy and conversations, one call a request; nothing is decided here.

Idea: a message of the proxy's is a step of its conversation, whose replies leave at once; no task, no future.
Trade-off: while a place is looked for nothing more is heard; the call's end says that the client left.
Invariant: a request that got a place is ended exactly once, in whatever way its call ends.
"""

from typing import Final

import structlog

from inferplane_api.proto import ext_proc_pb2 as pb
from inferplane_api.proto.worker_pb2 import (
    OUTCOME_CLIENT_GONE,
    OUTCOME_ENGINE_LOST,
    OUTCOME_OK,
    Outcome,
    RequestReport,
)
from inferplane_router.core.naming import service_key
from inferplane_router.core.values import Routed
from inferplane_router.extproc.conversation import Conversation, Ending, Phase, Replies, Surroundings, UnsupportedError
from inferplane_router.extproc.watching import Watch, Watched, passed_on
from inferplane_router.gateway.data_plane import DataPlane, Placement, Wish
from inferplane_router.gateway.errors import GatewayError
from inferplane_router.gateway.forward import OUTCOME_LABELS, outcome_of
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_router.rpc.call import Call, Listener, Method
from inferplane_router.rpc.status import CallError, Status
from inferplane_runtime.tracing.tracer import Tracer

SERVICE: Final = "envoy.service.ext_proc.v3.ExternalProcessor"
_log = structlog.get_logger("inferplane.extproc")


class Picker:
    """Implements `envoy.service.ext_proc.v3.ExternalProcessor`."""

    def __init__(
        self, *, plane: DataPlane, surroundings: Surroundings, meters: GatewayMeters, tracer: Tracer | None = None
    ) -> None:
        self._plane = plane
        self._watch = Watch(now=plane.now, meters=meters, tracer=tracer)
        self._surroundings = surroundings
        self._meters = meters

    def methods(self) -> dict[bytes, Method]:
        return {f"/{SERVICE}/Process".encode(): self.process}

    def process(self, call: Call) -> Listener:
        """Serve one call; what cannot be served ends it with a status, and the proxy's failure mode decides."""
        return _Request(call, self._plane, self._meters, self._surroundings, self._watch)

    def reported(self, report: RequestReport) -> None:
        """Take what an agent says of a request that it has ended."""
        self._watch.reported(report)


class _Request:
    """One call, its conversation, and the place that it found."""

    __slots__ = (
        "_begun",
        "_call",
        "_conversation",
        "_found",
        "_known",
        "_meters",
        "_placement",
        "_plane",
        "_watch",
        "_watched",
    )

    def __init__(
        self, call: Call, plane: DataPlane, meters: GatewayMeters, surroundings: Surroundings, watch: Watch
    ) -> None:
        self._call = call
        self._plane = plane
        self._meters = meters
        self._known = surroundings.endpoints.known
        self._conversation = Conversation(surroundings)
        self._placement: Placement | None = None
        self._found: Routed | GatewayError | None = None
        """What came before the placement was known here."""
        self._begun = 0.0
        self._watch = watch
        self._watched: Watched | None = None

    def message(self, data: bytes) -> None:
        if not self._known:
            raise CallError(Status.UNAVAILABLE, "no catalogue has been read yet")
        try:
            step = self._conversation.receive(pb.ProcessingRequest.FromString(data))
        except UnsupportedError as error:
            _log.error("a proxy is configured in a way that is not supported", error=str(error))
            raise CallError(Status.FAILED_PRECONDITION, str(error)) from error
        if isinstance(step, Wish):
            self._place(step)
        else:
            self._reply(step)

    def said_all(self) -> None:
        self._call.finish()
        self._end()

    def gone(self) -> None:
        self._end()

    def _place(self, wish: Wish) -> None:
        self._begun = self._plane.now()
        self._watched = self._watch.begin(wish, self._conversation.headers, self._begun)
        self._placement = self._plane.place(wish, self._deliver)
        self._meters.of(service_key(wish.model.service)).running.value += 1
        if self._found is None:
            self._call.hold()
        else:
            self._go_on(self._found, self._placement)

    def _deliver(self, found: Routed | GatewayError) -> None:
        if self._placement is None:
            self._found = found
            return
        try:
            self._go_on(found, self._placement)
        except Exception as error:  # noqa: BLE001 - the request's boundary: the proxy's failure mode decides
            self._call.fail(error)
        self._call.release()

    def _go_on(self, found: Routed | GatewayError, placement: Placement) -> None:
        more = () if self._watched is None else passed_on(self._watched.found(found, placement))
        self._reply(self._conversation.placed(found, more))

    def _reply(self, replies: Replies) -> None:
        for reply in replies:
            self._call.send(reply)
        if self._conversation.phase is Phase.OVER:
            self._call.finish()
            self._end()

    def _end(self) -> None:
        """End what was begun, as the conversation saw it end."""
        placement, conversation = self._placement, self._conversation
        if placement is None:
            return
        self._placement = None
        outcome = _outcome(conversation.ending, conversation.status)
        meters = self._meters.of(service_key(placement.wish.model.service))
        meters.running.value -= 1
        meters.duration.observe(self._plane.now() - self._begun)
        meters.ended(placement.wish.route.value, OUTCOME_LABELS[outcome])
        if conversation.status:
            meters.answered(conversation.status)
        if self._watched is not None:
            served = conversation.ending in {Ending.LEFT, Ending.SERVED, Ending.FAILED}
            self._watched.left(outcome, conversation.status, served=served)
        if conversation.ending is Ending.LEFT:
            self._plane.forget(placement)
            return
        if conversation.ending is Ending.FAILED and conversation.routed is not None and not placement.over:
            # The proxy has found another worker, or given up: what is wanted here is that the core thinks less of
            # the one that failed, and the place that it offers instead goes back at once.
            placement.again(conversation.routed.decode.worker_id)
        placement.complete(outcome)


def _outcome(ending: Ending, status: int) -> Outcome:
    if ending is Ending.ABANDONED:
        return OUTCOME_CLIENT_GONE
    if ending is Ending.FAILED:
        return OUTCOME_ENGINE_LOST
    return outcome_of(status) if status else OUTCOME_OK
