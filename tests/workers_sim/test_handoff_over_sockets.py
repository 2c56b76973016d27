"""Two servers hand a request over as two vLLM engines with NIXL would."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from inferplane_workers.sim.testing import Sim, serving

MESSAGES = [{"role": "user", "content": "Tell me something about rivers and the sea."}]
CHAT = "/v1/chat/completions"


def flags(role: str, policy: str = "fail", *more: str) -> tuple[str, ...]:
    config = f'{{"kv_connector":"NixlConnector","kv_role":"{role}","kv_load_failure_policy":"{policy}"}}'
    return ("--kv-transfer-config", config, *more)


@dataclass(frozen=True, slots=True)
class Pair:
    prefill: Sim
    decode: Sim

    async def first_half(self, **more: Any) -> dict[str, Any]:
        params = {"do_remote_decode": True, "do_remote_prefill": False}
        answer = await self.prefill.json(CHAT, messages=MESSAGES, max_tokens=1, kv_transfer_params=params, **more)
        handed: dict[str, Any] = answer["kv_transfer_params"]
        return handed

    async def second_half(self, handed: dict[str, Any], **more: Any) -> dict[str, Any]:
        return await self.decode.json(
            CHAT, messages=MESSAGES, max_tokens=24, ignore_eos=True, kv_transfer_params=handed, **more
        )


@asynccontextmanager
async def pair(
    *, policy: str = "fail", prefill: tuple[str, ...] = (), decode: tuple[str, ...] = ()
) -> AsyncGenerator[Pair]:
    async with AsyncExitStack() as stack:
        yield Pair(
            await stack.enter_async_context(serving(*flags("kv_producer", policy), *prefill)),
            await stack.enter_async_context(serving(*flags("kv_consumer", policy), *decode)),
        )


async def aggregated(*more: str) -> str:
    async with serving(*more) as sim:
        answer = await sim.json(CHAT, messages=MESSAGES, max_tokens=24, ignore_eos=True)
        return str(answer["choices"][0]["message"]["content"])


def text(answer: dict[str, Any]) -> str:
    return str(answer["choices"][0]["message"]["content"])


@pytest.mark.parametrize(
    "more", [(), ("--sim-sliding-window", "32", "--max-model-len", "8192")], ids=["full", "hybrid"]
)
def test_the_answer_is_the_aggregated_one_and_nothing_is_computed_twice(more: tuple[str, ...]) -> None:
    async def main() -> None:
        async with pair(prefill=more, decode=more) as engines:
            handed = await engines.first_half()
            answer = await engines.second_half(handed)
            prompt = answer["usage"]["prompt_tokens"]

            assert text(answer) == await aggregated(*more)
            metric = "vllm:prompt_tokens_by_source_total"
            assert await engines.decode.metric(metric, source='source="external_kv_transfer"') == prompt
            assert await engines.decode.metric(metric, source='source="local_compute"') == 0

    asyncio.run(main())


def test_the_consumer_reports_the_producers_cached_tokens() -> None:
    async def main() -> None:
        async with pair() as engines:
            first = await engines.second_half(await engines.first_half())
            handed = await engines.first_half()
            second = await engines.second_half(handed)
            details = [answer["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in (first, second)]

            assert details == [0, (first["usage"]["prompt_tokens"] - 1) // 16 * 16]
            assert handed["remote_prefill_cached_tokens"] == details[1]

    asyncio.run(main())


def test_the_producer_frees_its_blocks_once_they_are_pulled() -> None:
    async def main() -> None:
        async with pair() as engines:
            handed = await engines.first_half()
            assert await engines.prefill.metric("vllm:kv_cache_usage_perc") > 0
            await engines.second_half(handed)
            for _ in range(200):
                if await engines.prefill.metric("vllm:kv_cache_usage_perc") == 0:
                    return
            raise AssertionError("the blocks are still held")

    asyncio.run(main())


@pytest.mark.parametrize(
    "forgery",
    [
        {"remote_engine_id": "another"},
        {"remote_request_id": "another"},
        {"remote_block_ids": [[1]]},
        {"remote_block_ids": [[901, 902, 903, 904, 905]]},
    ],
    ids=["engine", "request", "few-blocks", "other-blocks"],
)
def test_forged_parameters_kill_the_engine(forgery: dict[str, object]) -> None:
    async def main() -> None:
        async with pair() as engines:
            handed = await engines.first_half() | forgery
            request = asyncio.ensure_future(engines.decode.post(CHAT, messages=MESSAGES, kv_transfer_params=handed))
            async with asyncio.timeout(30):
                reason = await engines.decode.server.died
            engines.decode.server.service.reset_all()

            assert "transfer of" in reason
            assert (await request).status_code == 500
            assert (await engines.decode.client.get("/health")).status_code == 503

    asyncio.run(main())


def test_parameters_used_twice_kill_the_engine() -> None:
    async def main() -> None:
        async with pair(decode=("--no-enable-prefix-caching",)) as engines:
            handed = await engines.first_half()
            await engines.second_half(handed)
            for _ in range(200):
                if await engines.prefill.metric("vllm:kv_cache_usage_perc") == 0:
                    break
            request = asyncio.ensure_future(engines.decode.post(CHAT, messages=MESSAGES, kv_transfer_params=handed))
            async with asyncio.timeout(30):
                reason = await engines.decode.server.died
            engines.decode.server.service.reset_all()
            await request

            assert "not held" in reason

    asyncio.run(main())


def test_a_producer_that_is_gone_fails_the_request_or_is_done_without() -> None:
    async def main(policy: str) -> tuple[int, str]:
        async with serving(*flags("kv_consumer", policy)) as decode:
            async with serving(*flags("kv_producer")) as prefill:
                handed = await Pair(prefill, decode).first_half()
            answer = await decode.post(
                CHAT, messages=MESSAGES, max_tokens=24, ignore_eos=True, kv_transfer_params=handed
            )
            body = answer.json()
            return answer.status_code, body["error"]["message"] if "error" in body else text(body)

    assert asyncio.run(main("recompute")) == (200, asyncio.run(aggregated()))
    status, message = asyncio.run(main("fail"))
    assert status == 500
    assert "KV load" in message


def test_a_corrupt_transfer_changes_the_answer() -> None:
    async def main() -> None:
        async with pair(decode=("--sim-fault", '{"kind": "corrupt-transfer", "probability": 1}')) as engines:
            answer = await engines.second_half(await engines.first_half())

            assert text(answer) != await aggregated()

    asyncio.run(main())


def test_without_a_connector_parameters_mean_nothing() -> None:
    async def main() -> None:
        async with pair() as engines, serving() as plain:
            handed = await engines.first_half()
            answer = await plain.json(
                CHAT, messages=MESSAGES, max_tokens=24, ignore_eos=True, kv_transfer_params=handed
            )

            assert text(answer) == await aggregated()
            assert answer["kv_transfer_params"] is None

    asyncio.run(main())


def test_ranks_have_side_channels_of_their_own() -> None:
    async def main() -> None:
        async with pair(prefill=("--data-parallel-size", "2")) as engines:
            params = {"do_remote_decode": True}
            body = {"messages": MESSAGES, "max_tokens": 1, "kv_transfer_params": params}
            headers = {"x-data-parallel-rank": "1"}
            first = await engines.prefill.client.post(CHAT, json=body, headers=headers)
            handed = first.json()["kv_transfer_params"]

            assert handed["remote_engine_id"].endswith("_dp1")
            assert text(await engines.second_half(handed)) == await aggregated()

    asyncio.run(main())
