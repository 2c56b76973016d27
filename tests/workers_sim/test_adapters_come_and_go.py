"""Adapters are loaded and unloaded while the simulated engine runs, with vLLM's routes and refusals."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

from inferplane_workers.sim.testing import Sim, serving

LORA = ("--enable-lora", "--max-lora-rank", "16", "--sim-speed", "1000")
ALLOWED = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}


def adapter(folder: Path, *, rank: object = 8) -> str:
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"r": rank}))
    return str(folder)


def with_sim(test: Callable[[Sim], Coroutine[Any, Any, None]], *flags: str, **environment: str) -> None:
    async def scenario() -> None:
        async with serving(*(flags or LORA), environment=environment or ALLOWED) as sim:
            await test(sim)

    asyncio.run(scenario())


async def load(sim: Sim, name: str, path: str) -> httpx.Response:
    return await sim.post("/v1/load_lora_adapter", lora_name=name, lora_path=path)


async def say(sim: Sim, model: str) -> str:
    answer = await sim.json("/v1/completions", model=model, prompt="Once upon a time", max_tokens=8, temperature=0)
    text: str = answer["choices"][0]["text"]
    return text


def message(answer: httpx.Response) -> str:
    text: str = answer.json()["error"]["message"]
    return text


def test_a_loaded_adapter_answers_in_words_of_its_own(tmp_path: Path) -> None:
    one, two = adapter(tmp_path / "one"), adapter(tmp_path / "two")

    async def test(sim: Sim) -> None:
        base = "builtin"
        before = await say(sim, base)
        assert (await load(sim, "one", one)).status_code == 200
        assert (await load(sim, "two", two)).status_code == 200
        models = (await sim.client.get("/v1/models")).json()["data"]

        assert [(model["id"], model["parent"], model["root"]) for model in models[1:]] == [
            ("one", base, one),
            ("two", base, two),
        ]
        assert len({await say(sim, name) for name in (base, "one", "two")}) == 3
        assert await say(sim, base) == before

    with_sim(test)


def test_an_unloaded_adapter_is_unknown(tmp_path: Path) -> None:
    path = adapter(tmp_path / "one")

    async def test(sim: Sim) -> None:
        await load(sim, "one", path)
        gone = await sim.post("/v1/unload_lora_adapter", lora_name="one")
        asked = await sim.post("/v1/completions", model="one", prompt="a", max_tokens=1)
        again = await sim.post("/v1/unload_lora_adapter", lora_name="one")

        assert (gone.status_code, asked.status_code, again.status_code) == (200, 404, 404)
        assert message(again) == "The lora adapter 'one' cannot be found."

    with_sim(test)


def test_what_cannot_be_loaded_is_refused_in_words(tmp_path: Path) -> None:
    good, wide, odd = adapter(tmp_path / "a"), adapter(tmp_path / "b", rank=64), adapter(tmp_path / "c", rank="x")

    async def test(sim: Sim) -> None:
        await load(sim, "a", good)
        refused = {
            "nowhere": await load(sim, "x", "/no/such/folder"),
            "wide": await load(sim, "x", wide),
            "odd": await load(sim, "x", odd),
            "twice": await load(sim, "a", good),
            "base": await load(sim, "builtin", good),
            "empty": await load(sim, "", good),
        }

        assert {case: (answer.status_code, message(answer)) for case, answer in refused.items()} == {
            "nowhere": (404, "Loading lora x failed: No adapter found for /no/such/folder"),
            "wide": (500, "Call to add_lora method failed: LoRA rank 64 is greater than max_lora_rank 16."),
            "odd": (500, "Call to add_lora method failed: LoRA rank `r` must be a positive integer, got x."),
            "twice": (
                400,
                (
                    "The lora adapter 'a' has already been loaded. If you want to load the adapter in place, set "
                    "'load_inplace' to True."
                ),
            ),
            "base": (400, "The lora adapter 'builtin' conflicts with a served base model."),
            "empty": (400, "Both 'lora_name' and 'lora_path' must be provided."),
        }

    with_sim(test)


@pytest.mark.parametrize(
    ("flags", "environment", "status"),
    [(LORA, {"X": "1"}, 404), (("--sim-speed", "1000"), ALLOWED, 500)],
    ids=["not allowed", "not enabled"],
)
def test_loading_must_be_allowed_and_enabled(
    tmp_path: Path, flags: tuple[str, ...], environment: dict[str, str], status: int
) -> None:
    path = adapter(tmp_path / "one")

    async def test(sim: Sim) -> None:
        assert (await load(sim, "one", path)).status_code == status

    with_sim(test, *flags, **environment)
