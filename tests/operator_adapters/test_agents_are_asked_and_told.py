"""The shell of adapters: bounded, patient with failures, and the same over HTTP as over fakes."""

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import httpx
import pytest

from inferplane_operator.adapters import AdapterRound, AgentAdapters, Exchange, HttpAgentAdapters
from inferplane_operator.adapters.testing import FakeAgents
from inferplane_operator.reconcile.adapter import AdapterWorker, Reported, UnloadAdapter, WantedAdapter
from inferplane_operator.reconcile.values import Observed, Outcome
from inferplane_operator.render.adapter_need import ANNOTATION, AdapterNeed, Place, PlaceKind
from inferplane_runtime.http.api import Limits
from inferplane_runtime.http.server import HttpServer
from inferplane_workers.agent.adapter_routes import AdapterRoutes
from inferplane_workers.agent.adapters import Adapters, Load

ROOM = AdapterNeed(2, 16, (Place(PlaceKind.FOLDER, "/srv/adapters"),))
ONE = WantedAdapter("a", "team/a", "1", 8, path="/srv/adapters/a")
W1, W2 = "10.0.0.1:8102", "10.0.0.2:8102"


def observed(*adapters: dict[str, Any]) -> Observed:
    service = {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "demo", "namespace": "default"},
        "spec": {"model": {"name": "m"}, "engine": {"type": "sim"}, "decode": {}},
    }
    return Observed(service=service, adapters=adapters, pods=[pod("w1"), pod("w2")], now="2026-01-01T00:00:00Z")


