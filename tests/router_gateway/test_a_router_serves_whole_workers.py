"""The whole router process (in one loop with two simulated workers): catalogue file to answers, HTTP and gRPC."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import orjson
import pytest
import uvloop

from inferplane_api.proto import router_pb2 as pb
from inferplane_router.app import RouterApp
from inferplane_runtime.http.client import UpstreamPool
from inferplane_workers.agent.config import Role
from inferplane_workers.testing import until
from one_loop_service import WorkerSpec, call, one_loop_service

pytestmark = pytest.mark.slow
WORDS = " ".join(f"word{i}" for i in range(200))
CHAT: dict[str, Any] = {"model": "alias", "messages": [{"role": "user", "content": WORDS}], "max_tokens": 8}


@asynccontextmanager
async def world(folder: Path) -> AsyncGenerator[tuple[RouterApp, UpstreamPool]]:
    specs = (WorkerSpec("p0", Role.PREFILL), WorkerSpec("d0", Role.DECODE))
    async with one_loop_service(folder, specs) as service:
        yield service.router, service.client


Scenario = Callable[[RouterApp, UpstreamPool], Awaitable[None]]


def run(folder: Path, scenario: Scenario) -> None:
    async def main() -> None:
        async with world(folder) as (app, client):
            await scenario(app, client)

    uvloop.run(main())


def explained(app: RouterApp, request_id: str) -> pb.DecisionRecord:
    return app.core.explain(request_id) or pb.DecisionRecord()


def test_a_conversation_is_handed_off_streamed_counted_and_explained(tmp_path: Path) -> None:
    async def scenario(app: RouterApp, client: UpstreamPool) -> None:
        address = f"127.0.0.1:{app.http.port}"
        first = await call(client, address, "/v1/chat/completions", CHAT, x_request_id="first")

        assert first.head is not None
        assert first.head.status == 200, first.body
        assert first.head.headers.get(b"x-request-id") == b"first"
        assert first.head.headers.get(b"x-inferplane-worker") == b"d0"

        answer = orjson.loads(first.body)["choices"][0]["message"]["content"]
        turns = [*CHAT["messages"], {"role": "assistant", "content": answer}, {"role": "user", "content": "and?"}]
        second = await call(
            client, address, "/v1/chat/completions", CHAT | {"messages": turns, "stream": True}, x_request_id="second"
        )

        assert second.body.endswith(b"data: [DONE]\n\n")
        assert b'"usage":{' not in second.body

        await until(lambda: len(explained(app, "second").observed) == 2)
        record = explained(app, "second")
        prefill = next(report for report in record.observed if report.side == 1)

        assert record.predicted_prefill_cached_tokens > 0
        assert prefill.cached_tokens == record.predicted_prefill_cached_tokens

        metrics = await call(client, f"127.0.0.1:{app.metrics.port}", "/metrics", None)

        assert (
            b'inferplane_gateway_requests_total{namespace="default",outcome="ok",route="chat",service="s"} 2.0'
            in metrics.body
        )
        assert b'inferplane_router_worker_streams{state="connected"} 2.0' in metrics.body

    run(tmp_path, scenario)


def test_the_router_service_picks_as_the_gateway_does(tmp_path: Path) -> None:
    async def scenario(app: RouterApp, client: UpstreamPool) -> None:
        del client
        async with grpc.aio.insecure_channel(f"127.0.0.1:{app.grpc_port}") as channel:
            pick = channel.unary_unary(
                "/inferplane.v1.Router/Pick",
                request_serializer=pb.PickRequest.SerializeToString,
                response_deserializer=pb.PickReply.FromString,
            )
            explain = channel.unary_unary(
                "/inferplane.v1.Router/Explain",
                request_serializer=pb.ExplainRequest.SerializeToString,
                response_deserializer=pb.ExplainReply.FromString,
            )
            body = await pick(pb.PickRequest(request_id="a", body=orjson.dumps(CHAT), path="/v1/chat/completions"))
            tokens = np.arange(64, dtype="<i4").tobytes()
            packed = await pick(pb.PickRequest(request_id="b", model="tiny", token_ids=tokens))
            unknown = await pick(pb.PickRequest(request_id="c", model="other", token_ids=tokens))
            broken = await pick(pb.PickRequest(request_id="d", body=b"{"))
            record = (await explain(pb.ExplainRequest(request_id="b"))).record

        assert body.outcome == packed.outcome == pb.PICK_OUTCOME_ROUTED
        assert body.decode.worker_id == "d0"
        assert [each.worker_id for each in body.prefill] == ["p0"]
        assert body.headers["x-request-id"] == "a"
        assert packed.prompt_tokens == 64
        assert unknown.outcome == pb.PICK_OUTCOME_UNKNOWN_MODEL
        assert broken.outcome == pb.PICK_OUTCOME_BAD_REQUEST
        assert record.prompt_tokens == 64

    run(tmp_path, scenario)


def test_a_drain_says_not_ready_and_ends_clean(tmp_path: Path) -> None:
    async def scenario(app: RouterApp, client: UpstreamPool) -> None:
        address = f"127.0.0.1:{app.http.port}"

        assert app.unready() == ""

        running = asyncio.create_task(call(client, address, "/v1/chat/completions", CHAT | {"max_tokens": 200}))
        await until(lambda: app.core.statistics().routed > 0)

        assert await app.drain() == 0
        assert app.unready() == "draining"

        done = await running

        assert orjson.loads(done.body)["usage"]["completion_tokens"] > 0

    run(tmp_path, scenario)
