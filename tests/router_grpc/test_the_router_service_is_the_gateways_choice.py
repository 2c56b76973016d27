"""The Router service over a real channel: a real core behind it, workers that speak the stream's messages."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import grpc
import numpy as np
import orjson
import pytest
import uvloop

from http2_caller import Wire, framed
from inferplane_api.catalogue import RoutingMode
from inferplane_api.proto import router_pb2 as pb
from inferplane_api.proto import router_pb2_grpc
from inferplane_api.proto.worker_pb2 import OUTCOME_CLIENT_GONE, OUTCOME_OK
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import FakeWorker, make_core, service
from inferplane_router.gateway.data_plane import DataPlane
from inferplane_router.gateway.headers import HeaderWriter
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_router.gateway.testing import ByteEncoder, NotedAnnouncements
from inferplane_router.grpc.observations import Observations
from inferplane_router.grpc.pick_stream import PickStream, Reply
from inferplane_router.grpc.server import SERVICE, GrpcServer
from inferplane_router.grpc.servicer import RouterServicer
from inferplane_runtime.clock import FakeClock
from inferplane_runtime.metrics.instruments import Instruments
from inferplane_workers.testing import until

# Neither library has types.
health_messages: Any = import_module("grpc_health.v1.health_pb2")
health_calls: Any = import_module("grpc_health.v1.health_pb2_grpc")
reflection_messages: Any = import_module("grpc_reflection.v1alpha.reflection_pb2")
reflection_calls: Any = import_module("grpc_reflection.v1alpha.reflection_pb2_grpc")

SOON_S = 60.0


@dataclass
class World:
    core: RouterCore
    server: GrpcServer
    servicer: RouterServicer
    channel: grpc.aio.Channel
    observations: Observations
    workers: tuple[FakeWorker, ...]

    @property
    def stub(self) -> Any:
        generated: Any = router_pb2_grpc
        return generated.RouterStub(self.channel)

    @property
    def in_flight(self) -> int:
        return sum(each.in_flight for each in self.core.statistics().services)

    @property
    def queued(self) -> int:
        return sum(each.queued for each in self.core.statistics().services)


@asynccontextmanager
async def world(*workers: FakeWorker, queue_limit: int = 8) -> AsyncGenerator[World]:
    core = make_core(*workers, services=[service(mode=RoutingMode.AGGREGATED, queue_limit=queue_limit)])
    observations = Observations(wall=lambda: 1_700_000_000.0)
    ids = iter(range(10_000))
    plane = DataPlane(
        core=core,
        prompts=ByteEncoder(),
        announcer=NotedAnnouncements(),
        clock=FakeClock(),
        draw_id=lambda: f"drawn-{next(ids)}",
        meters=GatewayMeters(Instruments()),
        on_ask=observations.arrived,
    )
    servicer = RouterServicer(plane=plane, writer=HeaderWriter(subscriber_epoch=7), observations=observations)
    server = GrpcServer(servicer)
    port = await server.start("127.0.0.1:0")
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield World(core, server, servicer, channel, observations, workers)
    finally:
        await server.stop(0)
        await plane.close()


Scenario = Callable[[World], Awaitable[None]]


def run(scenario: Scenario, *workers: FakeWorker, queue_limit: int = 8) -> None:
    fleet = workers or (FakeWorker("d0"), FakeWorker("d1"))

    async def main() -> None:
        async with asyncio.timeout(SOON_S), world(*fleet, queue_limit=queue_limit) as it:
            await scenario(it)

    uvloop.run(main())


def tokens_request(request_id: str, *, model: str = "tiny") -> pb.PickRequest:
    return pb.PickRequest(request_id=request_id, model=model, token_ids=np.arange(64, dtype="<i4").tobytes())


async def each(requests: list[pb.PickRequest]) -> AsyncIterator[pb.PickRequest]:
    for request in requests:
        yield request


def test_many_picks_share_one_stream_and_each_is_answered_by_its_id() -> None:
    async def scenario(it: World) -> None:
        wanted = [f"r{number}" for number in range(100)]
        replies = [reply async for reply in it.stub.PickStream(each([tokens_request(name) for name in wanted]))]

        assert sorted(reply.request_id for reply in replies) == sorted(wanted)
        assert {reply.outcome for reply in replies} == {pb.PICK_OUTCOME_ROUTED}
        assert {reply.decode.worker_id for reply in replies} <= {"d0", "d1"}
        assert it.in_flight == len(wanted)

    run(scenario)


def test_what_is_wrong_with_one_pick_of_a_stream_stops_no_other() -> None:
    async def scenario(it: World) -> None:
        requests = [
            tokens_request("good"),
            tokens_request("unknown", model="nobody"),
            pb.PickRequest(request_id="odd", model="tiny", token_ids=b"\0\0\0"),
            pb.PickRequest(request_id="path", model="tiny", path="/v1/else", token_ids=b"\0\0\0\0"),
            pb.PickRequest(request_id="body", body=b"{"),
            tokens_request("after"),
        ]
        replies = {reply.request_id: reply async for reply in it.stub.PickStream(each(requests))}

        assert {name: reply.outcome for name, reply in replies.items()} == {
            "good": pb.PICK_OUTCOME_ROUTED,
            "unknown": pb.PICK_OUTCOME_UNKNOWN_MODEL,
            "odd": pb.PICK_OUTCOME_BAD_REQUEST,
            "path": pb.PICK_OUTCOME_BAD_REQUEST,
            "body": pb.PICK_OUTCOME_BAD_REQUEST,
            "after": pb.PICK_OUTCOME_ROUTED,
        }
        assert all(replies[name].message for name in ("unknown", "odd", "path", "body"))

    run(scenario)


def test_a_pick_that_waits_lets_others_pass_and_is_answered_when_there_is_room() -> None:
    async def scenario(it: World) -> None:
        await it.stub.Pick(tokens_request("first"))
        full = tokens_request("waits")
        waiting = asyncio.ensure_future(it.stub.Pick(full))
        broken = await it.stub.Pick(pb.PickRequest(request_id="broken", body=b"{"))
        await until(lambda: it.queued == 1)
        await it.stub.Complete(pb.CompleteRequest(request_id="first", outcome=OUTCOME_OK))
        reply = await waiting

        assert broken.outcome == pb.PICK_OUTCOME_BAD_REQUEST
        assert reply.outcome == pb.PICK_OUTCOME_ROUTED

    run(scenario, FakeWorker("d0", max_num_seqs=1))


def test_picks_of_one_stream_overtake_one_that_waits() -> None:
    async def scenario(it: World) -> None:
        stream = it.stub.PickStream()
        for request in (tokens_request("first"), tokens_request("waits"), pb.PickRequest(request_id="odd", body=b"{")):
            await stream.write(request)
        early = [await stream.read() for _ in range(2)]
        await it.stub.Complete(pb.CompleteRequest(request_id="first", outcome=OUTCOME_OK))
        late = await stream.read()
        await stream.done_writing()

        assert {reply.request_id for reply in early} == {"first", "odd"}
        assert (late.request_id, late.outcome) == ("waits", pb.PICK_OUTCOME_ROUTED)
        assert await stream.read() is grpc.aio.EOF

    run(scenario, FakeWorker("d0", max_num_seqs=1))


def test_a_stream_that_is_cancelled_takes_its_waiting_picks_along() -> None:
    async def scenario(it: World) -> None:
        stream = it.stub.PickStream()
        for name in ("first", "waits"):
            await stream.write(tokens_request(name))
        await until(lambda: it.queued == 1)
        stream.cancel()
        await until(lambda: it.queued == 0)

        assert it.in_flight == 1  # it was answered: its caller has it

    run(scenario, FakeWorker("d0", max_num_seqs=1))


def asked(*names: str) -> bytes:
    return b"".join(framed(tokens_request(name).SerializeToString()) for name in names)


def test_a_caller_that_takes_no_replies_is_not_heard() -> None:
    begun: list[str] = []

    def begin(request: pb.PickRequest, reply: Reply) -> None:
        begun.append(request.request_id)
        reply(pb.PickReply(message="long " * 100_000))

    wire = Wire(lambda call: PickStream(call, begin))
    stream = wire.open()
    wire.say(stream, asked(*(f"r{number}" for number in range(9))))
    wire.run(credit=False)

    assert begun == ["r0", "r1", "r2"]  # a megabyte of replies waits


def test_no_more_than_a_bound_of_one_streams_picks_wait() -> None:
    async def scenario(it: World) -> None:
        await it.stub.Pick(tokens_request("first"))
        wire = Wire(lambda call: PickStream(call, it.servicer.begin, in_flight=8))
        stream = wire.open()
        wire.say(stream, asked(*(f"r{number}" for number in range(12))), last=True)
        wire.run()

        assert it.queued == 8

        await it.stub.Complete(pb.CompleteRequest(request_id="first", outcome=OUTCOME_OK))
        wire.run()

        assert len(wire.got[stream].messages) == 1
        assert it.queued == 8

        wire.client.reset_stream(stream)
        wire.run()

        assert it.queued == 0

    run(scenario, FakeWorker("d0", max_num_seqs=1), queue_limit=16)


def test_complete_gives_back_what_a_pick_reserved_and_knows_no_stranger() -> None:
    async def scenario(it: World) -> None:
        await it.stub.Pick(tokens_request("r"))
        reserved = it.in_flight
        await it.stub.Complete(pb.CompleteRequest(request_id="nobody", outcome=OUTCOME_OK))
        untouched = it.in_flight
        for _ in range(2):
            await it.stub.Complete(pb.CompleteRequest(request_id="r", outcome=OUTCOME_CLIENT_GONE))

        assert (reserved, untouched, it.in_flight) == (1, 1, 0)

    run(scenario)


def test_excluded_workers_are_not_chosen_and_the_record_says_so() -> None:
    async def scenario(it: World) -> None:
        request = tokens_request("r")
        request.exclude_workers.append("d0")
        reply = await it.stub.Pick(request)
        found = await it.stub.Explain(pb.ExplainRequest(request_id="r"))
        missing = await it.stub.Explain(pb.ExplainRequest(request_id="nobody"))

        assert reply.decode.worker_id == "d1"
        assert reply.headers["x-request-id"] == "r"
        assert found.record.request_id == "r"
        assert {each.decode_worker for each in found.record.candidates if each.excluded_because} == {"d0"}
        assert not missing.found

    run(scenario)


def test_an_observer_hears_arrivals_and_finished_requests_of_its_services() -> None:
    async def scenario(it: World) -> None:
        mine = it.stub.Observe(pb.ObserveRequest(services=["chat"]))
        others = it.stub.Observe(pb.ObserveRequest(services=["other"]))
        first = asyncio.ensure_future(mine.read())
        other = asyncio.ensure_future(others.read())
        await until(lambda: it.observations.observers == 2)
        body = orjson.dumps({"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 7})
        reply = await it.stub.Pick(pb.PickRequest(request_id="r", body=body, path="/v1/chat/completions"))
        arrival = (await first).arrival
        worker = next(each for each in it.workers if each.worker_id == reply.decode.worker_id)
        message = worker.report("r", prompt_tokens=reply.prompt_tokens, cached_tokens=0)
        it.core.on_worker_message(worker.worker_id, message, 0.0)
        it.observations.reported(message, it.core.explain)
        finished = (await mine.read()).finished

        assert (arrival.request_id, arrival.service, arrival.max_tokens) == ("r", "chat", 7)
        assert arrival.prompt_tokens == reply.prompt_tokens
        assert finished.request_id == "r"
        assert [each.output_tokens for each in finished.observed] == [32]
        assert not other.done()

        mine.cancel()
        others.cancel()
        await asyncio.gather(other, return_exceptions=True)

    run(scenario)


def test_an_observer_that_leaves_is_forgotten() -> None:
    async def scenario(it: World) -> None:
        call = it.stub.Observe(pb.ObserveRequest())
        reading = asyncio.ensure_future(call.read())
        await until(lambda: it.observations.observers == 1)
        call.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await until(lambda: it.observations.observers == 0)

    run(scenario)


def test_health_follows_the_router() -> None:
    async def scenario(it: World) -> None:
        stub = health_calls.HealthStub(it.channel)
        statuses = health_messages.HealthCheckResponse

        async def status(name: str) -> int:
            reply = await stub.Check(health_messages.HealthCheckRequest(service=name))
            return int(reply.status)

        assert [await status(name) for name in ("", SERVICE)] == [statuses.SERVING] * 2

        await it.server.serving(yes=False)

        assert [await status(name) for name in ("", SERVICE)] == [statuses.NOT_SERVING] * 2
        with pytest.raises(grpc.aio.AioRpcError, match="NOT_FOUND"):
            await status("else")

    run(scenario)


def test_reflection_lists_the_service_and_describes_it() -> None:
    async def scenario(it: World) -> None:
        stub = reflection_calls.ServerReflectionStub(it.channel)
        asked = reflection_messages.ServerReflectionRequest

        async def questions() -> AsyncIterator[Any]:
            yield asked(list_services="")
            yield asked(file_containing_symbol=SERVICE)

        listed, described = [reply async for reply in stub.ServerReflectionInfo(questions())]
        names = {each.name for each in listed.list_services_response.service}

        assert {SERVICE, "grpc.health.v1.Health"} <= names
        assert any(b"PickStream" in raw for raw in described.file_descriptor_response.file_descriptor_proto)

    run(scenario)
