"""Damaged KV: the canary keeps an engine that computes wrongly out of service, the transfer check a bad sender."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from inferplane_api.sim_faults import SimFaultKind
from inferplane_router.core.values import Health
from inferplane_workers.agent.config import Role
from inferplane_workers.agent.gate import Phase
from inferplane_workers.testing import until
from one_loop_service import OneLoopService, WorkerSpec, in_one_loop, reference_answers, text_of

pytestmark = pytest.mark.slow
TEXT = "/v1/completions"
CANARY: dict[str, Any] = {
    "model": "tiny", "prompt": "The capital of France is", "max_tokens": 8, "temperature": 0, "seed": 0
}  # fmt: skip


def ask(number: int) -> dict[str, Any]:
    text = " ".join(f"word{number}x{i}" for i in range(60))
    return {"model": "tiny", "prompt": text, "max_tokens": 12, "ignore_eos": True}


def known_answer(folder: Path) -> str:
    return asyncio.run(reference_answers(folder, TEXT, [CANARY]))[0]


def corrupt(kind: SimFaultKind, **fields: Any) -> list[Mapping[str, Any]]:
    return [{"kind": kind.value, "probability": 1, **fields}]


def test_an_engine_that_computes_wrongly_from_its_start_gets_no_request(tmp_path: Path) -> None:
    known = known_answer(tmp_path)
    specs = [
        WorkerSpec(
            "d0", Role.DECODE, corrupt(SimFaultKind.CORRUPT_KV), changes={"canary_expect": known}, expected=False
        ),
        WorkerSpec("d1", Role.DECODE, changes={"canary_expect": known}),
    ]

    async def scenario(service: OneLoopService) -> None:
        await until(lambda: service.health("d0") is Health.FAILED)
        answers = [await service.post(TEXT, ask(number)) for number in range(6)]

        assert "the canary prompt got" in service.view("d0").detail
        assert [text_of(each) for each in answers] == await reference_answers(
            tmp_path, TEXT, [ask(n) for n in range(6)]
        )

    in_one_loop(tmp_path, specs, scenario)


def test_an_engine_that_begins_to_compute_wrongly_is_taken_out_by_the_next_canary(tmp_path: Path) -> None:
    """Answers between the damage and the canary may be wrong: that is the canary's period."""
    wrong_later = corrupt(SimFaultKind.CORRUPT_KV, after_s=10)  # of the engine, which is five times as fast
    specs = [
        WorkerSpec("d0", Role.DECODE, wrong_later, changes={"canary_interval": 0.2}),
        WorkerSpec("d1", Role.DECODE),
    ]

    async def scenario(service: OneLoopService) -> None:
        assert service.health("d0") is Health.READY

        await until(lambda: service.workers["d0"].agent.gate.phase is Phase.FAILED)
        await until(lambda: service.health("d0") is Health.FAILED)
        answers = [await service.post(TEXT, ask(number)) for number in range(6)]

        assert [text_of(each) for each in answers] == await reference_answers(
            tmp_path, TEXT, [ask(n) for n in range(6)]
        )

    in_one_loop(tmp_path, specs, scenario)


def test_blocks_that_arrive_damaged_are_found_out_and_their_sender_is_used_no_more(tmp_path: Path) -> None:
    """Answers before the check may be wrong: it follows the first hand-over."""
    specs = [
        WorkerSpec("p0", Role.PREFILL),
        WorkerSpec("d0", Role.DECODE, corrupt(SimFaultKind.CORRUPT_TRANSFER), changes={"transfer_check": True}),
    ]

    async def scenario(service: OneLoopService) -> None:
        first = text_of(await service.post(TEXT, ask(0)))
        await until(lambda: service.workers["d0"].agent.jobs.peers.distrusted == 1)
        answers = [await service.post(TEXT, ask(number)) for number in range(1, 4)]
        expected = await reference_answers(tmp_path, TEXT, [ask(number) for number in range(4)])

        assert first != expected[0]
        assert [text_of(each) for each in answers] == expected[1:]
        assert service.health("d0") is Health.READY

    in_one_loop(tmp_path, specs, scenario)


def test_a_sender_whose_blocks_arrive_unharmed_stays_in_use(tmp_path: Path) -> None:
    specs = [WorkerSpec("p0", Role.PREFILL), WorkerSpec("d0", Role.DECODE, changes={"transfer_check": True})]

    async def scenario(service: OneLoopService) -> None:
        peers = service.workers["d0"].agent.jobs.peers
        await service.post(TEXT, ask(0))
        await until(lambda: peers.due(0.0) is None)  # it was checked
        answer = await service.post(TEXT, ask(1))

        assert answer.head is not None
        assert answer.head.headers.get(b"x-inferplane-prefill-worker") == b"p0"
        assert text_of(answer) == (await reference_answers(tmp_path, TEXT, [ask(1)]))[0]

    in_one_loop(tmp_path, specs, scenario)
