import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from inferplane_api.proto import worker_pb2 as pb
from inferplane_runtime.http.client import UpstreamPool
from inferplane_workers.agent.app import Agent
from inferplane_workers.agent.config import Role
from inferplane_workers.agent.gate import Phase
from inferplane_workers.testing import MODEL, QUICK, agent_config, ask, engine, until, until_phase, worker

pytestmark = pytest.mark.slow

BODY = {"model": MODEL, "prompt": "one two three four five six seven eight nine ten " * 10, "max_tokens": 4}


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(50):
            await scenario()

    asyncio.run(bounded())


def fault(**fields: object) -> tuple[str, str]:
    return "--sim-fault", orjson.dumps(fields).decode()


def test_an_engine_that_ends_is_noticed_and_its_successor_is_taken_up_in_a_new_epoch(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as outer, UpstreamUse() as pool:
            first = AsyncExitStack()
            server = await first.enter_async_context(engine(tmp_path, Role.DECODE, "d0"))
            port = server.port
            agent = Agent(agent_config(tmp_path, Role.DECODE, "d0", port), periods=QUICK)
            listening = await outer.enter_async_context(agent.running())
            await until_phase(agent, Phase.READY)
            await ask(pool, f"127.0.0.1:{listening.http}", "/v1/completions", BODY)
            await until(lambda: agent.blocks.ranks[0].blocks > 5)
            before = agent.blocks.ranks[0].blocks
            epoch, start = agent.announcer.hub.epoch, agent.announcer.identity.engine_start
            await first.aclose()
            await until_phase(agent, Phase.FAILED)
            refused = await ask(pool, f"127.0.0.1:{listening.http}", "/v1/completions", BODY)
            await outer.enter_async_context(engine(tmp_path, Role.DECODE, "d0", flags=("--port", str(port))))
            await until_phase(agent, Phase.READY)

            assert refused.status == 503
            assert refused.headers.get(b"x-inferplane-retry") == b"1"
            assert agent.announcer.hub.epoch != epoch
            assert agent.announcer.identity.engine_start != start
            await until(lambda: agent.blocks.ranks[0].blocks < before)  # what the canary left

    run(scenario)


class UpstreamUse:
    async def __aenter__(self) -> UpstreamPool:
        self.pool = UpstreamPool()
        return self.pool

    async def __aexit__(self, *_: object) -> None:
        await self.pool.close()


def test_an_engine_that_takes_requests_and_does_no_work_is_found_hung(tmp_path: Path) -> None:
    async def scenario() -> None:
        changes = {"hang_timeout": 0.3, "canary": False}
        hang = fault(kind="hang", at_request=1)
        async with worker(tmp_path, Role.DECODE, "d0", flags=hang, changes=changes) as hung, UpstreamUse() as pool:
            answer = await ask(pool, hung.address, "/v1/completions", BODY)

            assert answer.status == 502
            assert answer.headers.get(b"x-inferplane-retry") == b"1"

    run(scenario)


def test_a_wrong_canary_keeps_the_gate_shut(tmp_path: Path) -> None:
    async def scenario() -> None:
        changes = {"canary_expect": "something else"}
        async with worker(tmp_path, Role.DECODE, "d0", changes=changes, wait=False) as wrong, UpstreamUse() as pool:
            await until_phase(wrong.agent, Phase.FAILED)
            answer = await ask(pool, wrong.address, "/v1/completions", BODY)

            assert answer.status == 503
            assert wrong.agent.announcer.status.canary == pb.CANARY_FAILED
            assert "canary" in wrong.agent.announcer.status.detail

    run(scenario)


def test_the_first_answer_is_remembered_and_asked_for_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with worker(tmp_path, Role.DECODE, "d0"):
            pass
        state = tmp_path / "d0.state"
        (remembered,) = state.glob("canary-*.json")
        async with worker(tmp_path, Role.DECODE, "d0"):
            pass
        changed = {**orjson.loads(remembered.read_bytes()), "answer": "as it never was"}
        remembered.write_bytes(orjson.dumps(changed))
        async with worker(tmp_path, Role.DECODE, "d0", wait=False) as wrong:
            await until_phase(wrong.agent, Phase.FAILED)

    run(scenario)


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        pytest.param("lost-events", pb.KV_EVENTS_OK, id="replay closes the gap"),
        pytest.param("duplicate-events", pb.KV_EVENTS_OK, id="duplicates are harmless"),
        pytest.param("forgotten-events", pb.KV_EVENTS_SUSPECT, id="a gap that nobody can close"),
        pytest.param("wrong-events", pb.KV_EVENTS_SUSPECT, id="events that do not fit together"),
    ],
)
def test_faults_of_block_events_are_closed_or_said(tmp_path: Path, kind: str, state: int) -> None:
    async def scenario() -> None:
        flags = fault(kind=kind, probability=0.5)
        async with worker(tmp_path, Role.DECODE, "d0", flags=flags) as faulty, UpstreamUse() as pool:
            for number in range(20):
                body = {**BODY, "prompt": f"{number} {BODY['prompt']}", "max_tokens": 40}
                await ask(pool, faulty.address, "/v1/completions", body)
            await until(lambda: faulty.agent.announcer.status.kv_events == state)
            if state == pb.KV_EVENTS_OK:
                await until(lambda: faulty.agent.blocks.ranks[0].blocks > 20)

    run(scenario)


