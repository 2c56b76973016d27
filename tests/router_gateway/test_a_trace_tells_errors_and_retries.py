"""What the gateway says of a traced request that did not go well."""

import asyncio
from random import Random

import orjson

from inferplane_api.catalogue import CatalogueService
from inferplane_router.core.values import RefusalReason
from inferplane_router.gateway.data_plane import DataPlane
from inferplane_router.gateway.forward import ForwardContext
from inferplane_router.gateway.headers import HeaderWriter
from inferplane_router.gateway.http import Gateway
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_router.gateway.testing import ByteEncoder, NotedAnnouncements, ScriptedCore, queued, refused, routed
from inferplane_runtime.clock import FakeClock
from inferplane_runtime.http.api import Headers, Request, ResponseHead, UpstreamFailure
from inferplane_runtime.http.testing import PlayedUpstream, RecordedExchange
from inferplane_runtime.metrics.instruments import Instruments
from inferplane_runtime.tracing.context import read_traceparent
from inferplane_runtime.tracing.span import Span
from inferplane_runtime.tracing.tracer import Tracer

ROOT = "POST /v1/chat/completions"


class World:
    """A gateway that traces everything; its neighbours are played."""

    def __init__(self) -> None:
        self.core = ScriptedCore({"m": CatalogueService(name="s", served_names=("m",))})
        self.upstream = PlayedUpstream()
        self.clock = FakeClock()
        self.spans: list[Span] = []
        meters = GatewayMeters(Instruments())
        self.plane = DataPlane(
            core=self.core,
            prompts=ByteEncoder(),
            announcer=NotedAnnouncements(),
            clock=self.clock,
            draw_id=lambda: "drawn",
            meters=meters,
        )
        tracer = Tracer(ratio=1.0, rng=Random(1), ended=self.spans.append)
        context = ForwardContext(self.plane, self.upstream, HeaderWriter(subscriber_epoch=1), meters, tracer)
        self.gateway = Gateway(context, unready=str, catalogue=int)

    def ask(self) -> RecordedExchange:
        exchange = RecordedExchange()
        body = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
        self.gateway(Request(b"POST", b"/v1/chat/completions", headers=Headers(), body=body), exchange)
        return exchange

    def span(self, name: str) -> Span:
        (found,) = [span for span in self.spans if span.name == name]
        return found


def test_each_try_is_a_step_and_the_agent_goes_on_below_its_own() -> None:
    world = World()
    world.ask()
    world.upstream.calls[0].fail(UpstreamFailure.REFUSED)
    world.upstream.calls[1].answer(200, b"{}")

    tries = [span for span in world.spans if span.name == "forward"]
    told = [read_traceparent(call.request.headers.get(b"traceparent") or b"") for call in world.upstream.calls]
    assert [span.context for span in tries] == told
    assert [(span.attributes["inferplane.worker"], span.fault) for span in tries] == [("d0", "refused"), ("d1", "")]
    request = world.span(ROOT)
    assert [(event.name, event.attributes) for event in request.events] == [
        ("retry", {"cause": "refused", "worker": "d0"})
    ]
    assert (request.fault, request.attributes["inferplane.outcome"]) == ("", "ok")


def test_an_engine_that_is_lost_is_the_requests_fault() -> None:
    world = World()
    world.ask()
    world.upstream.calls[0].fail(UpstreamFailure.TIMEOUT)

    request = world.span(ROOT)
    assert request.fault == world.span("forward").fault == "engine_lost"
    assert request.attributes["http.response.status_code"] == 504
    assert [event.name for event in request.events] == ["refused"]


def test_an_answer_that_breaks_before_its_first_piece_has_the_status_that_the_client_got() -> None:
    world = World()
    exchange = world.ask()
    call = world.upstream.calls[0]
    call.sink.on_head(ResponseHead(200, Headers()))
    call.fail(UpstreamFailure.TIMEOUT)

    assert world.span(ROOT).attributes["http.response.status_code"] == exchange.status == 504


def test_a_refusal_says_why() -> None:
    world = World()
    world.core.script.append(refused("drawn", RefusalReason.QUEUE_FULL))
    exchange = world.ask()

    request = world.span(ROOT)
    assert exchange.status == request.attributes["http.response.status_code"] == 429
    assert request.events[0].attributes == {"message": "refused: queue_full"}
    assert [span.name for span in world.spans] == ["pick", ROOT]


def test_the_time_in_the_queue_is_told() -> None:
    world = World()
    world.core.script.append(queued("drawn"))
    world.core.wakeup = world.clock.monotonic() + 9

    async def scenario() -> None:
        world.ask()
        world.clock.advance(1.5)
        world.core.polled.append(("drawn", routed(world.core.asks[0])))
        world.plane.poll()
        world.upstream.calls[0].answer(200, b"{}")
        await world.plane.close()

    asyncio.run(scenario())

    assert world.span("pick").attributes["inferplane.queue_s"] == 1.5


def test_a_client_that_leaves_is_no_fault() -> None:
    world = World()
    world.ask().disconnect()

    assert (world.span(ROOT).fault, world.span(ROOT).attributes["inferplane.outcome"]) == ("", "client_gone")
    assert all(span.ended is not None for span in world.spans)
