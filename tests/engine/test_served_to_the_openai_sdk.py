"""The SDK that users bring, unchanged, against the gateway."""

import asyncio
from collections.abc import Iterator

import openai
import pytest
from openai.types.chat import (
    ChatCompletionMessageParam,
    ChatCompletionNamedToolChoiceParam,
    ChatCompletionToolParam,
)

from engine_probe import Engines
from local_service import LocalService

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(180, func_only=True)]

QUESTION = "What does the import statement do?"
TOOL: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "convert",
        "parameters": {
            "type": "object",
            "properties": {"unit": {"type": "string", "enum": ["celsius", "kelvin"]}},
            "required": ["unit"],
            "additionalProperties": False,
        },
    },
}
FORCED: ChatCompletionNamedToolChoiceParam = {"type": "function", "function": {"name": "convert"}}


@pytest.fixture
def client(service: LocalService) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{service.ready_status().url}/v1", api_key="unused", max_retries=0) as opened:
        yield opened


def test_models_are_listed(client: openai.OpenAI) -> None:
    assert {"tiny", "tiny-alias"} <= {model.id for model in client.models.list()}


def test_a_chat_is_answered_with_exact_usage(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": QUESTION}], max_tokens=8, temperature=0
    )

    assert answer.choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8


def test_a_streamed_chat_equals_the_unstreamed_one(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": QUESTION}], max_tokens=8, temperature=0
    )
    stream = client.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": QUESTION}],
        max_tokens=8,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)

    assert text == whole.choices[0].message.content
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 8


def test_a_stream_without_usage_stays_without(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": QUESTION}], max_tokens=4, stream=True
    )

    assert all(chunk.usage is None and chunk.choices for chunk in stream)


def test_completions_take_texts_and_tokens(client: openai.OpenAI) -> None:
    by_text = client.completions.create(model="tiny", prompt=QUESTION, max_tokens=4, temperature=0)
    by_tokens = client.completions.create(model="tiny", prompt=[500, 501, 502], max_tokens=4, temperature=0)

    assert by_text.choices[0].text
    assert by_tokens.usage is not None
    assert by_tokens.usage.prompt_tokens == 3


def test_a_forced_tool_is_called_as_the_engine_would(client: openai.OpenAI, engines: Engines) -> None:
    """A random model's arguments make no sense, but have to arrive as they are."""
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]
    answer = client.chat.completions.create(
        model="tiny", messages=messages, max_tokens=40, temperature=0, tools=[TOOL], tool_choice=FORCED
    )
    alone = engines.decode.answer(
        "/v1/chat/completions", {"messages": messages, "max_tokens": 40, "tools": [TOOL], "tool_choice": FORCED}
    )
    calls = answer.choices[0].message.tool_calls

    assert calls is not None
    assert calls[0].type == "function"
    assert calls[0].function.model_dump() == alone["choices"][0]["message"]["tool_calls"][0]["function"]
    assert calls[0].function.name == "convert"


def test_errors_arrive_as_the_sdks_own(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="another", prompt="x")
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="tiny", prompt="x", max_tokens=-1)


def test_the_asynchronous_client_works_with_many_requests_in_flight(service: LocalService) -> None:
    async def ask_all() -> list[str | None]:
        url = f"{service.ready_status().url}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="unused", max_retries=0) as client:
            answers = await asyncio.gather(
                *(
                    client.chat.completions.create(
                        model="tiny", messages=[{"role": "user", "content": f"{QUESTION} {number}"}], max_tokens=8
                    )
                    for number in range(16)
                )
            )
        return [answer.choices[0].message.content for answer in answers]

    assert all(asyncio.run(ask_all()))
