"""From a model's agents to tokens: files, preparation, threads, the engine's own tokens, and failures of each."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from inferplane_api.catalogue import CatalogueService
from inferplane_engine.identity import KeySpace
from inferplane_engine.tokens import PromptEncoder
from inferplane_engine.tokens.testing import small_model
from inferplane_router.core.values import ModelFacts, ResolvedModel
from inferplane_router.gateway.seams import EncodedPrompt, PromptRejectedError
from inferplane_router.tokenization import PromptService, TokenizationSettings
from inferplane_router.tokenization.testing import FakeAgent, FakeUpstream
from inferplane_runtime.clock import FakeClock

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}]}
IMAGE: dict[str, Any] = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}
SERVICE = CatalogueService(name="s", served_names=("m",))
LONG = "hello " * 50


def size_of(body: Mapping[str, Any]) -> int:
    return len(orjson.dumps(body))


def chat(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "hello", **fields}]}


def tool(**fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", **fields}}


class World:
    """One agent with a small model, and a service that asks it."""

    def __init__(self, folder: Path, *, max_model_len: int = 4096, **settings: Any) -> None:
        files = small_model(folder / "model", options={"max_model_len": max_model_len})
        self.encoder = PromptEncoder(files)
        self.agent = FakeAgent(files, encoder=self.encoder)
        self.upstream = FakeUpstream({"agent:1": self.agent})
        self.clock = FakeClock()
        self.cache = folder / "cache"
        self.settings = TokenizationSettings(**settings)
        self.facts = ModelFacts(KeySpace("m", "r", 16), 1, 4096, files.digest, ("agent:1",))

    def service(self) -> PromptService:
        return PromptService(upstream=self.upstream, cache=self.cache, clock=self.clock, settings=self.settings)

    def model(self) -> ResolvedModel:
        return ResolvedModel("m", SERVICE, "m", facts=self.facts)

    async def encode(self, service: PromptService, path: str, body: Mapping[str, Any]) -> list[int] | None:
        encoded = service.encode(self.model(), path, body, size=size_of(body))
        prompt = encoded if isinstance(encoded, EncodedPrompt) else await encoded
        return None if prompt.tokens is None else [int(token) for token in prompt.tokens]

    def expected(self, path: str, body: Mapping[str, Any]) -> list[int]:
        return [int(token) for token in self.encoder.encode(path, body).tokens]


@pytest.fixture(name="world")
def small_world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_first_request_waits_for_the_model_and_later_ones_do_not(world: World) -> None:
    async def scenario() -> None:
        service = world.service()
        assert await world.encode(service, CHAT, HELLO) == world.expected(CHAT, HELLO)
        at_once = service.encode(world.model(), CHAT, HELLO, size=size_of(HELLO))
        assert isinstance(at_once, EncodedPrompt)
        assert at_once.templated
        assert at_once.tokens is not None
        assert at_once.tokens.tolist() == world.expected(CHAT, HELLO)
        await service.close()

    asyncio.run(scenario())


def test_many_first_requests_fetch_the_files_once(world: World) -> None:
    async def scenario() -> None:
        service = world.service()
        answers = await asyncio.gather(*(world.encode(service, CHAT, HELLO) for _ in range(20)))
        assert answers == [world.expected(CHAT, HELLO)] * 20
        assert world.agent.asked.count("/model/files") == 1
        await service.close()

    asyncio.run(scenario())


def test_files_are_kept_by_digest_across_restarts(world: World) -> None:
    async def scenario() -> None:
        first = world.service()
        await world.encode(first, CHAT, HELLO)
        await first.close()
        world.agent.asked.clear()
        second = world.service()
        assert await world.encode(second, CHAT, HELLO) == world.expected(CHAT, HELLO)
        assert "/model/files" not in world.agent.asked
        await second.close()

    asyncio.run(scenario())


def test_a_damaged_cache_is_fetched_again(world: World) -> None:
    async def scenario() -> None:
        first = world.service()
        await world.encode(first, CHAT, HELLO)
        await first.close()
        (world.cache / world.facts.tokenizer_digest / "tokenizer.json").write_text("{}")
        world.agent.asked.clear()
        second = world.service()
        assert await world.encode(second, CHAT, HELLO) == world.expected(CHAT, HELLO)
        assert "/model/files" in world.agent.asked
        await second.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(TEXT, {"prompt": LONG}, id="prompt"),
        pytest.param(CHAT, chat(content=LONG), id="content"),
        pytest.param(CHAT, {"messages": [{"role": "user", "content": ""}] * 20}, id="many messages"),
        pytest.param(CHAT, HELLO | {"tools": [tool(description=LONG)]}, id="tools"),
        pytest.param(CHAT, chat(tool_calls=[tool(arguments="{}", name=LONG)]), id="calls"),
        pytest.param(CHAT, HELLO | {"chat_template_kwargs": {"x": LONG}}, id="template arguments"),
        pytest.param(CHAT, HELLO | {"documents": [{"text": LONG}]}, id="documents"),
    ],
)
def test_bodies_that_are_long_in_any_way_are_encoded_in_a_thread(
    tmp_path: Path, path: str, body: dict[str, Any]
) -> None:
    world = World(tmp_path, long_body_bytes=300)

    async def scenario() -> None:
        service = world.service()
        await world.encode(service, CHAT, HELLO)
        encoded = service.encode(world.model(), path, body, size=size_of(body))
        assert not isinstance(encoded, EncodedPrompt)
        prompt = await encoded
        assert prompt.tokens is not None
        assert prompt.tokens.tolist() == world.expected(path, body)
        await service.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("long_body_bytes", [300, 10_000], ids=["in a thread", "in place"])
@pytest.mark.parametrize(
    ("path", "body", "field"),
    [(TEXT, {"prompt": "x" * 2000}, "prompt"), (CHAT, chat(content="x" * 2000), "messages")],
    ids=["completion", "chat"],
)
def test_a_text_that_no_tokenizer_could_fit_is_refused_without_encoding_it(
    tmp_path: Path, path: str, body: dict[str, Any], field: str, long_body_bytes: int
) -> None:
    world = World(tmp_path, max_model_len=90, long_body_bytes=long_body_bytes)
    assert world.encoder.tokenizer is not None
    assert world.encoder.tokenizer.longest_token == len("<|im_start|>")

    async def scenario() -> None:
        service = world.service()
        with pytest.raises(
            PromptRejectedError, match=r"maximum context length is 90 tokens.*more than 1080 never"
        ) as it:
            await world.encode(service, path, body)
        assert it.value.param == field
        assert await world.encode(service, path, body | {"truncate_prompt_tokens": 8}) is not None
        await service.close()

    asyncio.run(scenario())


def test_what_cannot_be_encoded_here_is_asked_of_the_engine(world: World) -> None:
    async def scenario() -> None:
        service = world.service()
        await world.encode(service, CHAT, HELLO)
        assert await world.encode(service, CHAT, IMAGE) == [7, 7, 7]
        await service.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {**IMAGE, "reasoning_effort": "high"}),
        (TEXT, {"prompt": [[1], [-1]]}),
        (CHAT, {"messages": None}),
        ("/v1/embeddings", {"input": "x"}),
    ],
    ids=["not known to /tokenize", "odd prompt", "no messages", "no prompt"],
)
def test_what_nobody_can_encode_is_placed_without_tokens(world: World, path: str, body: dict[str, Any]) -> None:
    async def scenario() -> None:
        service = world.service()
        await world.encode(service, CHAT, HELLO)
        assert await world.encode(service, path, body) is None
        await service.close()

    asyncio.run(scenario())


def test_an_engine_that_makes_other_tokens_is_asked_for_all_of_them(world: World) -> None:
    world.agent.shift = 1000

    async def scenario() -> None:
        service = world.service()
        assert await world.encode(service, CHAT, HELLO) == [token + 1000 for token in world.expected(CHAT, HELLO)]
        await service.close()

    asyncio.run(scenario())


def test_an_engine_that_cannot_be_asked_does_not_stop_the_encoding(world: World) -> None:
    world.agent.encoder = None

    async def scenario() -> None:
        service = world.service()
        assert await world.encode(service, CHAT, HELLO) == world.expected(CHAT, HELLO)
        await service.close()

    asyncio.run(scenario())


def test_the_next_agent_is_asked_when_one_does_not_answer(world: World) -> None:
    world.facts = ModelFacts(KeySpace("m", "r", 16), 1, 4096, world.facts.tokenizer_digest, ("gone:1", "agent:1"))

    async def scenario() -> None:
        service = world.service()
        assert await world.encode(service, CHAT, HELLO) == world.expected(CHAT, HELLO)
        await service.close()

    asyncio.run(scenario())


def test_a_failed_preparation_is_tried_again_after_a_while(world: World) -> None:
    world.agent.refuses = True

    async def scenario() -> None:
        service = world.service()
        assert await world.encode(service, CHAT, HELLO) is None
        world.agent.refuses = False
        assert await world.encode(service, CHAT, HELLO) is None
        world.clock.advance(world.settings.retry_s)
        assert await world.encode(service, CHAT, HELLO) == world.expected(CHAT, HELLO)
        await service.close()

    asyncio.run(scenario())


def test_a_silent_agent_holds_a_request_for_a_bounded_time(tmp_path: Path) -> None:
    world = World(tmp_path, wait_for_model_s=0.01)
    world.agent.silent = True

    async def scenario() -> None:
        service = world.service()
        assert await world.encode(service, CHAT, HELLO) is None
        await service.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("digest", ["0" * 64, "../../etc", "short"])
def test_files_that_are_not_what_was_announced_are_not_used(world: World, digest: str) -> None:
    world.agent.digest = digest
    world.facts = ModelFacts(KeySpace("m", "r", 16), 1, 4096, digest, ("agent:1",))

    async def scenario() -> None:
        service = world.service()
        assert await world.encode(service, CHAT, HELLO) is None
        assert not list(world.cache.glob("*")) if world.cache.exists() else True
        await service.close()

    asyncio.run(scenario())


def test_a_model_that_nobody_knows_yet_is_placed_without_tokens(world: World) -> None:
    async def scenario() -> None:
        service = world.service()
        encoded = service.encode(ResolvedModel("m", SERVICE, "m"), CHAT, HELLO, size=size_of(HELLO))
        assert isinstance(encoded, EncodedPrompt)
        assert encoded.tokens is None
        await service.close()

    asyncio.run(scenario())
