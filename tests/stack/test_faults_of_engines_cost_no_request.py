"""Engines that crash, hang, get slow, refuse, err or never start: requests go elsewhere and answers stay right."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from inferplane_router.core.values import Health
from inferplane_runtime.http.testing import CollectingSink
from inferplane_workers.agent.config import Role
from inferplane_workers.agent.gate import Phase
from inferplane_workers.testing import until
from one_loop_service import OneLoopService, WorkerSpec, in_one_loop, reference_answers, streamed_text, text_of

pytestmark = pytest.mark.slow
TEXT = "/v1/completions"
FIRST, SECOND = 2, 3
"""Numbers of an engine's first requests from clients: the canary's is 1."""


def ask(number: int, **fields: Any) -> dict[str, Any]:
    words = " ".join(f"word{number}x{i}" for i in range(60))
    return {"model": "tiny", "prompt": words, "max_tokens": 12, "ignore_eos": True, **fields}


def worker_of(answer: CollectingSink, header: bytes = b"x-inferplane-worker") -> str:
    assert answer.head is not None
    return (answer.head.headers.get(header) or b"").decode()


async def right(folder: Path, service: OneLoopService, answers: list[CollectingSink], **fields: Any) -> None:
    """Check answers to ask(0), ask(1)... against an engine of its own, and that nothing is left behind."""
    expected = await reference_answers(folder, TEXT, [ask(number, **fields) for number in range(len(answers))])

    assert [text_of(answer) for answer in answers] == expected

    await until(service.at_rest)


@pytest.mark.parametrize("stream", [False, True])
def test_when_a_prefill_engine_crashes_another_one_prefills(tmp_path: Path, *, stream: bool) -> None:
    crash = {"kind": "crash", "at_request": FIRST}
    specs = [
        WorkerSpec("p0", Role.PREFILL, [crash], own_process=True),
        WorkerSpec("p1", Role.PREFILL, [crash], own_process=True),
        WorkerSpec("d0", Role.DECODE),
    ]

    async def scenario(service: OneLoopService) -> None:
        answers = [await service.post(TEXT, ask(number, stream=stream)) for number in range(3)]
        await until(lambda: {service.health("p0"), service.health("p1")} == {Health.FAILED})

        assert worker_of(answers[-1], b"x-inferplane-prefill-worker") == ""

        await right(tmp_path, service, answers)

    in_one_loop(tmp_path, specs, scenario)


@pytest.mark.parametrize("stream", [False, True])
def test_when_a_decode_engine_crashes_before_its_first_token_another_one_answers(
    tmp_path: Path, *, stream: bool
) -> None:
    crash = {"kind": "crash", "at_request": FIRST}
    specs = [
        WorkerSpec("p0", Role.PREFILL),
        WorkerSpec("d0", Role.DECODE, [crash], own_process=True),
        WorkerSpec("d1", Role.DECODE, [crash], own_process=True),
        WorkerSpec("d2", Role.DECODE),
    ]

    async def scenario(service: OneLoopService) -> None:
        answers = list(await asyncio.gather(*(service.post(TEXT, ask(number, stream=stream)) for number in range(6))))
        await until(lambda: service.router.core.statistics().retried > 0)

        await right(tmp_path, service, answers)

    in_one_loop(tmp_path, specs, scenario)


def test_a_crash_in_the_middle_breaks_its_streams_visibly_and_no_others(tmp_path: Path) -> None:
    specs = [WorkerSpec("d0", Role.DECODE, [{"kind": "crash", "at_request": SECOND}], own_process=True)]
    long = {"stream": True, "max_tokens": 2000}

    async def scenario(service: OneLoopService) -> None:
        started = asyncio.create_task(service.post(TEXT, ask(0, **long), x_request_id="long"))
        await until(lambda: service.has_a_place("long"))
        await asyncio.sleep(0.3)  # some tokens; how many does not matter
        second = await service.post(TEXT, ask(1))
        broken = await started
        whole = (await reference_answers(tmp_path, TEXT, [ask(0, **long)]))[0]
        said = streamed_text(broken.body)

        assert broken.failure is not None or b'"error"' in broken.body
        assert b"[DONE]" not in broken.body
        assert whole.startswith(said)
        assert whole != said
        assert second.head is not None
        assert second.head.status == 503
        assert second.head.headers.get(b"retry-after") is not None

        await until(service.at_rest)

    in_one_loop(tmp_path, specs, scenario)


def test_a_hung_engine_is_found_out_and_its_requests_go_elsewhere(tmp_path: Path) -> None:
    hang = {"kind": "hang", "at_request": FIRST}
    specs = [
        WorkerSpec("d0", Role.DECODE, [hang], changes={"hang_timeout": 1.0, "canary_timeout": 0.5}),
        WorkerSpec("d1", Role.DECODE, changes={"hang_timeout": 1.0}),
    ]

    async def scenario(service: OneLoopService) -> None:
        answers = list(await asyncio.gather(*(service.post(TEXT, ask(number)) for number in range(6))))

        assert {worker_of(answer) for answer in answers} == {"d1"}
        assert service.workers["d0"].agent.gate.phase is Phase.FAILED
        assert service.health("d0") is Health.FAILED

        await right(tmp_path, service, answers)

    in_one_loop(tmp_path, specs, scenario)


def test_a_hung_prefill_engine_delays_its_requests_and_fails_none(tmp_path: Path) -> None:
    hang = {"kind": "hang", "at_request": FIRST}
    specs = [
        WorkerSpec("p0", Role.PREFILL, [hang], changes={"hang_timeout": 1.0, "canary_timeout": 0.5}),
        WorkerSpec("d0", Role.DECODE),
    ]

    async def scenario(service: OneLoopService) -> None:
        answers = list(await asyncio.gather(*(service.post(TEXT, ask(number)) for number in range(4))))
        await until(lambda: service.health("p0") is Health.FAILED)

        await right(tmp_path, service, answers)

    in_one_loop(tmp_path, specs, scenario)


def test_load_moves_away_from_a_slow_engine(tmp_path: Path) -> None:
    """Four clients, each with its next request as soon as it has an answer."""
    slow = {"kind": "slow", "at_request": FIRST, "factor": 40}
    specs = [WorkerSpec("d0", Role.DECODE, [slow]), WorkerSpec("d1", Role.DECODE)]

    async def scenario(service: OneLoopService) -> None:
        answers: dict[int, CollectingSink] = {}
        numbers = iter(range(60))

        async def client() -> None:
            for number in numbers:
                answers[number] = await service.post(TEXT, ask(number, stream=True))

        await asyncio.gather(*(client() for _ in range(4)))
        served = [worker_of(answer) for answer in answers.values()]

        assert 0 < served.count("d0") < 20

        await right(tmp_path, service, [answers[number] for number in range(60)])

    in_one_loop(tmp_path, specs, scenario)


@pytest.mark.parametrize("role", [Role.PREFILL, Role.DECODE])
def test_a_connection_that_an_engine_resets_costs_no_request(tmp_path: Path, role: Role) -> None:
    refuse = {"kind": "refuse", "probability": 0.4}
    specs = [
        WorkerSpec("p0", Role.PREFILL, [refuse] if role is Role.PREFILL else [], changes={"canary": False}),
        WorkerSpec("d0", Role.DECODE, [refuse] if role is Role.DECODE else [], changes={"canary": False}),
        WorkerSpec("d1", Role.DECODE),
    ]

    async def scenario(service: OneLoopService) -> None:
        answers = [await service.post(TEXT, ask(number)) for number in range(10)]

        await right(tmp_path, service, answers)

    in_one_loop(tmp_path, specs, scenario)


@pytest.mark.parametrize("status", [418, 500])
def test_an_engines_own_error_reaches_the_client_as_it_is(tmp_path: Path, status: int) -> None:
    specs = [WorkerSpec("d0", Role.DECODE, [{"kind": "error", "at_request": FIRST, "status": status}])]

    async def scenario(service: OneLoopService) -> None:
        failed = await service.post(TEXT, ask(9))
        error = orjson.loads(failed.body)["error"]

        assert failed.head is not None
        assert failed.head.status == status
        assert error == {"message": "Injected failure.", "type": "InternalServerError", "param": None, "code": status}

        await right(tmp_path, service, [await service.post(TEXT, ask(0))])

    in_one_loop(tmp_path, specs, scenario)


@pytest.mark.parametrize("status", [400, 500, 503])
@pytest.mark.parametrize("role", [Role.PREFILL, Role.DECODE])
def test_an_error_of_half_a_hand_off_is_made_good_by_the_decode_engine(tmp_path: Path, role: Role, status: int) -> None:
    if (role, status) == (Role.DECODE, 400):
        pytest.skip("the decode engine's word on the request is final")
    error = {"kind": "error", "at_request": FIRST, "status": status}
    specs = [
        WorkerSpec("p0", Role.PREFILL, [error] if role is Role.PREFILL else []),
        WorkerSpec("d0", Role.DECODE, [error] if role is Role.DECODE else []),
    ]

    async def scenario(service: OneLoopService) -> None:
        answers = [await service.post(TEXT, ask(number)) for number in range(2)]

        assert worker_of(answers[0], b"x-inferplane-prefill-worker") == ""

        await right(tmp_path, service, answers)

    in_one_loop(tmp_path, specs, scenario)
