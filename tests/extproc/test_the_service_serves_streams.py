"""The picker over a real channel, with a real core: what its streams' ends mean, and what its health says."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import grpc
import orjson
import pytest
import uvloop

from inferplane_api.catalogue import Catalogue, CatalogueWorker, RoutingMode, WorkerRole
from inferplane_api.proto import ext_proc_pb2 as pb
from inferplane_api.proto import ext_proc_pb2_grpc
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import FakeWorker, make_core, service
from inferplane_router.extproc.conversation import Surroundings
from inferplane_router.extproc.endpoints import Endpoints
from inferplane_router.extproc.picker import Picker
from inferplane_router.extproc.server import LIVENESS, READINESS, SERVICE, PickerServer
from inferplane_router.gateway.data_plane import DataPlane
from inferplane_router.gateway.headers import HeaderWriter
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_router.gateway.testing import ByteEncoder, NotedAnnouncements
from inferplane_runtime.clock import FakeClock
from inferplane_runtime.http.api import Request, Response
from inferplane_runtime.metrics.instruments import Instruments
from inferplane_workers.testing import until

# The library has no types.
health_messages: Any = import_module("grpc_health.v1.health_pb2")
health_calls: Any = import_module("grpc_health.v1.health_pb2_grpc")
SOON_S = 60.0


def local(_: Request) -> Response:
    raise RuntimeError("a fault of the picker's own")


@dataclass
class World:
    core: RouterCore
    plane: DataPlane
    server: PickerServer
    channel: grpc.aio.Channel
    endpoints: Endpoints

    @property
    def in_flight(self) -> int:
        return sum(each.in_flight for each in self.core.statistics().services)

    @property
    def queued(self) -> int:
        return sum(each.queued for each in self.core.statistics().services)

    def stream(self) -> Any:
        generated: Any = ext_proc_pb2_grpc
        return generated.ExternalProcessorStub(self.channel).Process()

    async def ask(self, request_id: str) -> Any:
        """Begin a stream and send a whole request."""
        stream = self.stream()
        await stream.write(head(request_id))
        body = orjson.dumps({"model": "tiny", "prompt": "hello " * 20})
        await stream.write(pb.ProcessingRequest(request_body=pb.HttpBody(body=body, end_of_stream=True)))
        return stream


def head(request_id: str, path: str = "/v1/completions") -> pb.ProcessingRequest:
    fields = {":method": "POST", ":path": path, "x-request-id": request_id}
    headers = pb.HeaderMap(headers=[pb.HeaderValue(key=key, raw_value=text.encode()) for key, text in fields.items()])
    return pb.ProcessingRequest(request_headers=pb.HttpHeaders(headers=headers))


def answered(status: int, **fields: str) -> pb.ProcessingRequest:
    pairs = {":status": str(status), **{name.replace("_", "-"): text for name, text in fields.items()}}
    headers = pb.HeaderMap(headers=[pb.HeaderValue(key=key, raw_value=text.encode()) for key, text in pairs.items()])
    return pb.ProcessingRequest(response_headers=pb.HttpHeaders(headers=headers, end_of_stream=True))


@asynccontextmanager
async def world(*workers: FakeWorker) -> AsyncGenerator[World]:
    settings = service(mode=RoutingMode.AGGREGATED)
    core = make_core(*workers, services=[settings])
    ids = iter(range(10_000))
    meters = GatewayMeters(Instruments())
    plane = DataPlane(
        core=core,
        prompts=ByteEncoder(),
        announcer=NotedAnnouncements(),
        clock=FakeClock(),
        draw_id=lambda: f"drawn-{next(ids)}",
        meters=meters,
    )
    endpoints = Endpoints(fallbacks=0)
    surroundings = Surroundings(plane, local, HeaderWriter(subscriber_epoch=7), endpoints, 100_000)
    server = PickerServer(Picker(plane=plane, surroundings=surroundings, meters=meters))
    port = await server.start("127.0.0.1:0")
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield World(core, plane, server, channel, endpoints)
    finally:
        await server.stop(0)
        await plane.close()


def run(scenario: Callable[[World], Awaitable[None]], *workers: FakeWorker, known: bool = True) -> None:
    async def main() -> None:
        async with asyncio.timeout(SOON_S), world(*(workers or (FakeWorker("d0"), FakeWorker("d1")))) as it:
            if known:
                it.endpoints.follow(Catalogue(workers=tuple(entry(each) for each in workers)))
            await scenario(it)

    uvloop.run(main())


def entry(fake: FakeWorker) -> CatalogueWorker:
    return CatalogueWorker(
        worker_id=fake.worker_id,
        service="chat",
        pool="d",
        role=WorkerRole.DECODE,
        revision="",
        http_address=f"{fake.worker_id}:8100",
        stream_address=f"{fake.worker_id}:8101",
    )


def test_a_stream_that_ends_after_the_pick_leaves_the_request_to_its_agents() -> None:
    async def scenario(it: World) -> None:
        stream = await it.ask("r")
        picked = await stream.read()
        await stream.done_writing()
        rest = await stream.read(), await stream.read()

        assert picked.request_headers.response.header_mutation.set_headers
        assert rest[0].HasField("request_body")
        assert rest[1] is grpc.aio.EOF
        assert (it.in_flight, it.plane.in_force) == (1, 0)

        await (await it.ask("r")).read()

        assert it.in_flight == 2  # the second one's id was made another

    run(scenario)


def test_an_answer_seen_to_its_end_gives_back_what_the_pick_reserved() -> None:
    async def scenario(it: World) -> None:
        stream = await it.ask("r")
        await stream.read()
        await stream.write(answered(200, content_type="application/json"))
        await until(lambda: it.in_flight == 0)

    run(scenario)


def test_a_worker_that_did_not_serve_gets_no_more_than_it_must() -> None:
    async def scenario(it: World) -> None:
        stream = await it.ask("r")
        await stream.read()
        chosen = next(view.worker_id for view in it.core.statistics().workers if view.in_flight)
        await stream.write(answered(503, content_type="text/plain"))
        await until(lambda: it.in_flight == 0)
        healths = {view.worker_id: view.health for view in it.core.statistics().workers}

        assert healths.pop(chosen) == "suspect"
        assert set(healths.values()) == {"ready"}

    run(scenario)


def test_a_client_that_leaves_while_it_waits_leaves_the_queue() -> None:
    async def scenario(it: World) -> None:
        await (await it.ask("first")).read()
        waiting = await it.ask("waits")
        await until(lambda: it.queued == 1)
        waiting.cancel()
        await until(lambda: it.queued == 0)

        assert it.in_flight == 1

    run(scenario, FakeWorker("d0", max_num_seqs=1))


def test_before_the_first_catalogue_the_proxys_failure_mode_decides() -> None:
    async def scenario(it: World) -> None:
        stream = it.stream()
        await stream.write(head("r"))
        with pytest.raises(grpc.aio.AioRpcError, match="no catalogue has been read yet") as caught:
            await stream.read()

        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE

    run(scenario, known=False)


def test_a_fault_of_ours_ends_its_stream_and_no_other() -> None:
    async def scenario(it: World) -> None:
        broken = it.stream()
        await broken.write(head("r", path="/v1/models"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await broken.read()

        assert caught.value.code() is grpc.StatusCode.INTERNAL
        assert "RuntimeError" not in (caught.value.details() or "")
        assert (await (await it.ask("next")).read()).HasField("request_headers")

    run(scenario)


def test_health_tells_living_from_ready() -> None:
    async def scenario(it: World) -> None:
        stub = health_calls.HealthStub(it.channel)
        statuses = health_messages.HealthCheckResponse

        async def status(name: str) -> int:
            return int((await stub.Check(health_messages.HealthCheckRequest(service=name))).status)

        assert [await status(name) for name in (SERVICE, READINESS)] == [statuses.NOT_SERVING] * 2
        assert await status(LIVENESS) == statuses.SERVING

        await it.server.serving(yes=True)

        assert [await status(name) for name in ("", SERVICE, READINESS)] == [statuses.SERVING] * 3

    run(scenario)
