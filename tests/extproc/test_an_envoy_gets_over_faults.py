"""Workers that crash, a picker that is away, a subset that the proxy wants: through real Envoys."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import uvloop

from envoy_front import WITH_PICKER, Document, behind_envoy, cluster, manager, processor
from inferplane_router.core.values import Health
from inferplane_runtime.http.testing import CollectingSink
from inferplane_workers.agent.config import Role
from inferplane_workers.testing import until
from one_loop_service import OneLoopService, WorkerSpec, one_loop_service, reference_answers, text_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.usefixtures("envoy")]
TEXT = "/v1/completions"
Scenario = Callable[[OneLoopService], Awaitable[None]]


def ask(number: int, **fields: Any) -> dict[str, Any]:
    words = " ".join(f"word{number}x{i}" for i in range(60))
    return {"model": "tiny", "prompt": words, "max_tokens": 12, "ignore_eos": True, **fields}


def worker_of(answer: CollectingSink) -> str:
    assert answer.head is not None
    return (answer.head.headers.get(b"x-inferplane-worker") or b"").decode()


def status_of(answer: CollectingSink) -> int:
    assert answer.head is not None
    return answer.head.status


def through_envoy(
    folder: Path, specs: list[WorkerSpec], scenario: Scenario, change: Callable[[Document], None] | None = None
) -> None:
    async def main() -> None:
        async with (
            one_loop_service(folder, specs, config=WITH_PICKER) as service,
            behind_envoy(service, folder, change) as front,
        ):
            await scenario(front)

    uvloop.run(main())


def without_retries(document: Document) -> None:
    del manager(document)["route_config"]["virtual_hosts"][0]["routes"][0]["route"]["retry_policy"]


@pytest.mark.parametrize("stream", [False, True])
def test_when_an_engine_crashes_before_its_first_token_another_one_answers(tmp_path: Path, *, stream: bool) -> None:
    crash = {"kind": "crash", "at_request": 2}
    specs = [
        WorkerSpec("d0", Role.DECODE, [crash], own_process=True),
        WorkerSpec("d1", Role.DECODE),
        WorkerSpec("d2", Role.DECODE),
    ]

    async def scenario(front: OneLoopService) -> None:
        answers = list(await asyncio.gather(*(front.post(TEXT, ask(number, stream=stream)) for number in range(6))))
        expected = await reference_answers(tmp_path, TEXT, [ask(number, stream=stream) for number in range(6)])

        assert [text_of(answer) for answer in answers] == expected

        await until(lambda: front.health("d0") is Health.FAILED)
        await until(front.at_rest)

    through_envoy(tmp_path, specs, scenario)


def test_a_worker_that_is_lost_without_retries_is_said_in_the_gateways_words(tmp_path: Path) -> None:
    crash = {"kind": "crash", "at_request": 2}

    async def scenario(front: OneLoopService) -> None:
        answer = await front.post(TEXT, ask(0), x_request_id="mine")
        error = orjson.loads(answer.body)["error"]

        assert status_of(answer) in {502, 503}
        assert error["message"]
        assert answer.head is not None
        assert answer.head.headers.get(b"x-request-id") == b"mine"
        assert answer.head.headers.get(b"x-inferplane-retry") is None

        await until(front.at_rest)

    through_envoy(tmp_path, [WorkerSpec("d0", Role.DECODE, [crash], own_process=True)], scenario, without_retries)


@pytest.mark.parametrize("goes_on", [True, False], ids=["fail open", "fail close"])
def test_without_a_picker_the_failure_mode_decides(tmp_path: Path, *, goes_on: bool) -> None:
    def away(document: Document) -> None:
        endpoint = cluster(document, "picker")["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
        endpoint["address"]["socket_address"]["port_value"] = 1  # nobody listens there
        filtering = processor(document)
        filtering["failure_mode_allow"] = goes_on
        # A body that was handed to a picker is not Envoy's any more: it can go on without one only if it buffers.
        filtering["processing_mode"] |= {"request_body_mode": "BUFFERED", "request_trailer_mode": "SKIP"}

    async def scenario(front: OneLoopService) -> None:
        answer = await front.post(TEXT, ask(0), x_inferplane_prefill="192.0.2.1:1", x_inferplane_dp_rank="7")
        if goes_on:
            assert text_of(answer) == (await reference_answers(tmp_path, TEXT, [ask(0)]))[0]
            assert worker_of(answer) == "d0"
        else:
            assert status_of(answer) >= 500
            assert worker_of(answer) == ""

    through_envoy(tmp_path, [WorkerSpec("d0", Role.DECODE)], scenario, away)


def test_the_proxys_subset_is_kept_to_and_an_empty_one_is_answered_503(tmp_path: Path) -> None:
    key = "x-gateway-destination-endpoint-subset"
    specs = [WorkerSpec("p0", Role.PREFILL), WorkerSpec("d0", Role.DECODE), WorkerSpec("d1", Role.DECODE)]

    def narrowed(endpoints: list[str]) -> Callable[[Document], None]:
        def change(document: Document) -> None:
            entry = {"metadata_namespace": "envoy.lb.subset_hint", "value": {key: endpoints}}
            kind = "type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config"
            setting = {"@type": kind, "metadata": [entry]}
            manager(document)["http_filters"].insert(
                0, {"name": "envoy.filters.http.set_metadata", "typed_config": setting}
            )

        return change

    async def main() -> None:
        async with one_loop_service(tmp_path, specs, config=WITH_PICKER) as service:
            async with behind_envoy(service, tmp_path / "one", narrowed([service.workers["d1"].address])) as front:
                answers = [await front.post(TEXT, ask(number)) for number in range(6)]

                assert {worker_of(answer) for answer in answers} == {"d1"}
                assert all(
                    answer.head is not None and answer.head.headers.get(b"x-inferplane-prefill-worker") == b"p0"
                    for answer in answers
                )

            async with behind_envoy(service, tmp_path / "none", narrowed([])) as front:
                answer = await front.post(TEXT, ask(0))

                assert (status_of(answer), orjson.loads(answer.body)["error"]["code"]) == (503, "no_workers")

            await until(service.at_rest)

    uvloop.run(main())
