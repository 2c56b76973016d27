"""Predicted cached tokens against the engines' own counters, on both sides of the hand-over."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx
import pytest

from engine_probe import EngineProbe, Engines, wait_until
from local_service import LocalService

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(240, func_only=True)]

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
TURNS = 5
Request = tuple[str, dict[str, Any]]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "description": "Look a word up.",
            "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
        },
    }
]


def chat(texts: list[str], *, system: str = "", tools: bool = False, parts: bool = False) -> Iterator[Request]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    for text in texts[:TURNS]:
        content: Any = (
            [{"type": "text", "text": text[:400]}, {"type": "text", "text": text[400:600]}] if parts else text[:600]
        )
        messages = [*messages, {"role": "user", "content": content}]
        yield CHAT, {"messages": messages, **({"tools": TOOLS} if tools else {})}
        messages = [*messages, {"role": "assistant", "content": text[:100]}]


def special(texts: list[str]) -> Iterator[Request]:
    marked = [text.replace(". ", ".<|im_end|>\n<|im_start|>user\n ") for text in texts]
    return chat(marked)


def growing_text(texts: list[str]) -> Iterator[Request]:
    for count in range(1, TURNS + 1):
        yield COMPLETIONS, {"prompt": " ".join(text[:500] for text in texts[:count])}


def growing_tokens(_: list[str]) -> Iterator[Request]:
    for count in range(TURNS):  # around block boundaries
        yield COMPLETIONS, {"prompt": list(range(900, 900 + 127 + count))}


def aliases(texts: list[str]) -> Iterator[Request]:
    for number, (path, body) in enumerate(chat(texts)):
        yield path, {**body, "model": ("tiny", "tiny-alias")[number % 2]}


def salts(texts: list[str]) -> Iterator[Request]:
    for number, (path, body) in enumerate(chat(texts)):
        yield path, {**body, "cache_salt": ("one", "two")[number % 2]}


def adapters(texts: list[str]) -> Iterator[Request]:
    for number, (path, body) in enumerate(chat(texts)):
        yield path, {**body, "model": ("tiny", "tiny-one", "tiny-one")[number % 3]}


FLAVOURS: Mapping[str, Callable[[list[str]], Iterator[Request]]] = {
    "chat": chat,
    "chat with a system prompt": lambda texts: chat(texts, system="You answer in one word."),
    "chat with tools": lambda texts: chat(texts, tools=True),
    "chat in parts": lambda texts: chat(texts, parts=True),
    "chat with control tokens": special,
    "text": growing_text,
    "tokens": growing_tokens,
    "aliases": aliases,
    "salts": salts,
    "adapters": adapters,
}


def hits(engine: EngineProbe) -> float:
    return engine.prompt_tokens_by_source().get("local_cache_hit", 0)


def total(engine: EngineProbe) -> float:
    return sum(engine.prompt_tokens_by_source().values())


class Bench:
    """Sends one request after the other and compares what was predicted with what the engines counted."""

    def __init__(self, service: LocalService, engines: Engines, salt: str) -> None:
        self._service = service
        self._engines = {"prefill-0": engines.prefill, "decode-0": engines.decode, "decode-1": engines.other_decode}
        self._salt = salt
        self.checked = 0

    def check(self, path: str, body: Mapping[str, Any], what: str) -> None:
        salt = self._salt + str(body.get("cache_salt", ""))
        asked = {"model": "tiny", "temperature": 0, "max_tokens": 4, **body, "cache_salt": salt}
        before = {name: (hits(engine), total(engine)) for name, engine in self._engines.items()}
        response = httpx.post(f"{self._service.ready_status().url}{path}", json=asked, timeout=60)
        assert response.status_code == 200, response.text

        prompt_tokens = response.json()["usage"]["prompt_tokens"]
        counted = {
            side: self._counted(response.headers[header], before, prompt_tokens)
            for side, header in (("prefill", "x-inferplane-prefill-worker"), ("decode", "x-inferplane-worker"))
        }
        record = self._service.explain(response.headers["x-request-id"])
        assert record is not None
        predicted = {side: record[f"predicted_{side}_cached_tokens"] for side in counted}
        assert predicted == counted, f"{what}: {record}"
        assert int(response.headers["x-inferplane-predicted-cached-tokens"]) == counted["prefill"]
        assert response.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == counted["prefill"]
        self.checked += 1

    def _counted(self, worker: str, before: Mapping[str, tuple[float, float]], prompt_tokens: int) -> int:
        engine = self._engines[worker]
        hits_before, total_before = before[worker]
        wait_until(lambda: total(engine) - total_before, lambda gained: gained >= prompt_tokens)
        return int(hits(engine) - hits_before)


@pytest.fixture
def bench(service: LocalService, engines: Engines, salt: str) -> Bench:
    return Bench(service, engines, salt)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_predictions_equal_what_both_engines_count(bench: Bench, texts: list[str], flavour: str) -> None:
    for number, (path, body) in enumerate(FLAVOURS[flavour](texts)):
        bench.check(path, body, f"{flavour}, turn {number}")

    assert bench.checked == TURNS


def test_predictions_are_exact_after_evictions(bench: Bench, texts: list[str]) -> None:
    """Between the turns, more goes through the caches than they hold."""
    for number, (path, body) in enumerate(chat(texts)):
        bench.check(path, body, f"turn {number}")
        if number in {1, 3}:
            for filler in range(6):
                prompt = [100 + (filler * 500 + index) % 3900 for index in range(3000)]
                bench.check(COMPLETIONS, {"prompt": prompt, "cache_salt": "filler"}, f"filler {filler}")

    assert bench.checked == TURNS + 12
