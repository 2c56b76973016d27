"""Engines that go wrong on purpose: what the router wrote down names the fault and the worker."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import uvloop

from inferplane.happenings import of_records
from inferplane_observability.incident.causes import Cause, Finding
from inferplane_observability.incident.report import report
from inferplane_router.config import Records
from inferplane_workers.agent.config import Role
from one_loop_service import OneLoopService, WorkerSpec, one_loop_service

pytestmark = pytest.mark.slow
FIRST = 2
"""Number of an engine's first request from clients: the canary's is 1."""
BUSY = {Cause.UNKNOWN, Cause.FLOOD, Cause.SLOW}
_AT_MOST_S = 40.0
LOOKED_S = 1.2
"""In which a router has looked at its workers."""
CRASH = [
    WorkerSpec("d0", Role.DECODE, [{"kind": "crash", "at_request": FIRST}], own_process=True),
    WorkerSpec("d1", Role.DECODE),
]
STUCK = [
    WorkerSpec("d0", Role.DECODE, [{"kind": "hang", "at_request": FIRST}], changes={"hang_timeout": 0.5}),
    WorkerSpec("d1", Role.DECODE),
]
SLOW = [
    WorkerSpec("d0", Role.DECODE, [{"kind": "slow", "factor": 60, "at_request": FIRST + 1}]),
    WorkerSpec("d1", Role.DECODE),
]
ERRORS = [{"kind": "error", "at_request": FIRST + number} for number in range(40)]
HANDOFF = [WorkerSpec("p0", Role.PREFILL, ERRORS), WorkerSpec("d0", Role.DECODE)]
FAILING = [WorkerSpec("d0", Role.DECODE, ERRORS), WorkerSpec("d1", Role.DECODE)]
REFUSALS = [{"kind": "refuse", "at_request": FIRST + number} for number in range(40)]
REFUSING = [WorkerSpec("d0", Role.DECODE, REFUSALS), WorkerSpec("d1", Role.DECODE)]
ALWAYS = {"probability": 1}
LATER = {"kind": "corrupt-kv", **ALWAYS, "after_s": 20}  # of the engine, which is five times as fast
CORRUPT = [
    WorkerSpec("d0", Role.DECODE, [LATER], changes={"canary_interval": 0.2}, expected=False),
    WorkerSpec("d1", Role.DECODE),
]
DAMAGED = [
    WorkerSpec("p0", Role.PREFILL),
    WorkerSpec("d0", Role.DECODE, [{"kind": "corrupt-transfer", **ALWAYS}], changes={"transfer_check": True}),
]
FORGOTTEN = [{"kind": "forgotten-events", "probability": 0.5}]
ROOMY = ["--num-gpu-blocks-override", "1000000"]  # nothing that was announced is gone before it is looked for
EVENTS = [
    WorkerSpec("d0", Role.DECODE, FORGOTTEN, engine_flags=ROOMY),
    WorkerSpec("d1", Role.DECODE, engine_flags=ROOMY),
]
SILENT = [WorkerSpec("d0", Role.DECODE, [{"kind": "silent-events", "probability": 0.7}], engine_flags=ROOMY), EVENTS[1]]
WRONG = [WorkerSpec("d0", Role.DECODE, [{"kind": "wrong-events", "probability": 0.7}], engine_flags=ROOMY), EVENTS[1]]


HARMLESS = [{"kind": kind, "probability": 0.5} for kind in ("lost-events", "duplicate-events", "reordered-events")]
ONE_SEAT = [*ROOMY, "--max-num-seqs", "1", "--sim-speed", "0.2"]
ALONE = WorkerSpec("d0", Role.DECODE)
LATE = WorkerSpec("d1", Role.DECODE, revision="r2", listed=False)
MUTE = [{"kind": "hang", "at_request": FIRST - 1}]
NEVER = WorkerSpec("d1", Role.DECODE, MUTE, expected=False, listed=False)


def ask(number: int) -> dict[str, Any]:
    """Make a request, every second one like an earlier one: what is wrongly known of a cache shows in those."""
    likeness = number if number % 2 else number % 12
    words = " ".join(f"word{likeness}x{i}" for i in range(60))
    return {"model": "tiny", "prompt": words, "max_tokens": 4, "ignore_eos": True, "stream": True}


def likeliest(folder: Path, cause: Cause) -> Finding | None:
    """Return what is named first, apart from what a busy machine really is, and what is told of it rightly."""
    if not folder.is_dir():
        return None
    found = report(of_records(folder), at=time.time(), around_s=600.0)
    named = [*(finding for it in found.explained for finding in it.findings), *found.suspects]
    known = [it for it in named if it.cause is cause or it.cause not in BUSY]
    return known[0] if known else None


async def keep_asking(
    service: OneLoopService, folder: Path, cause: Cause, who: str, *, at_once: int = 4
) -> Finding | None:
    """Send requests until this is the likeliest cause, or for long enough; return what is."""
    deadline, number = time.monotonic() + _AT_MOST_S, 0
    while True:
        found = likeliest(folder, cause)
        if time.monotonic() > deadline or (found is not None and (found.cause, found.who) == (cause, who)):
            return found
        await asyncio.gather(*(service.post("/v1/completions", ask(number + each)) for each in range(at_once)))
        number += at_once


@pytest.mark.parametrize(
    ("specs", "cause", "who"),
    [
        pytest.param(CRASH, Cause.ENGINE_CRASHED, "d0", id="crash"),
        pytest.param(STUCK, Cause.ENGINE_STUCK, "d0", id="stuck"),
        pytest.param(SLOW, Cause.SLOW, "d0", id="slow"),
        pytest.param(HANDOFF, Cause.HANDOFF, "p0", id="hand-offs"),
        pytest.param(FAILING, Cause.ERRORS, "d0", id="errors"),
        pytest.param(REFUSING, Cause.ERRORS, "d0", id="refusals"),
        pytest.param(CORRUPT, Cause.DAMAGED, "d0", id="corrupt KV"),
        pytest.param(DAMAGED, Cause.DAMAGED, "p0", id="corrupt hand-offs"),
        pytest.param(SILENT, Cause.EVENTS, "d0", id="events without a gap"),
        pytest.param(WRONG, Cause.EVENTS, "d0", id="wrong events"),
        pytest.param(EVENTS, Cause.EVENTS, "d0", id="events"),
    ],
)
def test_a_seeded_fault_is_named(tmp_path: Path, specs: Sequence[WorkerSpec], cause: Cause, who: str) -> None:
    folder = tmp_path / "records"

    async def main() -> Finding | None:
        async with one_loop_service(tmp_path, specs, config={"records": Records(folder)}) as service:
            return await keep_asking(service, folder, cause, who)

    found = uvloop.run(main())

    assert found is not None
    assert (found.cause, found.who) == (cause, who)


def test_faults_that_are_made_good_are_nobodys(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    specs = [WorkerSpec("d0", Role.DECODE, HARMLESS, engine_flags=ROOMY), EVENTS[1]]

    async def main() -> Finding | None:
        async with one_loop_service(tmp_path, specs, config={"records": Records(folder)}) as service:
            for number in range(0, 80, 4):
                await asyncio.gather(*(service.post("/v1/completions", ask(number + each)) for each in range(4)))
            await asyncio.sleep(LOOKED_S)
            return likeliest(folder, Cause.EVENTS)

    assert uvloop.run(main()) is None


@pytest.mark.parametrize(
    ("specs", "then", "cause", "who"),
    [
        pytest.param([ALONE, WorkerSpec("d1", Role.DECODE)], ["d0"], Cause.FEWER, "d1", id="scaled down"),
        pytest.param([ALONE, LATE], ["d0", "d1"], Cause.ROLLOUT, "d1", id="rollout"),
        pytest.param([ALONE, NEVER], ["d0", "d1"], Cause.STARTING, "d1", id="a start without an end"),
    ],
)
def test_a_change_of_workers_is_named(
    tmp_path: Path, specs: Sequence[WorkerSpec], then: Sequence[str], cause: Cause, who: str
) -> None:
    folder = tmp_path / "records"

    async def main() -> Finding | None:
        async with one_loop_service(tmp_path, specs, config={"records": Records(folder)}) as service:
            await asyncio.sleep(LOOKED_S)
            service.tell(then)
            return await keep_asking(service, folder, cause, who)

    found = uvloop.run(main())

    assert found is not None
    assert (found.cause, found.who) == (cause, who)


def test_a_flood_is_named(tmp_path: Path) -> None:
    """Few requests for a while, and then more than one seat serves in time."""
    folder = tmp_path / "records"
    specs = [WorkerSpec("d0", Role.DECODE, engine_flags=ONE_SEAT)]

    async def main() -> Finding | None:
        async with one_loop_service(tmp_path, specs, config={"records": Records(folder)}) as service:
            for number in range(6):
                await service.post("/v1/completions", ask(number))
                await asyncio.sleep(1)
            return await keep_asking(service, folder, Cause.FLOOD, "", at_once=64)

    found = uvloop.run(main())

    assert found is not None
    assert (found.cause, found.who) == (Cause.FLOOD, "")
