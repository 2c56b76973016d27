"""A router of several real processes in front of real agents: what clients see when one of them is killed.

The router runs as its own command does; agents and simulated engines run in the test's loop.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import orjson
import pytest
import uvloop

from inferplane_api.catalogue import Catalogue, CatalogueService, CatalogueWorker, WorkerRole
from inferplane_api.proto import router_pb2 as pb
from inferplane_runtime.http.client import UpstreamPool
from inferplane_runtime.http.testing import CollectingSink
from inferplane_workers.agent.config import Role
from inferplane_workers.sim.text import model_folder
from inferplane_workers.testing import MODEL, Worker, until, worker
from one_loop_service import call, reference_answers, streamed_text, text_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(480),  # four processes start, with seconds of imports each, on whatever cores there are
    pytest.mark.skipif(sys.platform != "linux", reason="processes share memory and die together as Linux lets them"),
]
WORDS: Final = " ".join(f"word{number}" for number in range(200))
CHAT: Final = "/v1/chat/completions"
SERVICE: Final = "/inferplane.v1.Router"
DEADLINE_S: Final = 90.0
STARTED: Final = re.compile(r'event="process started" process=(\S+) pid=(\d+)')


def chat(words: str = WORDS, *, tokens: int = 4, stream: bool = False) -> dict[str, Any]:
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": words}],
        "max_tokens": tokens,
        "stream": stream,
        "ignore_eos": True,
    }


@dataclass
class Router:
    """A running router and what it can be seen by."""

    process: Process
    folder: Path
    http: str
    grpc: str
    metrics: str
    workers: dict[str, Worker]

    def pids(self) -> dict[str, int]:
        """Return the process that was forked last for each name."""
        log = (self.folder / "router.log").read_text("utf-8")
        return {name: int(pid) for name, pid in STARTED.findall(log)}

    async def ask(self, path: str = CHAT, body: object = None, **headers: str) -> CollectingSink:
        """Ask on a connection of its own, so that any gateway may get it."""
        client = UpstreamPool()
        try:
            return await call(client, self.http, path, body, **headers)
        finally:
            await client.close()

    async def metric(self, name: str) -> float:
        client = UpstreamPool()
        try:
            shown = (await call(client, self.metrics, "/metrics", None)).body.decode()
        finally:
            await client.close()
        return sum(float(line.rsplit(" ", 1)[1]) for line in shown.splitlines() if line.startswith(name))

    def write_catalogue(self, generation: int, *names: str) -> None:
        write_catalogue(self.folder, self.workers, generation, *names)


def write_catalogue(folder: Path, workers: dict[str, Worker], generation: int, *names: str) -> None:
    entries = tuple(
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
    )
    served = CatalogueService(name="s", served_names=(MODEL, *names), expose_headers=True)
    part = folder / "catalogue.part"
    part.write_text(
        Catalogue(generation=generation, services=(served,), workers=entries).model_dump_json(by_alias=True)
    )
    part.replace(folder / "catalogue.json")


@asynccontextmanager
async def running(folder: Path, *, processes: int = 2) -> AsyncGenerator[Router]:
    async with contextlib.AsyncExitStack() as stack:
        changes = {"model_path": model_folder("builtin")}
        workers = {
            name: await stack.enter_async_context(
                worker(folder, Role.DECODE, name, flags=("--sim-speed", "1"), changes=changes)
            )
            for name in ("w0", "w1")
        }
        write_catalogue(folder, workers, 1)
        router = await stack.enter_async_context(router_process(folder, workers, processes))
        yield router


@asynccontextmanager
async def router_process(folder: Path, workers: dict[str, Worker], processes: int) -> AsyncGenerator[Router]:
    report = folder / "report.json"
    listen = dict.fromkeys(("http", "grpc", "metrics"), "127.0.0.1:0") | {"report": str(report)}
    config = {
        "listen": listen,
        "discovery": {"file": str(folder / "catalogue.json")},
        "cacheDir": str(folder / "cache"),
        "processes": processes,
        "console": True,
    }
    (folder / "router.json").write_text(json.dumps(config))
    with (folder / "router.log").open("w") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "inferplane_router", "--config", str(folder / "router.json")),
            stdout=DEVNULL,
            stderr=log,
        )
    try:
        await until(lambda: report.exists() or process.returncode is not None, deadline_s=DEADLINE_S)
        assert process.returncode is None, (folder / "router.log").read_text()
        ports = json.loads(report.read_text())
        router = Router(process, folder, ports["http"], ports["grpc"], ports["metrics"], workers)
        await known_everywhere(router, WORDS)
        yield router
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def known_everywhere(router: Router, words: str) -> None:
    """Wait until every gateway has sent a request where its prompt's blocks are."""
    seen: set[str] = set()
    async with asyncio.timeout(DEADLINE_S):
        while len(seen) < 2:
            answer = await router.ask(body=chat(words))
            if answer.head is not None and answer.head.status == 200 and predicted(answer) > 1000:
                seen.add(gateway_of(answer))


