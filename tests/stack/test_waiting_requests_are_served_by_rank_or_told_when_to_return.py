"""A worker without room: who is more important goes first, and who cannot be in time is told when to come back."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import uvloop

from envoy_front import WITH_PICKER, behind_envoy
from inferplane_runtime.http.testing import CollectingSink
from inferplane_workers.agent.config import Role
from inferplane_workers.testing import until
from one_loop_service import OneLoopService, WorkerSpec, one_loop_service, text_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
TEXT = "/v1/completions"
ONE_AT_A_TIME = WorkerSpec("d0", Role.DECODE, engine_flags=["--max-num-seqs", "1"], changes={"max_num_seqs": 1})
Front = Callable[[OneLoopService, Path], Any]


def ask(number: int, **fields: Any) -> dict[str, Any]:
    return {"model": "tiny", "prompt": f"number {number}", "max_tokens": 4, "ignore_eos": True, **fields}


@asynccontextmanager
async def gateway(service: OneLoopService, _: Path) -> AsyncGenerator[OneLoopService]:
    yield service


def through(folder: Path, front: Front, scenario: Callable[[OneLoopService], Awaitable[None]]) -> None:
    async def main() -> None:
        async with (
            one_loop_service(folder, [ONE_AT_A_TIME], config=WITH_PICKER) as service,
            front(service, folder) as fronted,
        ):
            await scenario(fronted)
            await until(service.at_rest)

    uvloop.run(main())


def queued(service: OneLoopService) -> int:
    return service.router.core.statistics().services[0].queued


def error_of(answer: CollectingSink) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(answer.body)["error"]
    return found


@pytest.mark.parametrize("front", [gateway, behind_envoy], ids=["gateway", "envoy"])
def test_the_more_important_one_goes_first(tmp_path: Path, front: Front) -> None:
    async def scenario(service: OneLoopService) -> None:
        async def send(name: str, body: dict[str, Any], **headers: str) -> None:
            text_of(await service.post(TEXT, body, x_request_id=name, **headers))

        async with asyncio.TaskGroup() as group:
            group.create_task(send("has-the-place", ask(0, max_tokens=2000)))
            await until(lambda: service.has_a_place("has-the-place"))
            group.create_task(send("usual", ask(1)))
            await until(lambda: queued(service) == 1)
            group.create_task(send("important", ask(2), x_inferplane_priority="10"))
            await until(lambda: queued(service) == 2)
        # In the order of their placing: a long answer may reach its client after the short one that came next.
        placed = [decision.ask.request_id for decision in service.router.core.recent(3)]

        assert placed == ["usual", "important", "has-the-place"]

    through(tmp_path, front, scenario)


@pytest.mark.parametrize("front", [gateway, behind_envoy], ids=["gateway", "envoy"])
def test_who_cannot_be_in_time_is_told_when_to_come_back(tmp_path: Path, front: Front) -> None:
    async def scenario(service: OneLoopService) -> None:
        for number in range(10):  # so many that the pace is known
            text_of(await service.post(TEXT, ask(number)))
        await until(service.at_rest)
        async with asyncio.TaskGroup() as group:
            has = group.create_task(service.post(TEXT, ask(0, max_tokens=2000), x_request_id="has-the-place"))
            await until(lambda: service.has_a_place("has-the-place"))
            hurried = await service.post(TEXT, ask(1), x_inferplane_ttft_ms="0.01")

            assert hurried.head is not None
            assert hurried.head.status == 429
            assert 1 <= int(hurried.head.headers.get(b"retry-after") or 0) <= 60
            assert error_of(hurried)["code"] == "deadline"

        text_of(has.result())

    through(tmp_path, front, scenario)
