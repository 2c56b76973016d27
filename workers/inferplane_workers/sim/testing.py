"""The simulated engine inside a test: on a real socket, in the test's own event loop."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpx
import orjson

from inferplane_workers.sim.app import SimServer, running
from inferplane_workers.sim.options import BUILT_IN_MODELS, parse_options
from inferplane_workers.sim.text import TextModel, model_folder

_DATA = "data: "


@dataclass(frozen=True, slots=True)
class Sim:
    """A server and a client for it."""

    server: SimServer
    client: httpx.AsyncClient

    async def post(self, path: str, **fields: object) -> httpx.Response:
        return await self.client.post(path, json=fields)

    async def json(self, path: str, **fields: object) -> dict[str, Any]:
        answer = await self.post(path, **fields)
        answer.raise_for_status()
        value: dict[str, Any] = answer.json()
        return value

    async def stream(self, path: str, **fields: object) -> list[dict[str, Any]]:
        """Return every event before [DONE]; an answer without it is an error."""
        answer = await self.post(path, stream=True, **fields)
        answer.raise_for_status()
        events = [line.removeprefix(_DATA) for line in answer.text.split("\n") if line.startswith(_DATA)]
        if not events or events.pop() != "[DONE]":
            raise AssertionError("the stream did not end with [DONE]")
        return [orjson.loads(event) for event in events]

    async def metric(self, name: str, *, source: str = "") -> float:
        """Return the value of the first sample of a metric that names `source`."""
        text = (await self.client.get("/metrics")).text
        lines = (line for line in text.splitlines() if line.startswith((f"{name}{{", f"{name} ")))
        return float(next(line for line in lines if source in line).rpartition(" ")[2])


@cache
def _built_in_model() -> TextModel:
    """Read the built-in model once: it does not change, and a test starts many servers."""
    return TextModel(model_folder(BUILT_IN_MODELS[0]))


@asynccontextmanager
async def serving(*flags: str, environment: Mapping[str, str] | None = None) -> AsyncGenerator[Sim]:
    """Run a server on a free port."""
    env = {"VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1", "VLLM_NIXL_SIDE_CHANNEL_PORT": "0", **(environment or {})}
    options = parse_options(["--port", "0", "--enable-prompt-tokens-details", *flags], env)
    async with (
        running(options, text=_built_in_model() if options.model in BUILT_IN_MODELS else None) as server,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=20, trust_env=False) as client,
    ):
        yield Sim(server, client)
