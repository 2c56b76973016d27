"""gRPC calls to data plane calls and back; nothing is decided here.

A pick over gRPC reserves exactly as one over HTTP does.  Its request is in force until an agent reports it, `Complete`
says how it ended, or the core lets it expire.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import Final

import numpy as np

from inferplane_api.proto import router_pb2 as pb
from inferplane_router.core.values import RefusalReason, ResolvedModel, Routed, TargetRef, UnknownModel
from inferplane_router.gateway.data_plane import DataPlane, Placement, Wish
from inferplane_router.gateway.errors import (
    BadRequestError,
    GatewayError,
    NoPlaceError,
    UnknownModelError,
    unknown_model,
)
from inferplane_router.gateway.headers import HeaderWriter
from inferplane_router.gateway.parse import ROUTES, ParsedBody
from inferplane_router.gateway.seams import EncodedPrompt
from inferplane_router.grpc.hints import read_hints
from inferplane_router.grpc.observations import Observations
from inferplane_router.grpc.pick_stream import PickStream, Reply
from inferplane_router.grpc.siblings import NO_SIBLINGS, Siblings
from inferplane_router.rpc.call import Method
from inferplane_router.rpc.coroutines import streaming, unary

SERVICE: Final = "inferplane.v1.Router"
_REASONS: Final = {
    RefusalReason.NO_WORKERS.value: pb.PICK_OUTCOME_NO_WORKERS,
    RefusalReason.QUEUE_FULL.value: pb.PICK_OUTCOME_QUEUE_FULL,
    RefusalReason.DEADLINE.value: pb.PICK_OUTCOME_DEADLINE,
}
_KEPT: Final = 65_536
_CHAT: Final = "/v1/chat/completions"
_NOBODY: Final = frozenset[str]()
_TOKEN_BYTES: Final = 4


class RouterServicer:
    """Implements `inferplane.v1.Router`."""

    def __init__(
        self,
        *,
        plane: DataPlane,
        writer: HeaderWriter,
        observations: Observations,
        siblings: Siblings = NO_SIBLINGS,
        on_plan: Callable[[pb.PlanNotice], None] = lambda _: None,
    ) -> None:
        self._plane = plane
        self._on_plan = on_plan
        self._siblings = siblings
        self._writer = writer
        self._observations = observations
        self._placements: OrderedDict[str, Placement] = OrderedDict()

    def methods(self) -> dict[bytes, Method]:
        """Return the service's calls by path."""
        calls: dict[str, Method] = {
            "Pick": lambda call: PickStream(call, self.begin, single=True),
            "PickStream": lambda call: PickStream(call, self.begin),
            "Complete": unary(self._complete),
            "Explain": unary(self._explain),
            "Observe": streaming(self._observe),
            "Planned": unary(self._planned),
        }
        return {f"/{SERVICE}/{name}".encode(): method for name, method in calls.items()}

    def begin(self, request: pb.PickRequest, reply: Reply) -> Placement | None:
        """Begin a pick; `reply` is called once, mostly before this returns."""
        try:
            wish, prompt = self._wish(request)
        except GatewayError as error:
            reply(_refusal(request.request_id, error))
            return None
        pick = _Pick(self, reply)
        if prompt is None:
            placement = self._plane.place(wish, pick.answered)
        else:
            placement = self._plane.place_tokens(wish, prompt, pick.answered)
        pick.placed(placement)
        return placement

    def completed(self, request: pb.CompleteRequest) -> bool:
        """End a request that was picked here; say whether it was."""
        placement = self._placements.pop(request.request_id, None)
        if placement is not None:
            placement.complete(request.outcome)
        return placement is not None

    # Inside.

    async def _complete(self, data: bytes) -> bytes:
        """End a picked request; unknown ids are ignored."""
        request = pb.CompleteRequest.FromString(data)
        if not self.completed(request):
            self._siblings.complete(request)
        return b""  # an empty CompleteReply

    async def _explain(self, data: bytes) -> bytes:
        request_id = pb.ExplainRequest.FromString(data).request_id
        record = self._plane.core.explain(request_id) or await self._siblings.explain(request_id)
        return pb.ExplainReply(found=record is not None, record=record).SerializeToString()

    async def _planned(self, data: bytes) -> bytes:
        """Show what a planner has decided, here and in the router's other processes."""
        notice = pb.PlanNotice.FromString(data)
        self._on_plan(notice)
        self._siblings.planned(notice)
        return b""  # an empty PlanNoticed

    async def _observe(self, data: bytes) -> AsyncIterator[bytes]:
        services = frozenset(pb.ObserveRequest.FromString(data).services)
        async for observation in self._observations.observe(services):
            yield observation.SerializeToString()

    def _wish(self, request: pb.PickRequest) -> tuple[Wish, EncodedPrompt | None]:
        path = (request.path or _CHAT).encode()
        route = ROUTES.get(path)
        if route is None:
            raise BadRequestError(f"path {request.path} is not routed", param="path")
        hints = read_hints(request)
        if request.WhichOneof("prompt") == "body":
            read, prompt = self._plane.read(path, route, request.body, hints, tenant=request.tenant), None
            named, body, model = (read.request_id, read.nonce), read.body, read.model
        else:
            named, body, model = self._tokenised(request)
            prompt = _tokens(request.token_ids)
        exclude, only = request.exclude_workers, request.only_workers
        wish = Wish(
            named[0],
            path,
            route,
            body,
            model,
            hints,
            request.tenant,
            request.deadline_s or None,
            frozenset(exclude) if exclude else _NOBODY,
            frozenset(only) if only else _NOBODY,
            named[1],
        )
        return wish, prompt

    def _tokenised(self, request: pb.PickRequest) -> tuple[tuple[str, int], ParsedBody, ResolvedModel]:
        model = self._plane.core.resolve_model(request.model)
        if isinstance(model, UnknownModel):
            raise unknown_model(request.model, model.known_names)
        # Whoever has tokens writes the request to the engine too: the salt is the one that the engine will see.
        body = ParsedBody({}, b"", request.model, False, request.max_tokens, request.cache_salt or None)  # noqa: FBT003 - a field
        return self._plane.name(request.request_id), body, model

    def found(self, placement: Placement, answer: Routed | GatewayError) -> pb.PickReply:
        """Return the reply to a pick; what got a place is kept until `Complete`."""
        if isinstance(answer, GatewayError):
            return _refusal(placement.wish.request_id, answer)
        self._keep(placement)
        return self._reply(placement.wish, answer)

    def _keep(self, placement: Placement) -> None:
        self._placements[placement.wish.request_id] = placement
        if len(self._placements) > _KEPT:
            _, oldest = self._placements.popitem(last=False)
            self._plane.forget(oldest)

    def _reply(self, wish: Wish, routed: Routed) -> pb.PickReply:
        headers = self._writer.decision(routed, wish.particulars)
        return pb.PickReply(
            request_id=routed.request_id,
            outcome=pb.PICK_OUTCOME_ROUTED,
            decode=_target(routed.decode),
            prefill=[_target(each) for each in routed.prefill],
            prompt_tokens=routed.prompt_tokens,
            predicted_prefill_cached_tokens=routed.prefill_cached_tokens,
            predicted_decode_cached_tokens=routed.decode_cached_tokens,
            predicted_ttft_s=routed.ttft_s,
            predicted_tpot_s=routed.tpot_s,
            headers={name.decode(): value.decode() for name, value in headers},
        )


