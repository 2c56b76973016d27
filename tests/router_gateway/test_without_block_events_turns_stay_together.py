"""Engines that publish no events: the router goes by its own decisions, and says that it does."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import uvloop

from inferplane_api.catalogue import Catalogue, CatalogueService, CatalogueWorker, RoutingMode, WorkerRole
from inferplane_api.proto import worker_pb2
from inferplane_router.app import RouterApp, running_router
from inferplane_router.config import Discovery, Listen, RouterConfig
from inferplane_router.core.values import Health, KvMode, Mismatch
from inferplane_runtime.http.api import Headers, Request
from inferplane_runtime.http.client import UpstreamPool
from inferplane_runtime.http.testing import CollectingSink
from inferplane_workers.agent.config import Role
from inferplane_workers.testing import MODEL, Worker, until, worker

pytestmark = pytest.mark.slow
NAMES = ("d0", "d1", "d2")
SILENT_ENGINE = ("--kv-events-config", '{"enable_kv_cache_events": false}')
SILENT_AGENT = {"kv_events": "", "kv_replay": ""}
QUIET = Listen(http="127.0.0.1:0", grpc="127.0.0.1:0", metrics="127.0.0.1:0")


def catalogue(workers: dict[str, Worker]) -> Catalogue:
    return Catalogue(
        generation=1,
        services=(CatalogueService(name="s", served_names=(MODEL,), mode=RoutingMode.AGGREGATED, expose_headers=True),),
        workers=tuple(
            CatalogueWorker(
                worker_id=name,
                service="s",
                pool="decode",
                role=WorkerRole.DECODE,
                revision="",
                http_address=each.address,
                stream_address=f"127.0.0.1:{each.listening.stream}",
            )
            for name, each in workers.items()
        ),
    )


@asynccontextmanager
async def world(folder: Path) -> AsyncGenerator[tuple[RouterApp, dict[str, Worker], UpstreamPool]]:
    async with AsyncExitStack() as stack:
        workers: dict[str, Worker] = {}
        for name in NAMES:
            silent = worker(folder, Role.DECODE, name, flags=SILENT_ENGINE, changes=SILENT_AGENT)
            workers[name] = await stack.enter_async_context(silent)
        file = folder / "catalogue.json"
        file.write_text(catalogue(workers).model_dump_json(by_alias=True), "utf-8")
        config = RouterConfig(Discovery(file), folder / "cache", listen=QUIET)
        app = await stack.enter_async_context(running_router(config))
        await until(lambda: [each.health for each in app.core.statistics().workers] == [Health.READY] * len(NAMES))
        client = UpstreamPool()
        stack.push_async_callback(client.close)
        yield app, workers, client


async def chat(client: UpstreamPool, port: int, messages: list[dict[str, str]]) -> tuple[str, str, int]:
    """Return who answered, what, and how many prompt tokens its engine had cached."""
    sink = CollectingSink()
    body = orjson.dumps({"model": MODEL, "messages": messages, "max_tokens": 8})
    fields = Headers(((b"content-type", b"application/json"),))
    request = Request(b"POST", b"/v1/chat/completions", headers=fields, body=body)
    client.send(f"127.0.0.1:{port}", request, sink, silence_s=20)
    await sink.wait()
    assert sink.head is not None
    answer: dict[str, Any] = orjson.loads(sink.body)
    cached: int = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    chosen = (sink.head.headers.get(b"x-inferplane-worker") or b"").decode()
    return chosen, answer["choices"][0]["message"]["content"], cached


def test_later_turns_land_where_the_first_was_routed(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as (app, workers, client):
            chosen: list[set[str]] = []
            cached: list[int] = []
            for number in range(5):
                talk = [{"role": "user", "content": f"{number} " + "some words of a story " * 20}]
                places: set[str] = set()
                for turn in range(3):
                    # A worker that seems busy still, since its report is on its way, may be worth avoiding.
                    await until(lambda: not any(each.in_flight for each in app.core.statistics().workers))
                    place, answer, hit = await chat(client, app.http.port, talk)
                    places.add(place)
                    if turn:
                        cached.append(hit)
                    talk += [{"role": "assistant", "content": answer}, {"role": "user", "content": "go on"}]
                chosen.append(places)
            views = app.core.statistics().workers

            assert [len(places) for places in chosen] == [1] * 5
            assert len({place for places in chosen for place in places}) > 1
            assert min(cached) > 0
            assert {view.kv_mode for view in views} == {KvMode.APPROXIMATE}
            assert {view.mismatch for view in views} == {Mismatch.EVENTS_OFF}
            assert {each.agent.announcer.status.kv_events for each in workers.values()} == {worker_pb2.KV_EVENTS_OFF}

    uvloop.run(main())
