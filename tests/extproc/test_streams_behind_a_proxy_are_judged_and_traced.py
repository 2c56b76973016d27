"""What a proxy takes past the picker is judged and traced all the same, by the report of the agent that answered."""

from random import Random
from typing import Any, cast

import orjson
import pytest

from inferplane_api.catalogue import Catalogue, CatalogueService
from inferplane_api.proto import ext_proc_pb2 as pb
from inferplane_api.proto import worker_pb2 as wire
from inferplane_router.core.values import RefusalReason
from inferplane_router.extproc import watching
from inferplane_router.extproc.conversation import Surroundings
from inferplane_router.extproc.endpoints import Endpoints
from inferplane_router.extproc.picker import Picker
from inferplane_router.gateway.data_plane import DataPlane
from inferplane_router.gateway.headers import HeaderWriter
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_router.gateway.testing import ByteEncoder, NotedAnnouncements, ScriptedCore, queued, refused, routed
from inferplane_router.rpc.call import Call, Listener
from inferplane_runtime.clock import FakeClock
from inferplane_runtime.http.api import Request, Response
from inferplane_runtime.metrics.instruments import Instruments
from inferplane_runtime.tracing.span import Span
from inferplane_runtime.tracing.tracer import Tracer

SERVICE = CatalogueService(namespace="ns", name="s", served_names=("m",), ttft_s=1.0, tpot_s=0.05)
TRACE = "0af7651916cd43dd8448eb211c80319c"


class PlayedCall:
    """A proxy's call, as far as the picker speaks with it."""

    def __init__(self) -> None:
        self.sent: list[pb.ProcessingResponse] = []

    def send(self, reply: bytes) -> None:
        self.sent.append(pb.ProcessingResponse.FromString(reply))

    def finish(self) -> None:
        """End it."""

    def hold(self) -> None:
        """Hear nothing more for now."""

    def release(self) -> None:
        """Hear on."""


def nothing_local(_: Request) -> Response:
    raise AssertionError("nothing is answered here")