def pod(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": {ANNOTATION: ROOM.annotation}},
        "status": {"podIP": f"10.0.0.{name[-1]}", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def adapter(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "LoRAAdapter",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"service": "demo", "source": {"path": f"/srv/adapters/{name}"}},
    }


class Bench:
    """Two workers and a clock."""

    def __init__(self) -> None:
        self.agents = FakeAgents(W1, W2)
        self.time = 0.0
        self.exchange = Exchange(self.agents, now=lambda: self.time)
        self.adapters = AdapterRound(self.exchange)

    async def run(self, *adapters: dict[str, Any]) -> Outcome:
        return await self.adapters.run(observed(*adapters))

    def told(self, address: str = W1) -> list[str]:
        said, self.agents.at[address].told = self.agents.at[address].told, []
        return said


def run(scenario: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await scenario(Bench())

    asyncio.run(bounded())


def test_a_round_loads_and_then_looks_again_now_and_then() -> None:
    async def scenario(bench: Bench) -> None:
        first = await bench.run(adapter("a"))
        second = await bench.run(adapter("a"))

        assert bench.told() == bench.told(W2) == ["+a"]
        assert (first.again_in_s, second.again_in_s) == (1.0, 60.0)

    run(scenario)


def test_a_service_without_adapters_whose_workers_have_none_costs_nothing() -> None:
    async def scenario(bench: Bench) -> None:
        bare = observed()
        for each in bare.pods:
            each["metadata"]["annotations"].clear()

        assert await bench.adapters.run(bare) == Outcome()

    run(scenario)


def test_failures_are_tried_again_with_growing_pauses() -> None:
    async def scenario(bench: Bench) -> None:
        bench.agents.at[W1].broken["a"] = "no such folder"
        tries: list[float] = []
        for _ in range(700):
            await bench.run(adapter("a"))
            tries += [bench.time] * len(bench.told())
            bench.time += 1.0
        pauses = [later - earlier for earlier, later in pairwise(tries)]

        assert bench.told(W2) == ["+a"]
        assert pauses == sorted(pauses)
        assert pauses[0] >= 2
        assert pauses[-1] >= 250

    run(scenario)


def test_a_load_that_works_at_last_begins_anew() -> None:
    async def scenario(bench: Bench) -> None:
        agent = bench.agents.at[W1]
        agent.broken["a"] = "busy"
        await bench.run(adapter("a"))
        await bench.run(adapter("a"))
        assert {attempt[:2] for attempt in bench.exchange.resting()} == {("w1", "a")}
        agent.broken.clear()
        bench.time += 10.0
        await bench.run(adapter("a"))
        await bench.run(adapter("a"))

        assert not bench.exchange.resting()

    run(scenario)


def test_workers_that_are_gone_are_forgotten() -> None:
    async def scenario(bench: Bench) -> None:
        bench.agents.at[W1].broken["a"] = "busy"
        await bench.run(adapter("a"))
        await bench.run(adapter("a"))
        bench.adapters.forget("default", "demo")

        assert not bench.exchange.resting()

    run(scenario)


def test_an_agent_that_is_away_is_asked_again_soon() -> None:
    async def scenario(bench: Bench) -> None:
        bench.agents.at[W2].away = "its agent does not answer (ConnectError)"
        await bench.run(adapter("a"))
        outcome = await bench.run(adapter("a"))

        assert bench.told(W2) == []
        assert outcome.again_in_s == 5.0

    run(scenario)


# Both implementations of the seam.


@asynccontextmanager
async def over_http() -> AsyncGenerator[tuple[AgentAdapters, str]]:
    def at_once() -> None:
        if isinstance(step := state.next_step(), Load):
            state.loaded(step.wish)

    state = Adapters(limit=2, reserved=("m",), on_change=at_once)
    state.engine_started(())
    server = HttpServer(AdapterRoutes(state, max_rank=16), limits=Limits())
    await server.start("127.0.0.1", 0)
    async with httpx.AsyncClient(trust_env=False) as client:
        yield HttpAgentAdapters(client), f"127.0.0.1:{server.port}"
    server.close()


@asynccontextmanager
async def over_fakes() -> AsyncGenerator[tuple[AgentAdapters, str]]:
    yield FakeAgents("here"), "here"


BOTH = pytest.mark.parametrize("reach", [over_http, over_fakes])


@BOTH
def test_what_was_loaded_is_listed_until_it_is_unloaded(reach: Any) -> None:
    async def scenario() -> None:
        async with reach() as (agents, address):
            assert await agents.load(address, ONE) == ""
            listed = await agents.list(address)
            assert [(each.name, each.state, each.serving) for each in listed.adapters] == [
                ("team/a", Reported.LOADED, "1")
            ]
            assert listed.adapters[0].is_of(ONE)
            assert await agents.unload(address, "team/a") == ""
            assert await agents.unload(address, "team/a") == ""
            assert not (await agents.list(address)).adapters

    asyncio.run(scenario())


@BOTH
def test_nobody_there_is_an_answer(reach: Any) -> None:
    async def scenario() -> None:
        async with reach() as (agents, _):
            assert "does not answer" in (await agents.list("127.0.0.1:1")).problem

    asyncio.run(scenario())


def test_a_refusal_comes_in_the_agents_words() -> None:
    async def scenario() -> None:
        async with over_http() as (agents, address):
            too_wide = WantedAdapter("b", "b", "1", 64, path="/srv/adapters/b")
            reserved = WantedAdapter("m", "m", "1", 8, path="/srv/adapters/m")

            assert await agents.load(address, too_wide) == "rank 64 is more than the 16 of this worker"
            assert "name of the model itself" in await agents.load(address, reserved)

    asyncio.run(scenario())


def test_who_waits_for_a_slot_and_is_cancelled_leaves_nothing_unawaited() -> None:
    async def scenario() -> None:
        agents = FakeAgents(W1, W2)
        call = UnloadAdapter(AdapterWorker("w1", W1), "a")
        told = asyncio.get_running_loop().create_task(Exchange(agents, now=lambda: 0.0, at_once=1).tell([call] * 3))
        await asyncio.sleep(0)
        told.cancel()
        await asyncio.wait([told])

    asyncio.run(scenario())
    gc.collect()  # a coroutine that was never awaited would warn here, and warnings are errors
