"""gRPC calls to data plane calls and back; nothing is decided here.

A pick over gRPC reserves exactly as one over HTTP does.  Its request is in force until an agent reports it, `Complete`
says how it ended, or the core lets it expire.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

import grpc
import numpy as np

from inferplane_api.proto import router_pb2 as pb
from inferplane_router.core.values import RefusalReason, Routed, TargetRef, UnknownModel
from inferplane_router.gateway.data_plane import DataPlane, Placement, Wish
from inferplane_router.gateway.errors import (
    BadRequestError,
    GatewayError,
    NoPlaceError,
    UnknownModelError,
    unknown_model,
)
from inferplane_router.gateway.headers import HeaderWriter, Hints
from inferplane_router.gateway.parse import ROUTES, ParsedBody, Route
from inferplane_router.gateway.seams import EncodedPrompt
from inferplane_router.grpc.hints import read_hints
from inferplane_router.grpc.observations import Observations
from inferplane_router.grpc.siblings import NO_SIBLINGS, Siblings

_REASONS: Final = {
    RefusalReason.NO_WORKERS.value: pb.PICK_OUTCOME_NO_WORKERS,
    RefusalReason.QUEUE_FULL.value: pb.PICK_OUTCOME_QUEUE_FULL,
    RefusalReason.DEADLINE.value: pb.PICK_OUTCOME_DEADLINE,
}
_PICKS_IN_FLIGHT: Final = 1024
_KEPT: Final = 65_536
_TOKEN_BYTES: Final = 4

Context = grpc.aio.ServicerContext[pb.PickRequest, pb.PickReply]


class RouterServicer:
    """Implements `inferplane.v1.Router`."""

    def __init__(
        self,
        *,
        plane: DataPlane,
        writer: HeaderWriter,
        observations: Observations,
        siblings: Siblings = NO_SIBLINGS,
    ) -> None:
        self._plane = plane
        self._siblings = siblings
        self._writer = writer
        self._observations = observations
        self._placements: OrderedDict[str, Placement] = OrderedDict()

    async def pick(self, request: pb.PickRequest, _: object = None) -> pb.PickReply:
        """Choose for one request; errors are outcomes, not gRPC statuses."""
        result: asyncio.Future[Routed | GatewayError] = asyncio.get_running_loop().create_future()
        try:
            wish, prompt = self._wish(request)
        except GatewayError as error:
            return _refusal(request.request_id, error)
        place = self._plane.place_tokens
        placement = (
            self._plane.place(wish, result.set_result) if prompt is None else place(wish, prompt, result.set_result)
        )
        try:
            answer = await result
        except asyncio.CancelledError:
            placement.abandon()
            raise
        if isinstance(answer, GatewayError):
            return _refusal(wish.request_id, answer)
        self._keep(placement)
        return self._reply(wish, answer)

    async def pick_stream(
        self, requests: AsyncIterator[pb.PickRequest], _: object = None
    ) -> AsyncGenerator[pb.PickReply]:
        """Answer picks as they are decided.

        A bounded number is in flight, replies that the caller has not read yet among them: beyond it nothing is read.
        """
        replies: asyncio.Queue[pb.PickReply | None] = asyncio.Queue()
        slots = asyncio.Semaphore(_PICKS_IN_FLIGHT)

        async def answer(request: pb.PickRequest) -> None:
            replies.put_nowait(await self.pick(request))

        async def read() -> None:
            try:
                async with asyncio.TaskGroup() as group:
                    async for request in requests:
                        await slots.acquire()
                        group.create_task(answer(request), name=f"pick {request.request_id}")
            finally:
                replies.put_nowait(None)

        reader = asyncio.create_task(read(), name="pick stream")
        try:
            while (reply := await replies.get()) is not None:
                yield reply
                slots.release()
            await reader
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def complete(self, request: pb.CompleteRequest, _: object = None) -> pb.CompleteReply:
        """End a picked request; unknown ids are ignored."""
        if not self.completed(request):
            self._siblings.complete(request)
        return pb.CompleteReply()

    def completed(self, request: pb.CompleteRequest) -> bool:
        """End a request that was picked here; say whether it was."""
        placement = self._placements.pop(request.request_id, None)
        if placement is not None:
            placement.complete(request.outcome)
        return placement is not None

    async def explain(self, request: pb.ExplainRequest, _: object = None) -> pb.ExplainReply:
        record = self._plane.core.explain(request.request_id) or await self._siblings.explain(request.request_id)
        return pb.ExplainReply(found=record is not None, record=record)

    async def observe(self, request: pb.ObserveRequest, _: object = None) -> AsyncIterator[pb.Observation]:
        async for observation in self._observations.observe(frozenset(request.services)):
            yield observation

    # Inside.

    def _wish(self, request: pb.PickRequest) -> tuple[Wish, EncodedPrompt | None]:
        path = (request.path or "/v1/chat/completions").encode()
        route = ROUTES.get(path)
        if route is None:
            raise BadRequestError(f"path {request.path} is not routed", param="path")
        hints = read_hints(request)
        if request.WhichOneof("prompt") == "body":
            return self._narrowed(
                request, self._plane.read(path, route, request.body, hints, tenant=request.tenant)
            ), None
        return self._narrowed(request, self._token_wish(request, path, route, hints)), _tokens(request.token_ids)

    def _token_wish(self, request: pb.PickRequest, path: bytes, route: Route, hints: Hints) -> Wish:
        model = self._plane.core.resolve_model(request.model)
        if isinstance(model, UnknownModel):
            raise unknown_model(request.model, model.known_names)
        # Whoever has tokens writes the request to the engine too: the salt is the one that the engine will see.
        body = ParsedBody({}, b"", request.model, False, request.max_tokens, request.cache_salt or None)  # noqa: FBT003 - a field
        return Wish(self._plane.fresh_id(request.request_id), path, route, body, model, hints, request.tenant)

    def _narrowed(self, request: pb.PickRequest, wish: Wish) -> Wish:
        return Wish(
            wish.request_id,
            wish.path,
            wish.route,
            wish.body,
            wish.model,
            wish.hints,
            wish.tenant,
            request.deadline_s or None,
            frozenset(request.exclude_workers),
            frozenset(request.only_workers),
        )

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
