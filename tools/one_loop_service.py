"""A whole service in one event loop: the real router, real agents, simulated engines, each on free ports.

Tests of what the parts do together use it.  An engine that is to end abruptly runs as a process of its own.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
import uvloop

from inferplane_api.catalogue import Catalogue, CatalogueService, CatalogueWorker, RoutingMode, WorkerRole
from inferplane_api.proto.router_pb2 import PICK_OUTCOME_ROUTED
from inferplane_router.app import RouterApp, running_router
from inferplane_router.config import Discovery, Listen, RouterConfig
from inferplane_router.core.values import Health, WorkerView
from inferplane_runtime.http.api import Headers, Request
from inferplane_runtime.http.client import UpstreamPool
from inferplane_runtime.http.testing import CollectingSink
from inferplane_workers.agent.app import Agent, Listening
from inferplane_workers.agent.config import Role
from inferplane_workers.agent.engine_watch import Periods
from inferplane_workers.sim.text import model_folder
from inferplane_workers.testing import MODEL, QUICK, agent_beside, engine, engine_process, until

QUIET = Listen(http="127.0.0.1:0", grpc="127.0.0.1:0", metrics="127.0.0.1:0")
ALIAS = "alias"


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """One worker to run."""

    name: str
    role: Role
    faults: Sequence[Mapping[str, Any]] = ()
    engine_flags: Sequence[str] = ()
    own_process: bool = False
    """Its engine is a process, so that it can be gone at once."""
    changes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Of the agent's configuration."""
    periods: Periods = QUICK
    expected: bool = True
    """It is waited for."""
    revision: str = ""
    listed: bool = True
    """The router is told of it from the beginning; see `OneLoopService.tell`."""

    @property
    def flags(self) -> list[str]:
        faults = [flag for fault in self.faults for flag in ("--sim-fault", orjson.dumps(fault).decode())]
        return [*faults, *self.engine_flags]


@dataclass(frozen=True, slots=True)
class RunningWorker:
    agent: Agent
    listening: Listening
    engine_port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.listening.http}"


@dataclass(frozen=True, slots=True)
class OneLoopService:
    """A running service and a client of it."""

    router: RouterApp
    client: UpstreamPool
    workers: Mapping[str, RunningWorker]
    front: str = ""
    """Where requests are sent, when that is not the router's own gateway."""
    tell: Callable[[Collection[str]], None] = lambda _: None
    """Tell the router that the service has the workers of these names and no others."""

    @property
    def address(self) -> str:
        return self.front or f"127.0.0.1:{self.router.http.port}"

    async def post(self, path: str, body: object, **headers: str) -> CollectingSink:
        """Ask the gateway, or what stands in front; underscores of header names are dashes."""
        return await call(self.client, self.address, path, body, **headers)

    def view(self, name: str) -> WorkerView:
        """Return what the router thinks of a worker."""
        return next(view for view in self.router.core.statistics().workers if view.worker_id == name)

    def health(self, name: str) -> Health:
        views = {view.worker_id: view.health for view in self.router.core.statistics().workers}
        return views.get(name, Health.UNKNOWN)

    def is_free(self, name: str) -> bool:
        """Say whether a worker is ready and idle; the first word of a ready one may be of its canary prompt."""
        return self.health(name) is Health.READY and self.view(name).in_flight == 0

    def has_a_place(self, request_id: str) -> bool:
        """Say whether a request was placed; a worker in use may have been so by an agent's canary prompt."""
        last = self.router.core.recent(64)
        return any(each.ask.request_id == request_id and each.outcome == PICK_OUTCOME_ROUTED for each in last)

    def at_rest(self) -> bool:
        """Say whether nothing is in force anywhere: no request, no load, nobody in the queue."""
        statistics = self.router.core.statistics()
        return (
            not any(service.in_flight or service.queued for service in statistics.services)
            and not any(view.in_flight for view in statistics.workers)
            and not any(worker.agent.jobs.live for worker in self.workers.values())
        )


