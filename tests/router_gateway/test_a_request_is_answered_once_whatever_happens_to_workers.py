"""Forwarding: streams pass through, failures before the first byte go elsewhere, failures after it are visible."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.exposition import generate_latest

from inferplane_api.catalogue import CatalogueService
from inferplane_api.proto import worker_pb2 as wire
from inferplane_engine.identity import Adapter
from inferplane_router.core.values import Expectation, RefusalReason, Routed, TargetRef
from inferplane_router.gateway.data_plane import DataPlane
from inferplane_router.gateway.forward import MAX_LOSSES, MAX_TRIES, ForwardContext
from inferplane_router.gateway.headers import HeaderWriter, Particulars
from inferplane_router.gateway.http import Gateway
from inferplane_router.gateway.meters import GatewayMeters, ServiceMeters
from inferplane_router.gateway.testing import ByteEncoder, NotedAnnouncements, ScriptedCore, queued, refused, routed
from inferplane_runtime.clock import FakeClock
from inferplane_runtime.http.api import Headers, Request, ResponseHead, UpstreamFailure
from inferplane_runtime.http.testing import PlayedCall, PlayedUpstream, RecordedExchange
from inferplane_runtime.metrics.instruments import Instruments

SSE = ResponseHead(200, Headers(((b"content-type", b"text/event-stream"), (b"x-inferplane-worker", b"d0"))))
RETRY = ((b"x-inferplane-retry", b"1"),)
CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}


class World:
    """A gateway whose neighbours are played."""

    def __init__(self, *, expose: bool = False) -> None:
        plain = CatalogueService(name="s", served_names=("m", "alias"), expose_headers=expose)
        self.core = ScriptedCore({"m": plain, "alias": plain}, {"lora": ("m", Adapter("lora", "r1"))})
        self.upstream = PlayedUpstream()
        self.announcements = NotedAnnouncements()
        self.clock = FakeClock()
        self.instruments = Instruments()
        meters = GatewayMeters(self.instruments)
        ids = iter(f"id{i}" for i in range(1000))
        self.plane = DataPlane(
            core=self.core,
            prompts=ByteEncoder(),
            announcer=self.announcements,
            clock=self.clock,
            draw_id=lambda: next(ids),
            meters=meters,
        )
        context = ForwardContext(self.plane, self.upstream, HeaderWriter(subscriber_epoch=1), meters)
        self.unready = ""
        self.gateway = Gateway(context, unready=lambda: self.unready, catalogue=lambda: 7)

    def ask(
        self, body: dict[str, Any] | None = None, *headers: tuple[bytes, bytes], path: bytes = b""
    ) -> RecordedExchange:
        exchange = RecordedExchange()
        raw = orjson.dumps(CHAT if body is None else body)
        request = Request(b"POST", path or b"/v1/chat/completions", headers=Headers(headers), body=raw)
        self.gateway(request, exchange)
        return exchange

    def get(self, path: bytes) -> RecordedExchange:
        exchange = RecordedExchange()
        self.gateway(Request(b"GET", path), exchange)
        return exchange

    @property
    def last(self) -> PlayedCall:
        return self.upstream.calls[-1]

    @property
    def outcomes(self) -> list[wire.Outcome]:
        return [outcome for _, outcome in self.core.completed]

    def metric(self, line: str) -> bool:
        return line.encode() in generate_latest(self.instruments.registry)


def test_events_pass_through_as_they_come_and_the_ends_meet() -> None:
    world = World()
    exchange = world.ask()
    sink = world.last.sink
    sink.on_head(SSE)

    assert not exchange.started

    sink.on_body(b"data: 1\n\n")

    assert exchange.pieces == [b"data: 1\n\n"]
    assert not exchange.ended

    sink.on_body(b"data: [DONE]\n\n")
    sink.on_end()

    assert exchange.ended
    assert world.outcomes == [wire.OUTCOME_OK]
    assert world.metric(
        'inferplane_gateway_requests_total{namespace="default",outcome="ok",route="chat",service="s"} 1.0'
    )
    assert world.metric('inferplane_gateway_running_requests{namespace="default",service="s"} 0.0')
    assert world.metric('inferplane_gateway_ttft_seconds_count{namespace="default",service="s"} 1.0')


def test_a_streams_last_event_frees_its_place_before_the_connection_says_that_it_was_the_last() -> None:
    world = World()
    world.ask()
    sink = world.last.sink
    sink.on_head(SSE)
    sink.on_body(b"data: 1\n\n")
    assert world.outcomes == []

    sink.on_body(b"data: 2\n\ndata: [DONE]\n\n")
    assert world.outcomes == [wire.OUTCOME_OK]
    assert world.metric('inferplane_gateway_running_requests{namespace="default",service="s"} 1.0')

    sink.on_end()
    assert world.outcomes == [wire.OUTCOME_OK]
    assert world.metric('inferplane_gateway_running_requests{namespace="default",service="s"} 0.0')


@pytest.mark.parametrize("counting", ["answered", "ended"])
def test_a_defect_of_the_counting_leaves_no_client_waiting_and_no_place_taken(
    counting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("a label too many")

    monkeypatch.setattr(ServiceMeters, counting, broken)
    world = World()
    exchange = world.ask()
    sink = world.last.sink
    sink.on_head(SSE)
    sink.on_body(b"data: 1\n\n")
    with suppress(ValueError):
        sink.on_end()

    assert exchange.pieces == [b"data: 1\n\n"]
    assert exchange.ended
    assert world.outcomes == [wire.OUTCOME_OK]


def test_the_clients_id_goes_in_and_out_and_a_duplicate_gets_another() -> None:
    world = World()
    first = world.ask(None, (b"x-request-id", b"mine"))
    world.ask(None, (b"x-request-id", b"mine"))
    strange = world.ask(None, (b"x-request-id", "é".encode()))
    world.upstream.calls[0].answer(200, b"{}", ((b"x-request-id", b"engine's"),))

    assert [ask.request_id for ask in world.core.asks] == ["mine", "mine-id0", "id1"]
    assert [ask.nonce for ask in world.core.asks] == [1, 2, 0]
    assert world.upstream.calls[0].request.headers.get(b"x-request-id") == b"mine"
    assert world.upstream.calls[0].request.headers.get(b"x-inferplane-nonce") == b"1"
    assert first.head is not None
    assert [value for name, value in first.head.headers.pairs if name == b"x-request-id"] == [b"mine"]
    assert not strange.started


@pytest.mark.parametrize("failure", [UpstreamFailure.REFUSED, UpstreamFailure.LOST, UpstreamFailure.MALFORMED])
@pytest.mark.parametrize("head_came", [False, True])
def test_a_worker_lost_before_the_first_byte_is_replaced(failure: UpstreamFailure, head_came: bool) -> None:  # noqa: FBT001 - parameter
    world = World()
    exchange = world.ask()
    if head_came:
        world.last.sink.on_head(SSE)
    world.last.fail(failure)

    assert world.core.retries == [("id0", "d0")]
    assert world.last.address == "d1:8100"

    world.last.answer(200, b"whole")

    assert (exchange.status, exchange.body, exchange.ended) == (200, b"whole", True)
    assert world.outcomes == [wire.OUTCOME_OK]


@pytest.mark.parametrize("status", [502, 503])
def test_an_agent_that_refuses_retryably_is_replaced_and_its_answer_dropped(status: int) -> None:
    world = World()
    exchange = world.ask()
    refusing = world.last
    refusing.sink.on_head(ResponseHead(status, Headers(RETRY)))

    assert refusing.cancelled

    world.last.answer(200, b"whole")

    assert (exchange.status, exchange.body) == (200, b"whole")


def test_a_report_that_overtakes_the_failed_answer_costs_the_client_nothing() -> None:
    world = World()
    exchange = world.ask()
    world.core.ended_by_report = True
    world.last.fail(UpstreamFailure.LOST)
    world.last.answer(200, b"whole")

    assert exchange.body == b"whole"
    assert world.core.asks[1].exclude == {"d0"}
    assert world.core.asks[1].request_id == world.core.asks[0].request_id


def test_trying_ends_and_the_last_refusal_is_passed_on() -> None:
    world = World()
    exchange = world.ask()
    for _ in range(MAX_TRIES):
        world.last.answer(503, b"draining", RETRY) if len(
            world.upstream.calls
        ) == MAX_TRIES else world.last.sink.on_head(ResponseHead(503, Headers(RETRY)))

    assert len(world.upstream.calls) == MAX_TRIES
    assert (exchange.status, exchange.body) == (503, b"draining")
    assert exchange.head is not None
    assert exchange.head.headers.get(b"x-inferplane-retry") is None
    assert world.outcomes == [wire.OUTCOME_REFUSED]


@pytest.mark.parametrize("said", [False, True])
def test_a_request_that_ends_engines_takes_two_of_them_at_most(said: bool) -> None:  # noqa: FBT001 - parameter
    world = World()
    exchange = world.ask()
    world.last.sink.on_head(ResponseHead(502, Headers(RETRY))) if said else world.last.fail(UpstreamFailure.LOST)
    world.last.answer(502, b"lost", RETRY) if said else world.last.fail(UpstreamFailure.LOST)

    assert len(world.upstream.calls) == MAX_LOSSES
    assert (exchange.status, exchange.ended) == (502, True)


def test_refusals_after_a_loss_are_still_tried_elsewhere() -> None:
    world = World()
    exchange = world.ask()
    world.last.fail(UpstreamFailure.LOST)
    world.last.sink.on_head(ResponseHead(503, Headers(RETRY)))
    world.last.fail(UpstreamFailure.REFUSED)
    world.last.answer(200, b"whole")

    assert len(world.upstream.calls) == MAX_TRIES
    assert exchange.body == b"whole"


def test_when_nobody_is_left_the_client_is_told_to_come_again() -> None:
    world = World()
    exchange = world.ask()
    world.core.script.append(refused("id0", RefusalReason.NO_WORKERS))
    world.last.fail(UpstreamFailure.REFUSED)

    assert exchange.status == 503
    assert exchange.head is not None
    assert exchange.head.headers.get(b"retry-after") == b"2"


@pytest.mark.parametrize(
    ("reason", "status"),
    [(RefusalReason.NO_WORKERS, 503), (RefusalReason.QUEUE_FULL, 429), (RefusalReason.DEADLINE, 429)],
)
def test_a_refusal_of_the_router_has_its_status_and_a_time_to_come_again(reason: RefusalReason, status: int) -> None:
    world = World()
    world.core.script.append(refused("id0", reason, retry_after_s=3.4))
    exchange = world.ask()

    assert exchange.status == status
    assert exchange.head is not None
    assert exchange.head.headers.get(b"retry-after") == b"3"
    assert orjson.loads(exchange.body)["error"]["code"] == reason.value
    assert world.core.completed == []
    assert world.metric('inferplane_gateway_running_requests{namespace="default",service="s"} 0.0')


def test_an_engine_error_passes_with_status_and_body_untouched() -> None:
    world = World()
    exchange = world.ask()
    world.last.answer(422, b'{"detail": "engine words"}', ((b"content-type", b"application/json"),))

    assert (exchange.status, exchange.body) == (422, b'{"detail": "engine words"}')
    assert world.outcomes == [wire.OUTCOME_ENGINE_ERROR]
    assert world.core.retries == []


def test_a_stream_that_breaks_between_events_ends_with_an_error_event() -> None:
    world = World()
    exchange = world.ask()
    world.last.sink.on_head(SSE)
    world.last.sink.on_body(b"data: 1\n\n")
    world.last.fail(UpstreamFailure.LOST)

    assert exchange.ended
    assert orjson.loads(exchange.pieces[-1].removeprefix(b"data: "))["error"]["code"] == 502
    assert world.core.retries == []
    assert world.outcomes == [wire.OUTCOME_ENGINE_LOST]


def test_a_stream_that_breaks_within_an_event_is_reset() -> None:
    world = World()
    exchange = world.ask()
    world.last.sink.on_head(SSE)
    world.last.sink.on_body(b"data: 1\n\ndata: {")
    world.last.fail(UpstreamFailure.LOST)

    assert exchange.aborted


def test_silence_is_a_timeout_and_nobody_else_is_tried() -> None:
    world = World()
    exchange = world.ask()
    world.last.fail(UpstreamFailure.TIMEOUT)

    assert exchange.status == 504
    assert len(world.upstream.calls) == 1


def test_a_client_that_goes_cancels_the_engines_work() -> None:
    world = World()
    exchange = world.ask()
    world.last.sink.on_head(SSE)
    world.last.sink.on_body(b"data: 1\n\n")
    exchange.disconnect()

    assert world.last.cancelled
    assert world.outcomes == [wire.OUTCOME_CLIENT_GONE]
    assert world.metric('inferplane_gateway_disconnects_total{namespace="default",service="s"} 1.0')


def test_a_slow_client_pauses_the_worker() -> None:
    world = World()
    exchange = world.ask()
    exchange.press(on=True)

    assert world.last.paused

    exchange.press(on=False)

    assert not world.last.paused


def test_a_queued_request_is_sent_when_its_turn_comes() -> None:
    async def main() -> None:
        world = World()
        world.core.script.append(queued("id0"))
        exchange = world.ask()

        assert world.upstream.calls == []
        assert world.plane.waiting == 1

        world.core.polled.append(("id0", routed(world.core.asks[0])))
        world.plane.news()
        world.last.answer(200, b"ok")

        assert exchange.body == b"ok"
        assert world.plane.waiting == 0
        await world.plane.close()

    asyncio.run(main())


def test_a_queued_request_whose_deadline_passes_is_woken_up_for_by_the_clock() -> None:
    async def main() -> None:
        world = World()
        world.core.script.append(queued("id0"))
        world.core.wakeup = world.clock.monotonic()
        exchange = world.ask()
        world.core.polled.append(("id0", refused("id0", RefusalReason.DEADLINE)))
        await exchange.wait()

        assert exchange.status == 429
        await world.plane.close()

    asyncio.run(main())


@pytest.mark.parametrize("waits", [True, False])
def test_what_expires_is_looked_at_in_no_hurry_unless_somebody_waits(*, waits: bool) -> None:
    delays = list[float]()

    async def main() -> None:
        world, loop = World(), asyncio.get_running_loop()
        world.core.wakeup = world.clock.monotonic()
        later = loop.call_later

        def noted(delay: float, call: Callable[[], None]) -> asyncio.TimerHandle:
            delays.append(delay)
            return later(delay, call)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "call_later", noted)
            if waits:
                world.core.script.append(queued("id0"))
                world.ask()
            else:
                world.plane.poll()
        await world.plane.close()

    asyncio.run(main())

    assert delays == [0.001 if waits else 0.1]


def test_a_client_that_goes_while_queued_is_forgotten() -> None:
    async def main() -> None:
        world = World()
        world.core.script.append(queued("id0"))
        world.ask().disconnect()

        assert world.outcomes == [wire.OUTCOME_CLIENT_GONE]
        assert world.plane.waiting == 0
        await world.plane.close()

    asyncio.run(main())


def test_an_alias_is_rewritten_and_an_adapter_is_named() -> None:
    world = World()
    world.ask(CHAT | {"model": "alias"})
    world.ask(CHAT | {"model": "lora"})
    aliased, adapted = world.upstream.calls

    assert orjson.loads(aliased.request.body)["model"] == "m"
    assert orjson.loads(adapted.request.body)["model"] == "lora"
    assert adapted.request.headers.get(b"x-inferplane-adapter") == b"lora"
    assert adapted.request.headers.get(b"x-inferplane-adapter-revision") == b"r1"


def test_prefill_candidates_go_to_the_decode_agent_best_first_but_not_for_plain_routes() -> None:
    world = World()
    world.core.prefill = ("p1", "p0")
    world.ask()
    world.ask({"model": "m", "input": "x"}, path=b"/v1/embeddings")
    chat, plain = world.upstream.calls

    assert chat.request.headers.get(b"x-inferplane-prefill") == b"p1:8100,p0:8100"
    assert chat.request.headers.get(b"x-inferplane-prefill-dp-rank") == b"0,0"
    assert plain.request.headers.get(b"x-inferplane-prefill") is None
    assert world.core.asks[1].tokens is None


def test_every_prefill_candidate_has_its_own_rank_in_the_same_place() -> None:
    sides = (TargetRef("p1", 3, "p1:8100"), TargetRef("p0", 0, "p0:8100"), TargetRef("p1", 1, "p1:8100"))
    placed = Routed("r", TargetRef("d", 2, "d:8100"), sides, 10, 0, 0, 0.1, 0.01)

    headers = Headers(tuple(HeaderWriter(subscriber_epoch=1).decision(placed, Particulars())))

    assert headers.get(b"x-inferplane-prefill") == b"p1:8100,p0:8100,p1:8100"
    assert headers.get(b"x-inferplane-prefill-dp-rank") == b"3,0,1"
    assert headers.get(b"x-inferplane-dp-rank") == b"2"


def test_expected_blocks_are_announced_before_the_request_goes_out() -> None:
    world = World()
    expectation = Expectation("d0", 0, np.array([1, 2], np.uint64))
    world.core.expects = (expectation,)
    world.ask()

    assert world.announcements.noted == [("id0", expectation)]


@pytest.mark.parametrize("expose", [False, True])
def test_routing_headers_are_shown_only_where_the_service_says_so(expose: bool) -> None:  # noqa: FBT001 - parameter
    world = World(expose=expose)
    exchange = world.ask()
    world.last.answer(200, b"{}", ((b"x-inferplane-worker", b"d0"), (b"x-inferplane-retry", b"1")))

    assert exchange.head is not None
    shown = {name for name, _ in exchange.head.headers.pairs if name.startswith(b"x-inferplane-")}
    assert shown == ({b"x-inferplane-worker", b"x-inferplane-predicted-cached-tokens"} if expose else set())


def test_models_health_and_readiness() -> None:
    world = World()
    models = orjson.loads(world.get(b"/v1/models").body)

    assert [model["id"] for model in models["data"]] == ["m", "alias", "lora"]
    assert world.get(b"/v1/models/lora").status == 200
    assert world.get(b"/v1/models/other").status == 404
    assert world.get(b"/health").status == 200
    assert world.get(b"/ready").status == 200

    world.unready = "no catalogue yet"

    assert world.get(b"/ready").status == 503
    assert world.get(b"/health").status == 200


EVENTS = st.sampled_from(["head", "body", "end", "refuse", "lost", "timeout", "gone", "press", "release"])


@settings(deadline=None)
@given(st.lists(EVENTS, max_size=14))
def test_however_workers_and_client_behave_there_is_one_answer_and_one_completion(events: list[str]) -> None:
    world = World()
    exchange = world.ask()
    for event in events:
        play(world, exchange, event)

    assert len(world.core.completed) == (1 if exchange.closed else 0)
    assert world.metric(
        f'inferplane_gateway_running_requests{{namespace="default",service="s"}} {0.0 if exchange.closed else 1.0}'
    )


def play(world: World, exchange: RecordedExchange, event: str) -> None:
    """Play one event as far as the seam's promises allow it: nothing after an end or a cancel, a head first."""
    if event == "gone":
        exchange.disconnect()
        return
    if event in ("press", "release"):
        exchange.press(on=event == "press")
        return
    call = world.last
    if call.cancelled or exchange.closed:
        return
    head_seen = exchange.started or getattr(call, "headed", False)
    if event == "head" and not head_seen:
        object.__setattr__(call, "headed", True)
        call.sink.on_head(SSE)
    elif event == "body" and head_seen:
        call.sink.on_body(b"data: x\n\n")
    elif event == "end" and head_seen:
        call.sink.on_end()
    elif event == "refuse" and not head_seen:
        call.sink.on_head(ResponseHead(503, Headers(RETRY)))
    elif event == "lost":
        call.fail(UpstreamFailure.LOST)
    elif event == "timeout":
        call.fail(UpstreamFailure.TIMEOUT)