def header(answer: CollectingSink, name: str) -> str:
    assert answer.head is not None, answer.failure
    return (answer.head.headers.get(name.encode()) or b"").decode()


def gateway_of(answer: CollectingSink) -> str:
    """Return what tells which process answered: ids are drawn by each with a beginning of its own."""
    return header(answer, "x-request-id").partition("-")[0]


def predicted(answer: CollectingSink) -> int:
    return int(header(answer, "x-inferplane-predicted-cached-tokens") or 0)


def run(folder: Path, scenario: Callable[[Router], Awaitable[None]]) -> None:
    async def main() -> None:
        async with running(folder) as router:
            await scenario(router)

    uvloop.run(main())


def alive(pid: int) -> bool:
    """Say whether a process runs; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def streams(router: Router, count: int, tokens: int) -> list[asyncio.Task[CollectingSink]]:
    return [asyncio.create_task(router.ask(body=chat(tokens=tokens, stream=True))) for _ in range(count)]


async def flowing(router: Router, count: int) -> None:
    """Wait until so many requests are under way at the agents."""
    await until(lambda: in_force(router) >= count, deadline_s=DEADLINE_S)


def in_force(router: Router) -> int:
    return sum(len(each.agent.jobs.live) for each in router.workers.values())


async def console_of(router: Router, whole: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return what the console shows, whoever is asked, as soon as all of twelve answers are whole."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            states: list[dict[str, Any]] = [orjson.loads((await router.ask("/console/state")).body) for _ in range(12)]
            if all(map(whole, states)):
                return states[-1]


async def generation_reaches(router: Router, generation: int) -> None:
    """Wait until every process routes by this catalogue: so `/ready` says, whoever answers."""
    async with asyncio.timeout(DEADLINE_S):
        while orjson.loads((await router.ask("/ready")).body)["catalogue"] != generation:
            pass


def test_gateways_share_connections_prefixes_catalogues_and_metrics(tmp_path: Path) -> None:
    async def scenario(router: Router) -> None:
        before = await router.metric("inferplane_gateway_requests_total")
        answers = [await router.ask(body=chat()) for _ in range(48)]
        share = Counter(gateway_of(answer) for answer in answers)

        assert len(share) == 2
        assert min(share.values()) >= 8  # fewer happen once in a million times
        assert {predicted(answer) > 1000 for answer in answers} == {True}
        assert {header(answer, "x-inferplane-worker") for answer in answers} <= {"w0", "w1"}
        assert await router.metric("inferplane_gateway_requests_total") == before + 48
        assert await router.metric('inferplane_router_workers{health="ready"') == 2
        assert await router.metric('inferplane_router_processes{part="gateway"}') == 2

        shown = await console_of(router, lambda state: state["processes"]["answered"] == 2)

        assert shown["processes"]["expected"] == 2
        assert len({each["id"].partition("-")[0] for each in shown["decisions"]}) == 2

        router.write_catalogue(2, "other-name")
        await generation_reaches(router, 2)
        models = [orjson.loads((await router.ask("/v1/models")).body)["data"] for _ in range(24)]

        assert {tuple(each["id"] for each in listed) for listed in models} == {(MODEL, "other-name")}

    run(tmp_path, scenario)


def test_the_router_service_speaks_for_all_processes(tmp_path: Path) -> None:
    async def scenario(router: Router) -> None:
        async with grpc.aio.insecure_channel(router.grpc) as channel:
            observe = channel.unary_stream(
                f"{SERVICE}/Observe",
                request_serializer=pb.ObserveRequest.SerializeToString,
                response_deserializer=pb.Observation.FromString,
            )
            explain = channel.unary_unary(
                f"{SERVICE}/Explain",
                request_serializer=pb.ExplainRequest.SerializeToString,
                response_deserializer=pb.ExplainReply.FromString,
            )
            planned = channel.unary_unary(
                f"{SERVICE}/Planned",
                request_serializer=pb.PlanNotice.SerializeToString,
                response_deserializer=pb.PlanNoticed.FromString,
            )
            seen: set[str] = set()
            finished: set[str] = set()
            watching = asyncio.create_task(_watch(observe(pb.ObserveRequest(services=["s"])), seen, finished))
            async with asyncio.timeout(DEADLINE_S):
                while len({gateway for gateway, _, _ in (name.partition("-") for name in seen)}) < 2:
                    await router.ask(body=chat())  # an observer is known to all processes a moment after it came
            answers = [await router.ask(body=chat()) for _ in range(16)]
            asked = {header(answer, "x-request-id") for answer in answers}
            await until(lambda: asked <= seen and asked <= finished, deadline_s=DEADLINE_S)
            records = [(await explain(pb.ExplainRequest(request_id=each))) for each in sorted(asked)]
            unknown = await explain(pb.ExplainRequest(request_id="nobody's"))
            watching.cancel()
            await asyncio.wait([watching])
            await planned(pb.PlanNotice(service="s", decode=2, reason="as it should be"))
            shown = await console_of(router, lambda state: state["services"][0]["plan"] is not None)

        assert shown["services"][0]["plan"]["reason"] == "as it should be"
        assert [reply.record.request_id for reply in records] == sorted(asked)
        assert not unknown.found

    run(tmp_path, scenario)


async def _watch(observations: AsyncIterable[pb.Observation], seen: set[str], finished: set[str]) -> None:
    async for observation in observations:
        if observation.HasField("arrival"):
            seen.add(observation.arrival.request_id)
        else:
            finished.add(observation.finished.request_id)


def test_a_process_that_is_killed_costs_its_own_connections_and_is_replaced(tmp_path: Path) -> None:
    async def scenario(router: Router) -> None:
        (expected,) = await reference_answers(tmp_path, CHAT, [chat(tokens=600)])
        first = router.pids()

        running_streams = streams(router, 12, 600)
        await flowing(router, 12)
        os.kill(first["index"], signal.SIGKILL)
        meanwhile = [await router.ask(body=chat()) for _ in range(8)]
        answers = [await each for each in running_streams]

        assert {text_of(answer) == expected for answer in answers} == {True}
        assert {answer.head is not None and answer.head.status == 200 for answer in meanwhile} == {True}
        assert max(predicted(answer) for answer in meanwhile) > 1000  # the table is still read
        await until(lambda: router.pids()["index"] != first["index"], deadline_s=DEADLINE_S)
        await until(lambda: "index rebuilt" in (tmp_path / "router.log").read_text(), deadline_s=DEADLINE_S)

        await known_everywhere(router, f"other {WORDS}")

        assert router.pids()["gateway-0"] == first["gateway-0"]

        running_streams = streams(router, 20, 600)
        await flowing(router, 20)
        os.kill(first["gateway-0"], signal.SIGKILL)
        answers = [await each for each in running_streams]
        whole = [answer for answer in answers if answer.failure is None]
        broken = [answer for answer in answers if answer.failure is not None]

        assert whole  # by chance there are none once in a million times
        assert {text_of(answer) == expected for answer in whole} == {True}
        assert {expected.startswith(streamed_text(answer.body)) for answer in broken} <= {True}

        await until(lambda: router.pids()["gateway-0"] != first["gateway-0"], deadline_s=DEADLINE_S)
        gateways: set[str] = set()
        async with asyncio.timeout(DEADLINE_S):
            while len(gateways) < 2:
                answer = await router.ask(body=chat())

                assert answer.head is not None
                assert answer.head.status == 200
                gateways.add(gateway_of(answer))
        await until(lambda: not in_force(router), deadline_s=DEADLINE_S)

        running_streams = streams(router, 4, 600)
        await flowing(router, 4)
        pids = router.pids()
        os.kill(router.process.pid, signal.SIGKILL)
        answers = [await each for each in running_streams]
        await router.process.wait()
        await until(lambda: not any(map(alive, pids.values())), deadline_s=DEADLINE_S)

        assert all(answer.failure is not None for answer in answers)
        assert {expected.startswith(streamed_text(answer.body)) for answer in answers} == {True}

    run(tmp_path, scenario)


def test_a_drain_finishes_every_stream_of_every_process(tmp_path: Path) -> None:
    async def scenario(router: Router) -> None:
        (expected,) = await reference_answers(tmp_path, CHAT, [chat(tokens=400)])
        running_streams = streams(router, 12, 400)
        await flowing(router, 12)
        pids = router.pids()
        router.process.send_signal(signal.SIGTERM)
        answers = [await each for each in running_streams]
        code = await router.process.wait()

        assert {text_of(answer) == expected for answer in answers} == {True}
        assert code == 0
        assert not any(map(alive, pids.values()))

    run(tmp_path, scenario)
