"""A simulated engine's answers depend on the KV it really holds, so a wrong hand-off gives other words."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from inferplane_api.proto import worker_pb2 as pb
from inferplane_engine.identity import KeySpace, hash_blocks, seed
from inferplane_runtime.http.api import Response
from inferplane_runtime.http.client import UpstreamPool
from inferplane_workers.agent import wire
from inferplane_workers.agent.config import Role
from inferplane_workers.agent.stream_hub import Expected
from inferplane_workers.testing import BLOCK_SIZE, MODEL, Worker, ask, until, worker

pytestmark = pytest.mark.slow

TEXT = "The quick brown fox jumps over the lazy dog and does not look back. " * 8
BODY = {"model": MODEL, "prompt": TEXT, "max_tokens": 12, "temperature": 0}


@dataclass
class Pair:
    pool: UpstreamPool
    prefill: list[Worker]
    decode: Worker

    async def complete(self, body: object = BODY, *, request_id: str = "r1", prefill: str | None = None) -> Response:
        addresses = ",".join(worker.address for worker in self.prefill) if prefill is None else prefill
        headers = [("x-request-id", request_id)]
        if addresses:
            headers.append(("x-inferplane-prefill", addresses))
        return await ask(self.pool, self.decode.address, "/v1/completions", body, headers=headers)


@asynccontextmanager
async def pair(folder: Path, *, prefill_flags: tuple[tuple[str, ...], ...] = ((),)) -> AsyncGenerator[Pair]:
    async with AsyncExitStack() as stack:
        prefill = [
            await stack.enter_async_context(
                worker(folder, Role.PREFILL, f"p{number}", flags=flags, changes={"canary": not flags})
            )
            for number, flags in enumerate(prefill_flags)
        ]
        decode = await stack.enter_async_context(worker(folder, Role.DECODE, "d0"))
        pool = UpstreamPool()
        try:
            yield Pair(pool, prefill, decode)
        finally:
            await pool.close()


def whole(workers: Pair) -> Coroutine[Any, Any, Response]:
    """What one engine answers alone."""
    return ask(workers.pool, f"127.0.0.1:{workers.prefill[-1].engine.port}", "/v1/completions", BODY)


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(40):
            await scenario()

    asyncio.run(bounded())


def text_of(answer: Response) -> str:
    assert answer.status == 200, answer.body
    text = orjson.loads(answer.body)["choices"][0]["text"]
    assert isinstance(text, str)
    return text


def test_a_handed_off_answer_equals_an_aggregated_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with pair(tmp_path) as workers:
            handed = await workers.complete()
            alone = await whole(workers)

            assert text_of(handed) == text_of(alone)
            assert handed.headers.get(b"x-inferplane-prefill-worker") == b"p0"
            assert workers.prefill[0].agent.transfers.outstanding(0.0) == 0

    run(scenario)


def test_a_chat_stream_is_handed_off_and_carries_no_usage_of_ours(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with pair(tmp_path) as workers:
            body = {
                "model": MODEL,
                "messages": [{"role": "user", "content": TEXT}],
                "max_tokens": 6,
                "temperature": 0,
                "stream": True,
            }
            headers = [("x-inferplane-prefill", workers.prefill[0].address), ("x-request-id", "r1")]
            answer = await ask(workers.pool, workers.decode.address, "/v1/chat/completions", body, headers=headers)
            direct = await ask(workers.pool, f"127.0.0.1:{workers.decode.engine.port}", "/v1/chat/completions", body)

            assert answer.status == 200
            assert b'"usage"' not in answer.body
            assert deltas(answer.body) == deltas(direct.body)

    run(scenario)


def deltas(stream: bytes) -> list[Any]:
    chunks = [line.removeprefix(b"data: ") for line in stream.split(b"\n\n") if line.startswith(b"data: {")]
    return [orjson.loads(chunk)["choices"] for chunk in chunks]


@pytest.mark.parametrize("kind", ["error", "refuse"])
def test_a_prefill_engine_that_fails_is_replaced_by_the_next(tmp_path: Path, kind: str) -> None:
    broken = ("--sim-fault", orjson.dumps({"kind": kind, "probability": 1.0}).decode())

    async def scenario() -> None:
        async with pair(tmp_path, prefill_flags=(broken, ())) as workers:
            handed = await workers.complete()
            alone = await whole(workers)

            assert handed.headers.get(b"x-inferplane-prefill-worker") == b"p1"
            assert text_of(handed) == text_of(alone)

    run(scenario)


def test_a_prefill_engine_that_is_gone_half_way_is_replaced_by_the_decode_engine(tmp_path: Path) -> None:
    hang = ("--sim-fault", '{"kind": "hang", "at_request": 1}')

    async def scenario() -> None:
        async with pair(tmp_path, prefill_flags=(hang,)) as workers:
            handed = asyncio.create_task(workers.complete())
            prefill = workers.prefill[0]
            await until(lambda: bool(prefill.agent.jobs.live))
            prefill.engine.http.close()
            answer = await handed

            assert answer.status == 200
            assert answer.headers.get(b"x-inferplane-prefill-worker") is None

    run(scenario)


def test_without_any_prefill_worker_the_decode_engine_prefills(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with pair(tmp_path) as workers:
            local = await workers.complete(prefill="127.0.0.1:1")
            alone = await whole(workers)

            assert local.headers.get(b"x-inferplane-prefill-worker") is None
            assert text_of(local) == text_of(alone)

    run(scenario)


def test_forged_transfer_parameters_do_not_kill_an_engine(tmp_path: Path) -> None:
    forged = {
        "do_remote_prefill": True,
        "remote_block_ids": [[1, 2, 3]],
        "remote_engine_id": "nobody",
        "remote_request_id": "x",
        "remote_host": "127.0.0.1",
        "remote_port": 1,
    }

    async def scenario() -> None:
        async with pair(tmp_path) as workers:
            answer = await workers.complete({**BODY, "kv_transfer_params": forged}, prefill="")
            again = await workers.complete({**BODY, "vllm_xargs": {"kv_transfer_params": "x"}}, request_id="r2")

            assert text_of(answer) == text_of(again)
            assert not workers.decode.engine.died.done()

    run(scenario)


def test_subscribers_learn_the_very_hashes_that_a_router_computes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with pair(tmp_path) as workers:
            await workers.complete(prefill="")
            chain = await router_chain(workers)
            await until(lambda: held(workers.decode) >= set(chain))

            assert len(chain) > 1

    run(scenario)


def test_the_decode_sides_own_hits_are_seen_in_its_events(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with pair(tmp_path) as workers:
            chain = await router_chain(workers)
            hub = workers.decode.agent.announcer.hub
            planner = hub.join(epoch=1, wants_blocks=False, wake=lambda: None)
            asked = {"r1", "r2"}  # what `router_chain` asked is reported as well
            seen: list[pb.RequestReport] = []

            def collect() -> int:
                messages = [pb.WorkerMessage.FromString(raw) for raw in planner.take(0.0)]
                reports = [message.report for message in messages if message.HasField("report")]
                seen.extend(report for report in reports if report.request_id in asked)
                return len(seen)

            for number in (1, 2):
                hub.expect(f"r{number}", Expected(0, wire.pack(chain), None))
                text_of(await workers.complete(request_id=f"r{number}"))
                await until(lambda: collect() == number)  # noqa: B023 - awaited at once
            prompt = seen[0].prompt_tokens
            reusable = (prompt - 1) // BLOCK_SIZE * BLOCK_SIZE

            assert [report.decode_cached_tokens for report in seen] == [0, reusable]
            assert [report.transferred_tokens for report in seen] == [prompt, prompt - reusable]
            assert [report.cached_tokens for report in seen] == [0, reusable]
            assert all(report.decode_cached_tokens_known for report in seen)

    run(scenario)


async def router_chain(workers: Pair) -> list[int]:
    answer = await ask(workers.pool, workers.decode.address, "/tokenize", {"model": MODEL, "prompt": TEXT})
    tokens = np.array(orjson.loads(answer.body)["tokens"], np.int32)
    space = KeySpace(MODEL, "r1", BLOCK_SIZE)
    hashes: list[int] = hash_blocks(tokens, BLOCK_SIZE, seed(space)).tolist()
    return hashes


def held(worker: Worker) -> set[int]:
    return {hashed for _, packed in worker.agent.announcer.planes() for hashed in wire.unpack(packed)}
