"""Each fault can be had on demand, and shows."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import httpx
import pytest

from inferplane_api.sim_faults import SimFaultKind
from inferplane_engine.sim.faults import FaultPlan, parse_fault
from inferplane_workers.sim.testing import Sim, serving

ASK = {"prompt": "word " * 40, "max_tokens": 20, "ignore_eos": True}


async def said(sim: Sim) -> str:
    return str((await sim.json("/v1/completions", **ASK))["choices"][0]["text"])


def test_damaged_kv_changes_the_answer() -> None:
    async def main() -> None:
        async with serving() as right, serving("--sim-fault", '{"kind": "corrupt-kv", "probability": 1}') as wrong:
            assert await said(right) != await said(wrong)

    asyncio.run(main())


def test_the_nth_request_gets_the_error() -> None:
    async def main() -> None:
        async with serving("--sim-fault", '{"kind": "error", "at_request": 2, "status": 418}') as sim:
            statuses = [(await sim.post("/v1/completions", **ASK)).status_code for _ in range(3)]

            assert statuses == [200, 418, 200]

    asyncio.run(main())


def test_a_refused_request_gets_no_answer() -> None:
    async def main() -> None:
        async with serving("--sim-fault", '{"kind": "refuse", "at_request": 1}') as sim:
            with pytest.raises(httpx.RemoteProtocolError):
                await sim.post("/v1/completions", **ASK)
            await said(sim)

    asyncio.run(main())


def test_a_hung_engine_takes_requests_and_says_nothing_until_it_wakes() -> None:
    async def main() -> None:
        fault = '{"kind": "hang", "at_request": 1, "duration_s": 0.2}'
        async with serving("--sim-fault", fault) as sim:
            request = asyncio.ensure_future(said(sim))
            assert (await sim.client.get("/health")).status_code == 200
            assert await sim.metric("vllm:num_requests_waiting") == 1

            await request

    asyncio.run(main())


def test_a_slow_engine_takes_longer_in_its_own_time() -> None:
    async def taken(*flags: str) -> float:
        async with serving(*flags) as sim:
            await said(sim)
            return await sim.metric("vllm:request_inference_time_seconds_sum")

    async def main() -> None:
        slow = await taken("--sim-fault", '{"kind": "slow", "at_request": 1, "factor": 5}')
        assert slow > 3 * await taken()

    asyncio.run(main())


def test_faults_draw_the_same_for_the_same_seed() -> None:
    fault = parse_fault('{"kind": "lost-events", "probability": 0.5}')
    plans = [FaultPlan([fault], seed) for seed in (1, 1, 2)]
    drawn = [[plan.chance(SimFaultKind.LOST_EVENTS, 0.0) for _ in range(50)] for plan in plans]

    assert drawn[0] == drawn[1] != drawn[2]


def test_a_fault_waits_for_its_time_and_happens_once() -> None:
    plan = FaultPlan([parse_fault('{"kind": "crash", "after_s": 5}')], 0)

    assert [len(plan.on_steps(1, now)) for now in (0.0, 4.9, 5.0, 6.0)] == [0, 0, 1, 0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "JSON object"),
        ("[]", "JSON object"),
        ('{"kind": "flood"}', "kind: one of crash"),
        ('{"kind": "crash", "chance": 1}', "chance: unknown field"),
        ('{"kind": "crash", "probability": 2}', "probability: 0 to 1"),
        ('{"kind": "crash", "after_s": "soon"}', "after_s: a number"),
        ('{"kind": "crash", "at_request": 1.5}', "at_request: a whole number"),
        ('{"kind": "slow", "factor": 0}', "factor: more than 0"),
    ],
)
def test_a_wrong_fault_is_explained(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_fault(text)


async def start(*flags: str) -> tuple[Process, int]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "inferplane_workers.sim",
        "--port",
        "0",
        *flags,
        stderr=PIPE,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert process.stderr is not None
    async with asyncio.timeout(30):
        while line := (await process.stderr.readline()).decode():
            if "port=" in line:
                return process, int(line.split("port=")[1].split()[0])
    raise AssertionError("the server did not start")


def end(process: Process) -> None:
    """Leave no server behind, whatever the test found."""
    if process.returncode is None:
        process.kill()


async def wait(process: Process) -> int:
    try:
        async with asyncio.timeout(30):
            await process.communicate()
    finally:
        end(process)
    assert process.returncode is not None
    return process.returncode


@pytest.mark.slow
def test_a_crash_resets_what_is_in_flight() -> None:
    async def main() -> None:
        process, port = await start("--sim-fault", '{"kind": "crash", "at_request": 2}')
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            assert (await client.post("/v1/completions", json=ASK)).status_code == 200
            with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
                await client.post("/v1/completions", json=ASK)

        assert await wait(process) == 139

    asyncio.run(main())


@pytest.mark.slow
def test_a_forged_transfer_ends_the_process() -> None:
    async def main() -> None:
        config = '{"kv_connector":"NixlConnector","kv_role":"kv_consumer"}'
        process, port = await start("--kv-transfer-config", config)
        forged = {
            "do_remote_prefill": True,
            "remote_engine_id": "x",
            "remote_request_id": "y",
            "remote_host": "127.0.0.1",
            "remote_port": port,
            "remote_block_ids": [[1]],
        }
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            answer = await client.post("/v1/completions", json={**ASK, "kv_transfer_params": forged})

        assert answer.status_code == 500
        assert await wait(process) == 1

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_answers_finish_within_the_timeout(number: signal.Signals) -> None:
    async def main() -> None:
        process, port = await start("--shutdown-timeout", "20")
        ask = {"prompt": "a b", "max_tokens": 100, "ignore_eos": True, "stream": True}
        async with (
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
            client.stream("POST", "/v1/completions", json=ask) as answer,
        ):
            lines = answer.aiter_lines()
            await anext(lines)
            process.send_signal(number)
            rest = [line async for line in lines if line]

        assert rest[-1] == "data: [DONE]"
        assert await wait(process) == 0

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--sim-profile", "abacus"), "--sim-profile: unknown profile"),
        (("--model", "/nowhere"), "--model: /nowhere has no tokenizer.json"),
        (("--num-gpu-blocks-override", "5", "--max-model-len", "4096"), "raise the number of blocks"),
        (("--kv-transfer-config", '{"kv_role": "x"}'), "--kv-transfer-config: kv_role"),
        (("--max-model-len", "60000"), "--max-model-len: 60000 is greater"),
        (("--no-such-flag",), "unrecognized arguments"),
    ],
)
def test_wrong_flags_stop_the_start_with_their_name(flags: tuple[str, ...], words: str, tmp_path: Path) -> None:
    async def main() -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "inferplane_workers.sim", "--port", "0", *flags, stderr=PIPE, cwd=tmp_path
        )
        try:
            async with asyncio.timeout(30):
                _, errors = await process.communicate()
        finally:
            end(process)
        return process.returncode, errors.decode()

    status, errors = asyncio.run(main())

    assert status == 2
    assert words in errors
