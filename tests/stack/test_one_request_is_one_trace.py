"""Spans of a router, two agents and a client's own trace, as a collector sees them."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
import uvloop

from inferplane_runtime.http.api import Limits
from inferplane_runtime.http.server import HttpServer
from inferplane_runtime.tracing.config import Tracing
from inferplane_runtime.tracing.testing import Collector, SeenSpan
from inferplane_workers.agent.config import Role
from inferplane_workers.testing import until
from one_loop_service import OneLoopService, WorkerSpec, one_loop_service
from real_collector import find_collector, real_collector

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "a word " * 100}], "max_tokens": 8, "stream": True}
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TREE = {
    # span: the one that it is a step of
    "pick": "POST /v1/chat/completions",
    "forward": "POST /v1/chat/completions",
    "worker decode": "forward",
    "prefill": "worker decode",
    "worker prefill": "prefill",
    "transfer": "engine",
    "decode": "engine",
}

Scenario = Callable[[OneLoopService, Collector], Awaitable[None]]
Way = Callable[[Path, str], AbstractContextManager[str]]
"""Gives the URL that spans are sent to, where the one that is given sees them in the end."""


def directly(_: Path, to: str) -> AbstractContextManager[str]:
    return nullcontext(to)


def through_a_real_collector(folder: Path, to: str) -> AbstractContextManager[str]:
    program = find_collector()
    if program is None:
        pytest.skip("no collector here; `make collector` builds one")
    return real_collector(program, folder, to=to)


def traced(
    folder: Path, specs: tuple[tuple[str, Role], ...], ratio: float, scenario: Scenario, way: Way = directly
) -> None:
    async def main() -> None:
        collector = Collector()
        server = HttpServer(collector, limits=Limits())
        await server.start("127.0.0.1", 0)
        try:
            with way(folder, f"http://127.0.0.1:{server.port}/v1/traces") as endpoint:
                workers = [WorkerSpec(name, role, changes={"trace_endpoint": endpoint}) for name, role in specs]
                async with one_loop_service(folder, workers, config={"tracing": Tracing(endpoint, ratio)}) as service:
                    await scenario(service, collector)
        finally:
            server.close()

    uvloop.run(main())


def one(collector: Collector, name: str) -> SeenSpan:
    (span,) = collector.named(name)
    return span


@pytest.mark.slow
@pytest.mark.parametrize("way", [directly, through_a_real_collector])
def test_every_step_stands_below_the_one_that_made_it(tmp_path: Path, way: Way) -> None:
    async def scenario(service: OneLoopService, collector: Collector) -> None:
        await service.post("/v1/chat/completions", CHAT, x_request_id="first", traceparent=PARENT)
        await until(lambda: len(collector.spans) == 10)

        assert {span.message.trace_id.hex() for span in collector.spans} == {PARENT[3:35]}
        for child, parent in TREE.items():
            assert any(it.holds(one(collector, child)) for it in collector.named(parent)), child
        engines = collector.named("engine")
        assert {it.name for it in collector.spans if any(it.holds(engine) for engine in engines)} == {
            "worker decode",
            "worker prefill",
        }
        for outer in collector.spans:
            for inner in (it for it in collector.spans if outer.holds(it)):
                assert outer.times[0] <= inner.times[0] <= inner.times[1] <= outer.times[1] + 0.001, inner.name

        request, pick = one(collector, "POST /v1/chat/completions"), one(collector, "pick")
        assert request.message.parent_span_id.hex() == PARENT[36:52]
        assert request.attributes["inferplane.service"] == "s"
        assert request.attributes["inferplane.request_id"] == "first"
        assert request.attributes["inferplane.outcome"] == "ok"
        assert request.attributes["http.response.status_code"] == 200
        assert (pick.attributes["inferplane.worker"], pick.attributes["inferplane.prefill_worker"]) == ("d0", "p0")
        assert (pick.attributes["inferplane.hit_blocks"], pick.attributes["inferplane.queue_s"]) == (0, 0.0)
        assert {span.resource["service.name"] for span in collector.spans} == {"inferplane-router", "inferplane-worker"}
        assert all(span.fault == "" for span in collector.spans)

    traced(tmp_path, (("p0", Role.PREFILL), ("d0", Role.DECODE)), 0.0, scenario, way)


@pytest.mark.slow
def test_what_is_not_drawn_and_not_marked_is_not_traced(tmp_path: Path) -> None:
    async def scenario(service: OneLoopService, collector: Collector) -> None:
        await service.post("/v1/chat/completions", CHAT)
        await service.post("/v1/chat/completions", CHAT, traceparent=PARENT[:-1] + "0")
        await service.post("/v1/chat/completions", CHAT, x_request_id="marked", traceparent=PARENT)
        await until(lambda: len(collector.spans) == 7)

        assert {span.attributes.get("inferplane.request_id") for span in collector.spans} <= {"marked", None}
        assert collector.named("local prefill") != []

    traced(tmp_path, (("d0", Role.DECODE),), 0.0, scenario)