class World:
    """A picker that traces what it is asked to; proxies and agents are played."""

    def __init__(self) -> None:
        self.core = ScriptedCore({"m": SERVICE})
        self.clock = FakeClock()
        self.spans: list[Span] = []
        self.instruments = Instruments()
        meters = GatewayMeters(self.instruments)
        self.meters = meters.of(("ns", "s"))
        self.plane = DataPlane(
            core=self.core,
            prompts=ByteEncoder(),
            announcer=NotedAnnouncements(),
            clock=self.clock,
            draw_id=lambda: "drawn",
            meters=meters,
        )
        endpoints = Endpoints(fallbacks=0)
        endpoints.follow(Catalogue(services=(SERVICE,)))
        around = Surroundings(self.plane, nothing_local, HeaderWriter(subscriber_epoch=7), endpoints, 10_000)
        tracer = Tracer(ratio=0.0, rng=Random(1), ended=self.spans.append)
        self.picker = Picker(plane=self.plane, surroundings=around, meters=meters, tracer=tracer)

    def ask(self, *, stream: bool = True, traced: bool = False) -> tuple[Listener, PlayedCall]:
        """Send a whole request."""
        call = PlayedCall()
        listener = self.picker.process(cast("Call", call))
        fields = {":method": "POST", ":path": "/v1/completions"}
        fields |= {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"} if traced else {}
        listener.message(pb.ProcessingRequest(request_headers=headers(fields)).SerializeToString())
        body = orjson.dumps({"model": "m", "prompt": "hello", "stream": stream})
        listener.message(
            pb.ProcessingRequest(request_body=pb.HttpBody(body=body, end_of_stream=True)).SerializeToString()
        )
        return listener, call

    def reported(self, outcome: wire.Outcome = wire.OUTCOME_OK, **more: Any) -> None:
        report = wire.RequestReport(request_id="drawn", outcome=outcome, side=wire.ROLE_DECODE, streamed=True, **more)
        self.picker.reported(report)

    @property
    def ttft(self) -> tuple[int, int]:
        """How many streams met and missed the limit of the first token."""
        return self.meters.streams("ttft", met=True), self.meters.streams("ttft", met=False)

    @property
    def tpot(self) -> tuple[int, int]:
        return self.meters.streams("tpot", met=True), self.meters.streams("tpot", met=False)

    def span(self, name: str) -> Span:
        (found,) = [span for span in self.spans if span.name == name]
        return found


def headers(fields: dict[str, str]) -> pb.HttpHeaders:
    pairs = [pb.HeaderValue(key=key, raw_value=text.encode()) for key, text in fields.items()]
    return pb.HttpHeaders(headers=pb.HeaderMap(headers=pairs))


def answered(status: int, content_type: str = "text/event-stream") -> bytes:
    said = headers({":status": str(status), "content-type": content_type})
    return pb.ProcessingRequest(response_headers=said).SerializeToString()


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize(
    ("ttft_s", "tpot_s", "ttft", "tpot"),
    [(0.4, 0.02, (1, 0), (1, 0)), (1.2, 0.02, (0, 1), (1, 0)), (0.4, 0.08, (1, 0), (0, 1))],
    ids=["in time", "late", "slow"],
)
def test_a_stream_is_judged_by_the_times_of_its_agent(
    world: World, ttft_s: float, tpot_s: float, ttft: tuple[int, int], tpot: tuple[int, int]
) -> None:
    listener, _ = world.ask()
    listener.message(answered(200))
    listener.gone()
    world.reported(ttft_s=ttft_s, tpot_s=tpot_s, output_tokens=8)

    assert (world.ttft, world.tpot) == (ttft, tpot)
    assert sum(world.meters.ttft.counts) == sum(world.meters.tpot.counts) == 1


def test_the_wait_for_a_place_counts(world: World) -> None:
    world.core.script.append(queued("drawn"))
    listener, _ = world.ask()
    world.clock.advance(0.8)
    world.core.polled.append(("drawn", routed(world.core.asks[0])))
    world.plane.poll()
    listener.message(answered(200))
    listener.gone()
    world.reported(ttft_s=0.4, tpot_s=0.01, output_tokens=8)

    assert world.ttft == (0, 1)


@pytest.mark.parametrize("first", ["report", "proxy"])
def test_report_and_end_may_come_in_either_order(world: World, first: str) -> None:
    listener, _ = world.ask()
    listener.message(answered(200))
    if first == "proxy":
        listener.gone()
    world.reported(ttft_s=0.1, tpot_s=0.01, output_tokens=8)
    if first == "report":
        listener.gone()
    world.reported(ttft_s=9.0, tpot_s=9.0, output_tokens=8)

    assert (world.ttft, world.tpot) == ((1, 0), (1, 0))


def test_a_worker_that_gave_nothing_does_not_speak_for_the_one_that_answered(world: World) -> None:
    listener, _ = world.ask()
    world.reported(wire.OUTCOME_REFUSED)
    listener.message(answered(200))
    listener.gone()
    assert world.ttft == (0, 0)

    world.reported(ttft_s=0.1, tpot_s=0.01, output_tokens=8)

    assert world.ttft == (1, 0)


@pytest.mark.parametrize(
    ("status", "outcome", "ttft"),
    [(200, wire.OUTCOME_ENGINE_LOST, (0, 1)), (503, wire.OUTCOME_REFUSED, (0, 0))],
    ids=["the one that answered", "one that was passed over"],
)
def test_a_worker_speaks_for_the_answer_that_it_gave_even_without_a_token(
    world: World, status: int, outcome: wire.Outcome, ttft: tuple[int, int]
) -> None:
    listener, _ = world.ask()
    world.reported(outcome, status=status)
    listener.message(answered(200))
    listener.gone()

    assert world.ttft == ttft


def test_a_refusal_and_an_answer_of_the_proxys_own_have_missed(world: World) -> None:
    world.core.script.append(refused("drawn", RefusalReason.QUEUE_FULL))
    world.ask()
    assert world.ttft == (0, 1)

    listener, _ = world.ask()
    listener.message(answered(503, "text/plain"))

    assert world.ttft == (0, 2)


def test_what_the_client_did_wrong_is_nobodys_miss(world: World) -> None:
    listener, _ = world.ask()
    listener.message(answered(400, "application/json"))
    listener.gone()

    assert world.ttft == (0, 0)


def test_what_is_not_streamed_is_not_judged(world: World) -> None:
    listener, _ = world.ask(stream=False)
    listener.gone()
    world.reported(ttft_s=9.0)

    assert world.ttft == (0, 0)


def test_a_traced_request_goes_on_below_its_try_and_ends_with_the_report(world: World) -> None:
    listener, call = world.ask(traced=True)
    listener.message(answered(200))
    listener.gone()
    assert [span.name for span in world.spans] == ["pick"]
    world.reported(ttft_s=0.25, tpot_s=0.01, output_tokens=8)

    request, forward = world.span("POST /v1/completions"), world.span("forward")
    mutation = call.sent[0].request_headers.response.header_mutation
    told = {each.header.key: each.header.raw_value for each in mutation.set_headers}
    assert told["traceparent"] == forward.context.header
    assert request.context.trace_id.hex() == TRACE
    assert request.attributes["inferplane.ttft_s"] == pytest.approx(0.25)
    assert (request.attributes["inferplane.outcome"], request.attributes["http.response.status_code"]) == ("ok", 200)


def test_a_request_that_nobody_asked_to_trace_gets_no_header(world: World) -> None:
    _, call = world.ask()

    mutation = call.sent[0].request_headers.response.header_mutation
    assert "traceparent" not in {each.header.key for each in mutation.set_headers}


def test_reports_that_never_come_are_not_waited_for_without_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MOST_AWAITED", 0)
    listener, _ = world.ask(traced=True)
    listener.gone()

    world.reported(ttft_s=9.0, output_tokens=8)

    assert world.ttft == (0, 0)
