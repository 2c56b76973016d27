"""Whole workers for tests: a simulated engine and the real agent beside it, in one event loop, on free ports."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from inferplane_runtime.http.api import Headers, Request, Response, Upstream
from inferplane_workers.agent.app import Agent, Listening
from inferplane_workers.agent.config import AgentConfig, Role
from inferplane_workers.agent.engine_client import EngineClient, NoAnswer
from inferplane_workers.agent.engine_watch import Periods
from inferplane_workers.agent.gate import Phase
from inferplane_workers.sim.app import SimServer, running
from inferplane_workers.sim.options import parse_options

BLOCK_SIZE = 16
MODEL = "tiny"
_ENGINE_START_S = 40.0
QUICK = Periods(start_up=0.01, watch=0.05, health_deadline=2.0, after_failure=0.05)


@dataclass(frozen=True, slots=True)
class Worker:
    """One running worker."""

    agent: Agent
    engine: SimServer
    listening: Listening

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.listening.http}"


def sim_flags(folder: Path, role: Role, name: str) -> list[str]:
    """Return the flags of a small, fast simulated engine with events and transfers.

    Leases run in engine time: at this speed they last six seconds, so that a busy machine does not let them lapse.
    """
    events = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": f"ipc://{folder}/{name}.events",
        "replay_endpoint": f"ipc://{folder}/{name}.replay",
    }
    transfer = {
        "kv_connector": "NixlConnector",
        "kv_role": "kv_producer" if role is Role.PREFILL else "kv_consumer",
        "engine_id": name,
        "kv_load_failure_policy": "recompute",
    }
    return [
        *("--host", "127.0.0.1", "--port", "0", "--served-model-name", MODEL),
        *("--block-size", str(BLOCK_SIZE), "--max-model-len", "4096", "--num-gpu-blocks-override", "512"),
        *("--kv-events-config", orjson.dumps(events).decode()),
        *("--kv-transfer-config", orjson.dumps(transfer).decode()),
        *("--enable-prompt-tokens-details", "--sim-profile", "h100-8b", "--sim-speed", "5"),
    ]


def agent_config(folder: Path, role: Role, name: str, engine_port: int) -> AgentConfig:
    return AgentConfig(
        worker_id=name,
        service="s",
        pool=role.value,
        role=role,
        engine="sim",
        engine_url=f"127.0.0.1:{engine_port}",
        kv_events=f"ipc://{folder}/{name}.events",
        kv_replay=f"ipc://{folder}/{name}.replay",
        listen_http="127.0.0.1:0",
        listen_stream="127.0.0.1:0",
        listen_metrics="127.0.0.1:0",
        model=MODEL,
        model_revision="r1",
        served_name=(MODEL,),
        block_size=BLOCK_SIZE,
        state_dir=folder / f"{name}.state",
        drain_timeout=5.0,
        drain_grace=0.05,
        transfer_check=False,  # tests count what engines are asked
    )


@asynccontextmanager
async def engine(folder: Path, role: Role, name: str, *, flags: Sequence[str] = ()) -> AsyncGenerator[SimServer]:
    """Run a simulated engine alone."""
    environment = {
        "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
        "VLLM_NIXL_SIDE_CHANNEL_PORT": "0",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
    }
    async with running(parse_options([*sim_flags(folder, role, name), *flags], environment)) as server:
        yield server


@asynccontextmanager
async def worker(
    folder: Path,
    role: Role,
    name: str,
    *,
    flags: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
    wait: bool = True,
) -> AsyncGenerator[Worker]:
    """Run an engine and its agent; with `wait`, until the agent takes requests."""
    async with (
        engine(folder, role, name, flags=flags) as server,
        agent_beside(folder, role, name, server.port, changes=changes, wait=wait) as (agent, listening),
    ):
        yield Worker(agent, server, listening)


@asynccontextmanager
async def agent_beside(
    folder: Path,
    role: Role,
    name: str,
    engine_port: int,
    *,
    changes: Mapping[str, Any] | None = None,
    periods: Periods = QUICK,
    wait: bool = True,
) -> AsyncGenerator[tuple[Agent, Listening]]:
    """Run an agent beside an engine that is there already, or will be."""
    agent = Agent(replace(agent_config(folder, role, name, engine_port), **(changes or {})), periods=periods)
    async with agent.running() as listening:
        if wait:
            await until_phase(agent, Phase.READY)
        yield agent, listening


@asynccontextmanager
async def engine_process(
    folder: Path, role: Role, name: str, *, flags: Sequence[str] = (), port: int = 0
) -> AsyncGenerator[tuple[Process, int]]:
    """Run a simulated engine as a process of its own, for faults that end it; yields it with its port."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "inferplane_workers.sim", *sim_flags(folder, role, name), *flags),
        *("--port", str(port)),
        stderr=PIPE,
        env={
            **os.environ,
            "NO_COLOR": "1",
            "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
            "VLLM_NIXL_SIDE_CHANNEL_PORT": "0",
        },
    )
    reading: asyncio.Task[bytes] | None = None
    try:
        async with asyncio.timeout(_ENGINE_START_S):
            got = await _announced_port(process)
        reading = asyncio.create_task(_log_of(process).read(), name=f"log of {name}")  # a full pipe would stop it
        yield process, got
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        if reading is not None:
            await reading


def _log_of(process: Process) -> asyncio.StreamReader:
    if process.stderr is None:
        raise RuntimeError("an engine was started without a pipe for its log")
    return process.stderr


async def _announced_port(process: Process) -> int:
    said: list[str] = []
    while line := (await _log_of(process).readline()).decode():
        said.append(line)
        if "port=" in line:
            return int(line.split("port=")[1].split()[0])
    raise RuntimeError("the simulated engine did not start:\n" + "".join(said))


async def until(true: Callable[[], bool], *, deadline_s: float = 20.0) -> None:
    """Wait until something is so; the deadline is a bound, not a pause."""
    async with asyncio.timeout(deadline_s):
        while not true():  # noqa: ASYNC110 - what is waited for lives in many places, none of which has an event
            await asyncio.sleep(0.005)


async def until_phase(agent: Agent, phase: Phase) -> None:
    await until(lambda: agent.gate.phase is phase)


async def ask(
    upstream: Upstream, address: str, path: str, body: object, *, headers: Sequence[tuple[str, str]] = ()
) -> Response:
    """Post one request and return its whole answer; no answer is an error."""
    pairs = ((b"content-type", b"application/json"), *((k.encode(), v.encode()) for k, v in headers))
    request = Request(b"POST", path.encode(), b"", Headers(pairs), orjson.dumps(body))
    answer = await EngineClient(upstream, address).send(request, timeout_s=20.0)
    if isinstance(answer, NoAnswer):
        raise ConnectionError(f"{address}: {answer.failure} {answer.detail}")
    return answer