async def call(pool: UpstreamPool, address: str, path: str, body: object, **headers: str) -> CollectingSink:
    """Send one request and wait for its end; a body of None is a GET."""
    sink = CollectingSink()
    pairs = tuple((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items())
    method, raw = (b"GET", b"") if body is None else (b"POST", body if isinstance(body, bytes) else orjson.dumps(body))
    fields = Headers(((b"host", address.encode()), (b"content-type", b"application/json"), *pairs))
    target, _, query = path.encode().partition(b"?")
    pool.send(address, Request(method, target, query, fields, raw), sink, silence_s=40)
    return await sink.wait()


@asynccontextmanager
async def one_loop_service(
    folder: Path, specs: Sequence[WorkerSpec], *, config: Mapping[str, Any] | None = None
) -> AsyncGenerator[OneLoopService]:
    """Run the service until the block is left; when it begins, every expected worker is ready for the router and free.

    The mode is disaggregated if there is a prefill worker.
    """
    async with AsyncExitStack() as stack:
        workers = {spec.name: await stack.enter_async_context(_worker(folder, spec)) for spec in specs}
        file = folder / "catalogue.json"

        def tell(names: Collection[str]) -> None:
            told = _catalogue([spec for spec in specs if spec.name in names], workers)
            replacing = file.with_suffix(".new")
            replacing.write_text(told.model_dump_json(by_alias=True), "utf-8")
            replacing.replace(file)

        tell([spec.name for spec in specs if spec.listed])
        settings = replace(RouterConfig(Discovery(file), folder / "cache", listen=QUIET), **(config or {}))
        router = await stack.enter_async_context(running_router(settings))
        client = UpstreamPool()
        stack.push_async_callback(client.close)
        service = OneLoopService(router, client, workers, tell=tell)
        await until(lambda: all(service.is_free(spec.name) for spec in specs if spec.expected and spec.listed))
        yield service


@asynccontextmanager
async def _worker(folder: Path, spec: WorkerSpec) -> AsyncGenerator[RunningWorker]:
    changes = {"model_path": model_folder("builtin"), **spec.changes}
    async with AsyncExitStack() as stack:
        if spec.own_process:
            _, port = await stack.enter_async_context(engine_process(folder, spec.role, spec.name, flags=spec.flags))
        else:
            port = (await stack.enter_async_context(engine(folder, spec.role, spec.name, flags=spec.flags))).port
        beside = agent_beside(
            folder, spec.role, spec.name, port, changes=changes, periods=spec.periods, wait=spec.expected
        )
        agent, listening = await stack.enter_async_context(beside)
        yield RunningWorker(agent, listening, port)


def _catalogue(specs: Sequence[WorkerSpec], workers: Mapping[str, RunningWorker]) -> Catalogue:
    handed_over = any(spec.role is Role.PREFILL for spec in specs)
    mode = RoutingMode.DISAGGREGATED if handed_over else RoutingMode.AGGREGATED
    return Catalogue(
        generation=1,
        services=(CatalogueService(name="s", served_names=(MODEL, ALIAS), mode=mode, expose_headers=True),),
        workers=tuple(
            CatalogueWorker(
                worker_id=spec.name,
                service="s",
                pool=spec.role.value,
                role=WorkerRole(spec.role.value),
                revision=spec.revision,
                http_address=workers[spec.name].address,
                stream_address=f"127.0.0.1:{workers[spec.name].listening.stream}",
            )
            for spec in specs
        ),
    )


Scenario = Callable[[OneLoopService], Awaitable[None]]


def in_one_loop(folder: Path, specs: Sequence[WorkerSpec], scenario: Scenario) -> None:
    """Run a scenario against a service of its own."""

    async def main() -> None:
        async with one_loop_service(folder, specs) as service:
            await scenario(service)

    uvloop.run(main())


async def reference_answers(folder: Path, path: str, bodies: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what an engine that nothing is wrong with says when it does everything itself."""
    client = UpstreamPool()
    try:
        async with engine(folder, Role.DECODE, "reference") as server:
            answers = [await call(client, f"127.0.0.1:{server.port}", path, body) for body in bodies]
    finally:
        await client.close()
    return [text_of(answer) for answer in answers]


def text_of(answer: CollectingSink) -> str:
    """Return an answer's text, streamed or whole; anything but a whole, successful answer is an error."""
    if answer.head is None or answer.head.status != 200:  # noqa: PLR2004 - HTTP
        raise AssertionError(f"no successful answer: {answer.failure} {answer.head} {answer.body!r}")
    if not answer.body.startswith(b"data:"):
        choice = orjson.loads(answer.body)["choices"][0]
        return str(choice["message"]["content"] if "message" in choice else choice["text"])
    if not answer.body.endswith(b"data: [DONE]\n\n"):
        raise AssertionError(f"a stream without its end: {answer.body[-300:]!r}")
    return streamed_text(answer.body)


def streamed_text(body: bytes) -> str:
    """Join the text of a stream's events, as far as they came."""
    events = [line.removeprefix(b"data: ") for line in body.split(b"\n\n") if line.startswith(b"data: {")]
    return "".join(_text_of_event(orjson.loads(event)) for event in events)


def _text_of_event(event: dict[str, Any]) -> str:
    choices: list[dict[str, Any]] = event.get("choices") or [{}]
    delta: dict[str, Any] = choices[0].get("delta") or {}
    return str(delta.get("content") or choices[0].get("text") or "")