class _Pick:
    """One pick between its beginning and its reply."""

    __slots__ = ("_answer", "_placement", "_reply", "_servicer")

    def __init__(self, servicer: RouterServicer, reply: Reply) -> None:
        self._servicer = servicer
        self._reply = reply
        self._placement: Placement | None = None
        self._answer: Routed | GatewayError | None = None

    def answered(self, answer: Routed | GatewayError) -> None:
        """Take the answer, which comes before `placed` where it can."""
        self._answer = answer
        if self._placement is not None:
            self._reply(self._servicer.found(self._placement, answer))

    def placed(self, placement: Placement) -> None:
        self._placement = placement
        if self._answer is not None:
            self._reply(self._servicer.found(placement, self._answer))


def _tokens(packed: bytes) -> EncodedPrompt:
    if not packed or len(packed) % _TOKEN_BYTES:
        raise BadRequestError("token_ids must be packed little-endian int32, and not empty", param="token_ids")
    return EncodedPrompt(np.frombuffer(packed, "<i4").astype(np.int32, copy=False))


def _target(target: TargetRef) -> pb.Target:
    return pb.Target(worker_id=target.worker_id, address=target.address, dp_rank=target.rank)


def _refusal(request_id: str, error: GatewayError) -> pb.PickReply:
    reply = pb.PickReply(request_id=request_id, outcome=pb.PICK_OUTCOME_BAD_REQUEST, message=error.message)
    if isinstance(error, NoPlaceError):
        reply.outcome = _REASONS[error.code or ""]
        reply.retry_after_s = error.retry_after_s
    elif isinstance(error, UnknownModelError):
        reply.outcome = pb.PICK_OUTCOME_UNKNOWN_MODEL
    return reply
