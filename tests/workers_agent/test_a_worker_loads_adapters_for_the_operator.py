"""A worker's agent loads and unloads adapters beside a running engine, for the operator and nobody else."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from inferplane_runtime.http.api import Headers, Request, Response
from inferplane_runtime.http.client import UpstreamPool
from inferplane_workers.agent.config import Role
from inferplane_workers.agent.engine_client import EngineClient, NoAnswer
from inferplane_workers.testing import MODEL, Worker, agent_beside, engine, until, worker

pytestmark = pytest.mark.slow

LORA = ("--enable-lora", "--max-lora-rank", "16")
TEXT = "The quick brown fox jumps over the lazy dog and does not look back. " * 4


@dataclass
class Control:
    """The operator's side."""

    pool: UpstreamPool
    port: int

    async def send(self, method: bytes, path: str, body: object = None) -> Response:
        raw = b"" if body is None else orjson.dumps(body)
        request = Request(method, path.encode(), b"", Headers(((b"content-type", b"application/json"),)), raw)
        answer = await EngineClient(self.pool, f"127.0.0.1:{self.port}").send(request, timeout_s=10.0)
        assert not isinstance(answer, NoAnswer)
        return answer

    async def put(self, name: str, **body: object) -> Response:
        return await self.send(b"PUT", f"/adapters/{name}", body)

    async def listing(self) -> Mapping[str, Any]:
        listing: dict[str, Any] = orjson.loads((await self.send(b"GET", "/adapters")).body)
        return listing

    async def states(self) -> dict[str, str]:
        return {each["name"]: each["state"] for each in (await self.listing())["adapters"]}

    async def until_states(self, wanted: Mapping[str, str]) -> None:
        async with asyncio.timeout(60):
            while await self.states() != wanted:  # noqa: ASYNC110 - the answer is another process's
                await asyncio.sleep(0.01)


def config(folder: Path) -> dict[str, Any]:
    return {
        "listen_control": "127.0.0.1:0",
        "max_adapters": 2,
        "max_adapter_rank": 16,
        "adapter_root": (folder / "adapters",),
    }


@asynccontextmanager
async def adapting(folder: Path, role: Role = Role.DECODE, name: str = "w0") -> AsyncGenerator[tuple[Worker, Control]]:
    pool = UpstreamPool()
    async with worker(folder, role, name, flags=LORA, changes=config(folder)) as running:
        try:
            yield running, Control(pool, running.listening.control)
        finally:
            await pool.close()


def made(folder: Path, name: str, *, rank: int = 8) -> str:
    path = folder / "adapters" / name
    path.mkdir(parents=True)
    (path / "adapter_config.json").write_text(json.dumps({"r": rank}))
    return str(path)


async def complete(
    pool: UpstreamPool, worker: Worker, model: str, *, path: str = "/v1/completions", **headers: str
) -> Response:
    body = {
        "model": model,
        "prompt": TEXT,
        "max_tokens": 8,
        "temperature": 0,
        "stream": headers.pop("stream", "") != "",
    }
    pairs = [(b"content-type", b"application/json")]
    pairs += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    request = Request(b"POST", path.encode(), b"", Headers(tuple(pairs)), orjson.dumps(body))
    answer = await EngineClient(pool, worker.address).send(request, timeout_s=20.0)
    assert not isinstance(answer, NoAnswer)
    return answer


def words(answer: Response) -> str:
    assert answer.status == 200, answer.body
    text: str = orjson.loads(answer.body)["choices"][0]["text"]
    return text


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(40):
            await scenario()

    asyncio.run(bounded())


def announced(worker: Worker) -> list[tuple[str, str]]:
    return [(each.name, each.revision) for each in worker.agent.announcer.identity.adapters]


def test_an_adapter_is_loaded_served_updated_and_unloaded(tmp_path: Path) -> None:
    one, two = made(tmp_path, "one"), made(tmp_path, "two")

    async def scenario() -> None:
        async with adapting(tmp_path) as (running, control):
            base = words(await complete(control.pool, running, MODEL))
            first = await control.put("support%2Fde", path=one, revision="1", rank=8)
            assert first.status == 202
            await control.until_states({"support/de": "loaded"})
            assert announced(running) == [("support/de", "1")]

            answer = await complete(control.pool, running, "support/de")
            assert orjson.loads(answer.body)["model"] == "support/de"
            assert words(answer) != base
            assert (await control.put("support%2Fde", path=one, revision="1", rank=8)).status == 200

            await control.put("support%2Fde", path=two, revision="2", rank=8)
            await until(lambda: announced(running) == [("support/de", "2")])
            assert words(await complete(control.pool, running, "support/de")) not in (base, words(answer))
            await until(lambda: len(running.engine.service.adapters.all()) == 1)

            assert (await control.send(b"DELETE", "/adapters/support%2Fde")).status == 200
            await until(lambda: not running.engine.service.adapters.all())
            assert announced(running) == []
            assert (await complete(control.pool, running, "support/de")).status == 404
            assert words(await complete(control.pool, running, MODEL)) == base

    run(scenario)


