"""LoRA adapters on real engines: loaded while they run, kept apart in their caches, handed over like any request."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from engine_probe import EngineProbe, Engines
from inferplane_operator.local.desired import Desired, change_desired
from inferplane_operator.local.status import InstancePhase, Status
from local_service import LocalService

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(240, func_only=True)]

BLOCK = 32
PROMPT = list(range(1000, 1000 + 2 * BLOCK + 9))
LIMIT_S = 120.0


def ask(service: LocalService, model: str, **body: Any) -> httpx.Response:
    asked = {"model": model, "prompt": PROMPT, "max_tokens": 12, "temperature": 0, "return_token_ids": True, **body}
    return httpx.post(f"{service.ready_status().url}/v1/completions", json=asked, timeout=60)


def tokens(service: LocalService, model: str, **body: Any) -> list[int]:
    response = ask(service, model, **body)
    assert response.status_code == 200, response.text
    assert response.json()["model"] == model
    found: list[int] = response.json()["choices"][0]["token_ids"]
    return found


def engines_name(engine: EngineProbe) -> str:
    """Return what the engine calls the one adapter that it was given."""
    models = httpx.get(f"{engine.url}/v1/models", timeout=30).json()["data"]
    return next(str(model["id"]) for model in models if model["parent"])


def until(service: LocalService, good: Callable[[Status], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while (status := service.status()) is None or not good(status):
        assert time.monotonic() < deadline, status
        time.sleep(0.1)


Change = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


def put(service: LocalService, change: Change) -> int:
    """Change the desired state, as an edit of the file would; return its generation."""

    def next_one(found: Desired | None) -> Desired:
        assert found is not None
        return found.model_copy(update={"manifests": change(found.manifests), "generation": found.generation + 1})

    return change_desired(service.state, next_one).generation


def settled(service: LocalService, generation: int, phase: InstancePhase = InstancePhase.READY) -> None:
    """Wait until the service is like that, and its router knows."""
    until(
        service,
        lambda it: it.observed_generation >= generation and it.phase is phase and "router: " not in it.message,
    )


@contextmanager
def changed(service: LocalService, change: Change) -> Generator[None]:
    """Let the service have other adapters for a while."""
    before: list[dict[str, Any]] = []

    def note(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        before.extend(manifests)
        return change(manifests)

    settled(service, put(service, note))
    try:
        yield
    finally:
        settled(service, put(service, lambda _: before))


def pids(service: LocalService) -> dict[str, int | None]:
    return {worker.name: worker.engine.pid for worker in service.ready_status().workers if worker.engine is not None}


def test_an_adapters_answer_is_handed_over_and_equals_what_one_engine_alone_says(
    service: LocalService, engines: Engines, salt: str
) -> None:
    served = ask(service, "tiny-one", cache_salt=salt)
    alone = engines.decode.complete(
        PROMPT, model=engines_name(engines.decode), max_tokens=12, cache_salt=f"{salt}-alone"
    )

    assert served.status_code == 200, served.text
    assert served.headers["x-inferplane-prefill-worker"] == "prefill-0"
    assert served.json()["choices"][0]["token_ids"] == alone["choices"][0]["token_ids"]
    assert served.json()["choices"][0]["token_ids"] != tokens(service, "tiny", cache_salt=salt)


def test_model_and_adapter_share_no_block_and_events_name_the_adapter(engines: Engines, salt: str) -> None:
    engine, name = engines.prefill, engines_name(engines.prefill)
    cached = [
        engine.complete(PROMPT, model=model, cache_salt=salt)["usage"]["prompt_tokens_details"]["cached_tokens"]
        for model in ("tiny", name, name, "tiny")
    ]
    events = [event for event in engine.wait_stored(salt, 4) if event["lora_name"]]

    assert cached == [0, 0, 2 * BLOCK, 2 * BLOCK]
    assert [event["lora_name"] for event in events] == [name]
    assert events[0]["extra_keys"] == [[name, salt], [name]]
    assert events[0]["token_ids"] == PROMPT[: 2 * BLOCK]


def test_streams_under_an_adapter_show_its_served_name_alone(service: LocalService, salt: str) -> None:
    body = {
        "model": "tiny-one",
        "prompt": PROMPT,
        "max_tokens": 6,
        "temperature": 0,
        "stream": True,
        "cache_salt": salt,
    }
    streamed = httpx.post(f"{service.ready_status().url}/v1/completions", json=body, timeout=60).text

    assert streamed.count('"model":"tiny-one"') == streamed.count("data: {") > 1
    assert "inferplane-adapter" not in streamed


def test_adapters_are_loaded_replaced_and_unloaded_while_engines_run(service: LocalService, salt: str) -> None:
    running = pids(service)
    one = tokens(service, "tiny-one", cache_salt=salt)

    def with_two(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        source = manifests[1]["spec"]["source"]["path"]
        two = {"path": f"{source.removesuffix('one')}two"}
        spec = {**manifests[1]["spec"], "source": two, "servedName": "tiny-two"}
        return [*manifests, {**manifests[1], "metadata": {"name": "two"}, "spec": spec}]

    def replaced(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        spec = {**manifests[1]["spec"], "source": {"path": with_two(manifests)[2]["spec"]["source"]["path"]}}
        return [manifests[0], {**manifests[1], "spec": spec}]

    with changed(service, with_two):
        two = tokens(service, "tiny-two", cache_salt=salt)
        assert tokens(service, "tiny-one", cache_salt=salt) == one
    assert ask(service, "tiny-two").status_code == 404
    with changed(service, replaced):
        assert tokens(service, "tiny-one", cache_salt=salt) == two
    assert tokens(service, "tiny-one", cache_salt=salt) == one
    assert len({tuple(one), tuple(two), tuple(tokens(service, "tiny", cache_salt=salt))}) == 3
    assert pids(service) == running


def test_a_rank_that_the_engine_refuses_is_said_in_its_words(service: LocalService) -> None:
    def too_wide(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        source = {"path": f"{manifests[1]['spec']['source']['path'].removesuffix('one')}wide"}
        spec = {**manifests[1]["spec"], "source": source, "servedName": "tiny-wide"}  # its rank is not what it says
        return [*manifests, {**manifests[1], "metadata": {"name": "wide"}, "spec": spec}]

    settled(service, put(service, too_wide), InstancePhase.DEGRADED)
    status = service.status()
    assert status is not None
    assert "LoRA rank 64 is greater than max_lora_rank 16" in status.message
    assert ask(service, "tiny-wide").status_code == 503
    settled(service, put(service, lambda manifests: manifests[:2]))
