"""A request that holds itself alive waits for the garbage collector: memory grows cold, and collecting costs CPU."""

import gc
from collections.abc import Generator
from typing import Any

import orjson
import pytest

from inferplane_api.catalogue import CatalogueService
from inferplane_router.core.values import RefusalReason
from inferplane_router.gateway.data_plane import DataPlane, Placement
from inferplane_router.gateway.forward import Forward, ForwardContext
from inferplane_router.gateway.headers import HeaderWriter
from inferplane_router.gateway.http import Gateway
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_router.gateway.testing import ByteEncoder, NotedAnnouncements, ScriptedCore, refused
from inferplane_runtime.clock import FakeClock
from inferplane_runtime.http.api import Headers, Request, ResponseHead, UpstreamFailure
from inferplane_runtime.http.testing import PlayedUpstream, RecordedExchange
from inferplane_runtime.metrics.instruments import Instruments

JSON = ResponseHead(200, Headers(((b"content-type", b"application/json"),)))
CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


class World:
    """A gateway between a played client and a played agent."""

    def __init__(self) -> None:
        self.core = ScriptedCore({"m": CatalogueService(name="s", served_names=("m",))})
        self.upstream = PlayedUpstream()
        meters = GatewayMeters(Instruments())
        ids = iter(f"id{i}" for i in range(1000))
        plane = DataPlane(
            core=self.core,
            prompts=ByteEncoder(),
            announcer=NotedAnnouncements(),
            clock=FakeClock(),
            draw_id=lambda: next(ids),
            meters=meters,
        )
        context = ForwardContext(plane, self.upstream, HeaderWriter(subscriber_epoch=1), meters)
        self.gateway = Gateway(context, unready=lambda: "", catalogue=lambda: 1)

    def ask(self) -> RecordedExchange:
        exchange = RecordedExchange()
        self.gateway(Request(b"POST", b"/v1/chat/completions", body=orjson.dumps(CHAT)), exchange)
        return exchange


@pytest.fixture(autouse=True)
def _no_collector() -> Generator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive() -> list[str]:
    """Name what is left of requests; only cycles can keep it, since nobody else does."""
    return [type(each).__name__ for each in gc.get_objects() if type(each) in {Forward, Placement}]


def test_an_answered_request_is_gone_with_its_answer() -> None:
    world = World()
    world.ask()
    sink = world.upstream.calls[-1].sink
    sink.on_head(JSON)
    sink.on_body(b"{}")

    assert alive()

    sink.on_end()
    world.upstream.calls.clear()
    del sink

    assert alive() == []


def test_a_request_that_was_tried_twice_is_gone_too() -> None:
    world = World()
    world.ask()
    world.upstream.calls[-1].sink.on_failure(UpstreamFailure.LOST, "gone")
    sink = world.upstream.calls[-1].sink
    sink.on_head(JSON)
    sink.on_end()
    world.upstream.calls.clear()
    del sink

    assert alive() == []


def test_a_client_that_leaves_takes_its_request_along() -> None:
    world = World()
    exchange = world.ask()
    exchange.disconnect()
    world.upstream.calls.clear()
    del exchange

    assert alive() == []


def test_a_refused_request_is_gone() -> None:
    world = World()
    world.core.script.append(refused("id0", RefusalReason.NO_WORKERS))
    world.ask()

    assert alive() == []