def test_a_block_size_that_contradicts_the_engine_is_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with worker(tmp_path, Role.DECODE, "d0", changes={"block_size": 32}, wait=False) as wrong:
            await until_phase(wrong.agent, Phase.FAILED)

            assert "--block-size says 32" in wrong.agent.announcer.status.detail

    run(scenario)


def test_a_drain_waits_for_what_runs_and_for_what_is_still_pulled(tmp_path: Path) -> None:
    async def scenario() -> None:
        slow = ("--sim-speed", "2")
        async with worker(tmp_path, Role.PREFILL, "p0", flags=slow) as draining, UpstreamUse() as pool:
            agent = draining.agent
            agent.transfers.offered("r9", asyncio.get_running_loop().time())
            running = asyncio.create_task(ask(pool, draining.address, "/v1/completions", {**BODY, "max_tokens": 20}))
            await until(lambda: bool(agent.jobs.live))
            drained = asyncio.create_task(ask(pool, draining.address, "/drain", {}))
            await until(lambda: agent.gate.refusal() is not None)
            refused = await ask(pool, draining.address, "/v1/completions", BODY)
            answer = await running
            waits = not drained.done()
            await ask(pool, draining.address, "/handoff/r9", {"state": "pulled"})
            left = await drained

            assert refused.status == 503
            assert answer.status == 200
            assert waits
            assert orjson.loads(left.body) == {"requests": 0, "transfers": 0}

    run(scenario)


def test_a_drain_ends_when_its_time_is_up_and_says_what_is_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with worker(tmp_path, Role.PREFILL, "p0", changes={"drain_timeout": 0.2}) as w, UpstreamUse() as pool:
            w.agent.transfers.offered("r9", asyncio.get_running_loop().time())
            left = await ask(pool, w.address, "/drain", {})

            assert orjson.loads(left.body) == {"requests": 0, "transfers": 1}

    run(scenario)


def test_an_agent_that_restarts_beside_its_engine_knows_its_blocks(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "start").touch()
        async with engine(tmp_path, Role.DECODE, "d0") as server, UpstreamUse() as pool:
            config = replace(
                agent_config(tmp_path, Role.DECODE, "d0", server.port), engine_start_file=tmp_path / "start"
            )
            first = Agent(config, periods=QUICK)
            async with first.running() as listening:
                await until_phase(first, Phase.READY)
                await ask(pool, f"127.0.0.1:{listening.http}", "/v1/completions", BODY)
                await until(lambda: bool(first.blocks.ranks[0].blocks))
                blocks, expected = first.blocks.ranks[0].blocks, first.blocks.ranks[0].expected
            second = Agent(replace(config, kv_replay="", canary=False), periods=QUICK)
            async with second.running():
                await until_phase(second, Phase.READY)

                assert (second.blocks.ranks[0].blocks, second.blocks.ranks[0].expected) == (blocks, expected)

    run(scenario)


def test_an_engine_whose_cache_may_be_emptied_is_known_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        flags = fault(kind="forgotten-events", after_s=1.0)
        changes = {"kv_reset": True}
        async with worker(tmp_path, Role.DECODE, "d0", flags=flags, changes=changes) as faulty, UpstreamUse() as pool:
            status = faulty.agent.announcer.status
            for number in range(100):
                body = {**BODY, "prompt": f"{number} {BODY['prompt']}", "max_tokens": 40}
                await ask(pool, faulty.address, "/v1/completions", body)
                if status.kv_events == pb.KV_EVENTS_SUSPECT:
                    break
            await until(lambda: status.kv_events == pb.KV_EVENTS_OK)

    run(scenario)