def test_streams_and_model_lists_never_show_an_engines_name(tmp_path: Path) -> None:
    one = made(tmp_path, "one")

    async def scenario() -> None:
        async with adapting(tmp_path) as (running, control):
            await control.put("one", path=one)
            await control.until_states({"one": "loaded"})
            stream = await complete(control.pool, running, "one", stream="yes")
            listed = await EngineClient(control.pool, running.address).get(b"/v1/models", timeout_s=5.0)
            assert isinstance(listed, Response)

            assert stream.body.count(b'"model":"one"') == stream.body.count(b"data: {")
            assert b"inferplane-adapter" not in stream.body + listed.body
            assert [model["id"] for model in orjson.loads(listed.body)["data"]] == [MODEL, "one"]

    run(scenario)


def test_the_engines_refusal_is_passed_on_and_the_routes_check_what_they_get(tmp_path: Path) -> None:
    wide = made(tmp_path, "wide", rank=64)
    nowhere = str(tmp_path / "adapters" / "nowhere")

    async def scenario() -> None:
        async with adapting(tmp_path) as (_, control):
            await control.put("wide", path=wide)
            await control.put("nowhere", path=nowhere)
            await control.until_states({"wide": "failed", "nowhere": "failed"})
            errors = {each["name"]: each["error"] for each in (await control.listing())["adapters"]}

            assert errors["wide"] == "Call to add_lora method failed: LoRA rank 64 is greater than max_lora_rank 16."
            assert errors["nowhere"].endswith(f"No adapter found for {nowhere}")
            assert (await control.put("third", path=wide)).status == 409
            assert (await control.put("wide", path=wide, rank=32)).status == 400
            assert (await control.put("wide")).status == 400
            assert (await control.put("wide", path=wide, rank="8")).status == 400
            assert (await control.send(b"DELETE", "/adapters/unknown")).status == 200
            assert (await control.send(b"POST", "/adapters/wide")).status == 404
            assert (await control.send(b"GET", "/metrics")).status == 404

    run(scenario)


def test_a_new_start_of_the_engine_gets_them_again_before_it_counts_as_having_them(tmp_path: Path) -> None:
    one = made(tmp_path, "one")

    async def scenario() -> None:
        pool = UpstreamPool()
        async with engine(tmp_path, Role.DECODE, "w0", flags=LORA) as first:
            port = first.port
            changes = config(tmp_path)
            async with agent_beside(tmp_path, Role.DECODE, "w0", port, changes=changes) as (agent, listening):
                control = Control(pool, listening.control)
                await control.put("one", path=one, revision="1")
                await control.until_states({"one": "loaded"})
            async with agent_beside(tmp_path, Role.DECODE, "w0", port, changes=changes) as (agent, listening):
                assert [each.name for each in agent.announcer.identity.adapters] == ["one"]
                agent.adapters.engine_started(())
                assert not agent.announcer.identity.adapters
                await Control(pool, listening.control).until_states({"one": "loaded"})
                assert [each.name for each in agent.announcer.identity.adapters] == ["one"]
        await pool.close()

    run(scenario)


def test_a_hand_off_under_an_adapter_is_whole_and_never_of_two_revisions(tmp_path: Path) -> None:
    one, two = made(tmp_path, "one"), made(tmp_path, "two")

    async def scenario() -> None:
        async with (
            adapting(tmp_path, Role.PREFILL, "p0") as (prefill, prefilling),
            adapting(tmp_path, Role.DECODE, "d0") as (decode, decoding),
        ):
            for control in (prefilling, decoding):
                await control.put("x", path=one, revision="1")
                await control.until_states({"x": "loaded"})
            headers = {"x_inferplane_adapter": "x", "x_inferplane_adapter_revision": "1"}
            alone = await complete(decoding.pool, prefill, "x", **headers)
            handed = await complete(decoding.pool, decode, "x", x_inferplane_prefill=prefill.address, **headers)
            assert words(handed) == words(alone)
            assert handed.headers.get(b"x-inferplane-prefill-worker") == b"p0"

            await decoding.put("x", path=two, revision="2")
            await until(lambda: announced(decode) == [("x", "2")])
            await until(lambda: len(decode.engine.service.adapters.all()) == 1)
            mixed = await complete(decoding.pool, decode, "x", x_inferplane_prefill=prefill.address, **headers)
            assert mixed.headers.get(b"x-inferplane-prefill-worker") is None
            assert words(mixed) == words(await complete(decoding.pool, decode, "x"))
            assert words(mixed) != words(alone)

    run(scenario)


def test_clients_cannot_load_adapters_through_the_data_path(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with adapting(tmp_path) as (running, control):
            for path in ("/adapters/one", "/v1/load_lora_adapter", "/v1/unload_lora_adapter"):
                assert (await complete(control.pool, running, MODEL, path=path)).status == 404

    run(scenario)
