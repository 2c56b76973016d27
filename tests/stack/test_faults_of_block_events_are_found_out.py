"""Block events that get lost, doubled, mixed up or falsified: closed by replay, or found out, named and lived with."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from inferplane_api.proto.router_pb2 import DecisionRecord
from inferplane_api.sim_faults import SimFaultKind
from inferplane_router.core.values import KvMode, Mismatch
from inferplane_workers.agent.config import Role
from inferplane_workers.testing import QUICK, until
from one_loop_service import OneLoopService, WorkerSpec, in_one_loop, reference_answers, text_of

if TYPE_CHECKING:
    from inferplane_runtime.http.testing import CollectingSink

pytestmark = pytest.mark.slow
TEXT = "/v1/completions"


def ask(number: int, words: int = 60) -> dict[str, Any]:
    text = " ".join(f"word{number}x{i}" for i in range(words))
    return {"model": "tiny", "prompt": text, "max_tokens": 4, "ignore_eos": True}


def aggregated(kind: SimFaultKind, probability: float, **changes: Any) -> Sequence[WorkerSpec]:
    fault: Mapping[str, Any] = {"kind": kind.value, "probability": probability}
    return [WorkerSpec("d0", Role.DECODE, [fault], changes=changes)]


async def served(service: OneLoopService, bodies: Sequence[Mapping[str, Any]], prefix: str) -> list[DecisionRecord]:
    """Ask one after the other; return what the router predicted and then heard."""
    records: list[DecisionRecord] = []
    for number, body in enumerate(bodies):
        request_id = f"{prefix}{number}"
        answer = await service.post(TEXT, body, x_request_id=request_id)
        text_of(answer)
        await until(lambda each=request_id: len(explained(service, each).observed) == 1)  # type: ignore[misc]  # a default is a value
        records.append(explained(service, request_id))
    return records


def explained(service: OneLoopService, request_id: str) -> DecisionRecord:
    return service.router.core.explain(request_id) or DecisionRecord()


def exact(record: DecisionRecord) -> bool:
    return record.predicted_prefill_cached_tokens == record.observed[0].cached_tokens


@pytest.mark.parametrize(
    "kind", [SimFaultKind.LOST_EVENTS, SimFaultKind.DUPLICATE_EVENTS, SimFaultKind.REORDERED_EVENTS]
)
def test_what_replay_can_close_costs_nothing(tmp_path: Path, kind: SimFaultKind) -> None:
    async def scenario(service: OneLoopService) -> None:
        first = await served(service, [ask(number) for number in range(8)], "first")
        rank = service.workers["d0"].agent.blocks.ranks[0]
        # A batch that was lost is missed when the next one comes, so the last one is made to be there.
        while rank.blocks < 8 * (first[-1].prompt_tokens // 16):
            await served(service, [ask(100 + rank.expected)], f"more{rank.expected}")
        again = await served(service, [ask(number) for number in range(8)], "again")
        view = service.view("d0")

        assert all(record.observed[0].cached_tokens > 0 for record in again)
        assert [exact(record) for record in again] == [True] * 8
        assert not rank.suspect
        assert (view.kv_mode, view.mismatch) == (KvMode.EXACT, Mismatch.NONE)

    in_one_loop(tmp_path, aggregated(kind, 0.4), scenario)


@pytest.mark.parametrize("reset", [True, False])
def test_events_that_nobody_has_any_more_make_the_worker_suspect_until_its_cache_is_known(
    tmp_path: Path, *, reset: bool
) -> None:
    async def scenario(service: OneLoopService) -> None:
        agent = service.workers["d0"].agent
        went: set[KvMode] = set()
        for number in range(20):
            text_of(await service.post(TEXT, ask(number)))  # its report may be lost with what the agent gives up
            went.add(service.view("d0").kv_mode)
            if service.view("d0").kv_mode is KvMode.APPROXIMATE:
                break

        assert KvMode.APPROXIMATE in went
        assert agent.announcer.suspect or reset
        if not reset:
            view = service.view("d0")

            assert view.mismatch is Mismatch.LOST_EVENTS
            assert "could not be replayed" in view.mismatch_detail

            known = await served(service, [ask(50), ask(50)], "approximate")

            assert known[1].observed[0].cached_tokens > 0  # its own decisions still lead there
            assert exact(known[1])
            return
        await until(lambda: service.view("d0").kv_mode is KvMode.EXACT)

        assert not agent.announcer.suspect

    fault = {"kind": "forgotten-events", "probability": 0.5}
    if reset:
        fault = {"kind": "forgotten-events", "after_s": 0}  # once: what was forgotten stays forgotten, the rest comes
    spec = WorkerSpec("d0", Role.DECODE, [fault], changes={"kv_reset": reset}, periods=replace(QUICK, reset=0.2))
    in_one_loop(tmp_path, [spec], scenario)


@pytest.mark.parametrize(
    ("kind", "probability"), [(SimFaultKind.SILENT_EVENTS, 1.0), (SimFaultKind.SILENT_EVENTS, 0.5)]
)
def test_events_that_are_missing_without_a_gap_are_noticed_by_what_the_engine_reports(
    tmp_path: Path, kind: SimFaultKind, probability: float
) -> None:
    await_conviction(tmp_path, aggregated(kind, probability), {Mismatch.EVENTS_OFF, Mismatch.LOST_EVENTS})


def test_events_with_wrong_hashes_are_noticed_by_the_agent(tmp_path: Path) -> None:
    await_conviction(tmp_path, aggregated(SimFaultKind.WRONG_EVENTS, 0.5), {Mismatch.LOST_EVENTS, Mismatch.HASH_SEED})


def await_conviction(folder: Path, specs: Sequence[WorkerSpec], causes: set[Mismatch]) -> None:
    """Serve until the worker's events are no longer believed; its answers stay right and its affinity stays."""

    async def scenario(service: OneLoopService) -> None:
        answers: list[CollectingSink] = []
        bodies: list[dict[str, Any]] = []
        for number in range(40):
            bodies.append(ask(number // 2, words=80 + number))  # a growing conversation and new ones
            answers.append(await service.post(TEXT, bodies[-1]))
            if service.view("d0").kv_mode is KvMode.APPROXIMATE:
                break
        await until(lambda: service.view("d0").kv_mode is KvMode.APPROXIMATE)
        view = service.view("d0")

        assert view.mismatch in causes
        assert view.mismatch_detail

        known = await served(service, [ask(70), ask(70)], "after")

        assert known[1].observed[0].cached_tokens > 0
        assert exact(known[1])
        assert [text_of(answer) for answer in answers] == await reference_answers(folder, TEXT, bodies)

    in_one_loop(folder, specs, scenario)
