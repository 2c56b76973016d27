"""The simulated server answers as vLLM does."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from inferplane_workers.sim.testing import Sim, serving

HELLO = [{"role": "user", "content": "Tell me about the sea."}]
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer", "minimum": 1},
                "unit": {"enum": ["C", "F"]},
            },
            "required": ["city", "days", "unit"],
        },
    },
}


def with_sim(test: Callable[[Sim], Awaitable[None]], *flags: str) -> None:
    async def main() -> None:
        async with serving(*flags) as sim:
            await test(sim)

    asyncio.run(main())


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(
        choice["delta"].get("content", "") if "delta" in choice else choice["text"]
        for event in events
        for choice in event["choices"]
    )


def test_a_streamed_chat_says_what_a_whole_one_says_with_the_same_usage() -> None:
    async def test(sim: Sim) -> None:
        whole = await sim.json("/v1/chat/completions", messages=HELLO, max_tokens=30, ignore_eos=True)
        events = await sim.stream(
            "/v1/chat/completions",
            messages=HELLO,
            max_tokens=30,
            ignore_eos=True,
            stream_options={"include_usage": True},
        )

        assert whole["choices"][0]["message"]["content"] == text_of(events)
        assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        assert [event["choices"] for event in events if "usage" in event] == [[]]
        assert events[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"] == 30
        assert whole["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        prompt = whole["usage"]["prompt_tokens"]
        assert events[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] == (prompt - 1) // 16 * 16

    with_sim(test)


def test_a_message_of_any_role_may_be_a_string_or_parts() -> None:
    async def test(sim: Sim) -> None:
        def turns(content: Callable[[str], Any]) -> list[dict[str, Any]]:
            roles = ("system", "user", "assistant", "user")
            return [{"role": role, "content": content(f"a text of the {role}")} for role in roles]

        forms: tuple[Callable[[str], Any], ...] = (str, lambda text: [{"type": "text", "text": text}])
        for more in ({}, {"tools": [TOOL], "tool_choice": "none"}):
            asked = [
                await sim.json("/v1/chat/completions", messages=turns(form), max_tokens=2, **more) for form in forms
            ]

            prompts = {answer["usage"]["prompt_tokens"] for answer in asked}
            assert len(prompts) == 1
            assert min(prompts) > 30

    with_sim(test)


def test_one_chunk_a_token_and_the_reason_with_the_last() -> None:
    async def test(sim: Sim) -> None:
        events = await sim.stream("/v1/completions", prompt="one two", max_tokens=5, ignore_eos=True)

        assert [event["choices"][0]["finish_reason"] for event in events] == [None] * 4 + ["length"]

    with_sim(test)


def test_continuous_usage_counts_up() -> None:
    async def test(sim: Sim) -> None:
        options = {"include_usage": True, "continuous_usage_stats": True}
        events = await sim.stream(
            "/v1/chat/completions", messages=HELLO, max_tokens=3, ignore_eos=True, stream_options=options
        )

        assert [event["usage"]["completion_tokens"] for event in events] == [0, 1, 2, 3, 3]

    with_sim(test)


def test_tokens_in_tokens_out() -> None:
    async def test(sim: Sim) -> None:
        tokens = (await sim.json("/tokenize", messages=HELLO))["tokens"]
        chat = await sim.json(
            "/v1/chat/completions", messages=HELLO, max_tokens=9, ignore_eos=True, return_token_ids=True
        )
        plain = await sim.json("/v1/completions", prompt=tokens, max_tokens=9, ignore_eos=True, return_token_ids=True)

        assert chat["prompt_token_ids"] == tokens
        assert chat["choices"][0]["token_ids"] == plain["choices"][0]["token_ids"]
        said = await sim.json("/detokenize", tokens=chat["choices"][0]["token_ids"])
        assert said["prompt"] == chat["choices"][0]["message"]["content"]

    with_sim(test)


def test_history_is_found_in_the_cache() -> None:
    async def test(sim: Sim) -> None:
        first = await sim.json("/v1/chat/completions", messages=HELLO, max_tokens=60, ignore_eos=True)
        answer = first["choices"][0]["message"]
        turn = [*HELLO, {"role": "assistant", "content": answer["content"]}, {"role": "user", "content": "More!"}]
        second = await sim.json("/v1/chat/completions", messages=turn, max_tokens=1)

        held = first["usage"]["total_tokens"] - 1
        assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == held // 16 * 16

    with_sim(test)


def test_salts_and_adapters_do_not_share_blocks_and_a_salt_changes_no_word() -> None:
    async def test(sim: Sim) -> None:
        prompt = "word " * 40
        answers = [
            await sim.json("/v1/completions", prompt=prompt, **more)
            for more in ({}, {"cache_salt": "a"}, {"model": "tuned"}, {"cache_salt": "a"})
        ]
        cached = [answer["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in answers]
        plain, salted, tuned, again = (answer["choices"][0]["text"] for answer in answers)

        assert cached[:3] == [0, 0, 0]
        assert cached[3] > 0
        assert plain == salted == again
        assert tuned != plain

    with_sim(test, "--lora-modules", "tuned=/adapters/tuned")


def test_choices_differ_and_are_counted_together() -> None:
    async def test(sim: Sim) -> None:
        answer = await sim.json("/v1/completions", prompt=["a b", "c d"], n=2, max_tokens=8, ignore_eos=True)

        assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
        assert len({choice["text"] for choice in answer["choices"]}) == 4
        assert answer["usage"]["completion_tokens"] == 32

    with_sim(test)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("include", [False, True])
def test_a_stop_string_ends_the_text_and_the_work(*, stream: bool, include: bool) -> None:
    async def test(sim: Sim) -> None:
        ask = {"prompt": "x y", "max_tokens": 40, "ignore_eos": True}
        full = (await sim.json("/v1/completions", **ask))["choices"][0]["text"]
        stop = full[20:26]
        ask |= {"stop": [stop], "include_stop_str_in_output": include}
        if stream:
            events = await sim.stream("/v1/completions", **ask)
            text, last = text_of(events), events[-1]["choices"][0]
        else:
            last = (await sim.json("/v1/completions", **ask))["choices"][0]
            text = last["text"]

        assert text == full[: full.index(stop) + len(stop) * include]
        assert (last["finish_reason"], last["stop_reason"]) == ("stop", stop)
        assert await sim.metric("vllm:num_requests_running") == 0

    with_sim(test)


def test_answers_end_by_themselves() -> None:
    async def test(sim: Sim) -> None:
        answer = await sim.json("/v1/chat/completions", messages=HELLO)

        assert answer["choices"][0]["finish_reason"] == "stop"

    with_sim(test)


@pytest.mark.parametrize(
    ("choice", "reason"), [("required", "tool_calls"), ({"type": "function", "function": {"name": "weather"}}, "stop")]
)
def test_a_demanded_tool_call_is_valid_and_streams_the_same(choice: object, reason: str) -> None:
    async def test(sim: Sim) -> None:
        ask = {"messages": HELLO, "tools": [TOOL], "tool_choice": choice}
        whole = (await sim.json("/v1/chat/completions", **ask))["choices"][0]
        events = await sim.stream("/v1/chat/completions", **ask)
        pieces = [call for event in events for call in event["choices"][0]["delta"].get("tool_calls", [])]

        (call,) = whole["message"]["tool_calls"]
        assert call["function"] == {"name": "weather", "arguments": '{"city":"text","days":1,"unit":"C"}'}
        assert "".join(piece["function"]["arguments"] for piece in pieces) == call["function"]["arguments"]
        assert pieces[0]["function"]["name"] == "weather"
        assert whole["finish_reason"] == events[-1]["choices"][0]["finish_reason"] == reason

    with_sim(test)


def test_a_client_that_goes_stops_the_work() -> None:
    async def test(sim: Sim) -> None:
        async with sim.client.stream(
            "POST", "/v1/completions", json={"prompt": "a b", "max_tokens": 20_000, "ignore_eos": True, "stream": True}
        ) as answer:
            await anext(answer.aiter_lines())
        for _ in range(200):
            if await sim.metric("vllm:num_requests_running") == 0:
                break
        assert await sim.metric("vllm:kv_cache_usage_perc") == 0

    with_sim(test)


def test_pooling_endpoints_are_deterministic() -> None:
    async def test(sim: Sim) -> None:
        embedded = await sim.json("/v1/embeddings", input=["sea", "sea", "land"])
        vectors = [entry["embedding"] for entry in embedded["data"]]
        ranked = await sim.json("/v1/rerank", query="sea", documents=["land", "sea"], top_n=1)
        scored = await sim.json("/score", text_1="sea", text_2=["sea", "land"])

        assert vectors[0] == vectors[1] != vectors[2]
        assert [result["index"] for result in ranked["results"]] == [1]
        assert scored["data"][0]["score"] == pytest.approx(1.0)

    with_sim(test)


def test_models_health_version_and_metrics_are_there() -> None:
    async def test(sim: Sim) -> None:
        models = (await sim.client.get("/v1/models")).json()
        text = (await sim.client.get("/metrics")).text

        assert [(card["id"], card["parent"]) for card in models["data"]] == [
            ("one", None),
            ("two", None),
            ("tuned", "one"),
        ]
        assert (await sim.client.get("/health")).status_code == 200
        assert "version" in (await sim.client.get("/version")).json()
        for name in (
            "cache_config_info",
            "num_requests_waiting",
            "kv_cache_usage_perc",
            "prompt_tokens_by_source_total",
        ):
            assert f"vllm:{name}" in text

    with_sim(test, "--served-model-name", "one", "two", "--lora-modules", '{"name":"tuned","path":"/t"}')


BAD: list[tuple[str, dict[str, object], int, str]] = [
    ("/v1/completions", {"prompt": "a", "model": "unknown"}, 404, "does not exist"),
    ("/v1/completions", {"prompt": "a", "max_tokens": -1}, 400, "at least 1"),
    ("/v1/completions", {"prompt": "a", "max_tokens": 0}, 400, "at least 1"),
    ("/v1/completions", {"prompt": "a", "max_tokens": 1000}, 400, "cannot be greater than max_model_len"),
    ("/v1/completions", {"prompt": "a", "max_tokens": "ten"}, 400, "valid integer"),
    ("/v1/completions", {"prompt": "word " * 400}, 400, "maximum context length"),
    ("/v1/completions", {"prompt": [5, "a"]}, 400, "valid integer"),
    ("/v1/completions", {"prompt": [10**9]}, 400, "out of vocabulary"),
    ("/v1/completions", {"prompt": ""}, 400, "non-empty"),
    ("/v1/completions", {"prompt": ["a"] * 1025}, 400, "exceeds the maximum allowed count of 1024"),
    ("/v1/completions", {"prompt": "a", "stream_options": {}}, 400, "stream=True"),
    ("/v1/completions", {"prompt": "a", "n": 0}, 400, "n must be in"),
    ("/v1/completions", {"prompt": "a", "temperature": -1}, 400, "temperature"),
    ("/v1/completions", {"prompt": "a", "logprobs": 2}, 400, "no logprobs"),
    ("/v1/chat/completions", {}, 400, "Field required"),
    ("/v1/chat/completions", {"messages": "hi"}, 400, "valid list"),
    ("/v1/chat/completions", {"messages": [{"role": "alien", "content": "x"}]}, 400, "Input should be one of"),
    ("/v1/chat/completions", {"messages": HELLO, "tool_choice": "required"}, 400, "`tools` must be set"),
    ("/v1/embeddings", {}, 400, "Field required"),
    ("/tokenize", {"prompt": 5}, 400, "valid string"),
]


@pytest.mark.parametrize(
    ("path", "fields", "status", "words"), BAD, ids=[f"{p} {index}" for index, (p, _, _, _) in enumerate(BAD)]
)
def test_bad_input_gets_vllms_error(path: str, fields: dict[str, object], status: int, words: str) -> None:
    async def test(sim: Sim) -> None:
        answer = await sim.post(path, **fields)
        error = answer.json()["error"]

        assert (answer.status_code, error["code"]) == (status, status)
        assert words in error["message"]

    with_sim(test, "--max-model-len", "256")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/completions", b"{", 400),
        ("POST", "/v1/completions", b"\xff\xfe", 400),
        ("POST", "/v1/completions", b"[1]", 400),
        ("GET", "/nowhere", b"", 404),
        ("GET", "/v1/completions", b"", 405),
    ],
)
def test_what_is_no_request_is_refused(method: str, path: str, body: bytes, status: int) -> None:
    async def test(sim: Sim) -> None:
        answer = await sim.client.request(method, path, content=body)

        assert answer.status_code == answer.json()["error"]["code"] == status

    with_sim(test)


def test_a_full_queue_is_a_retryable_503() -> None:
    async def test(sim: Sim) -> None:
        ask = {"prompt": "a b", "max_tokens": 20_000, "ignore_eos": True, "stream": True}
        answers: list[httpx.Response] = []
        for _ in range(4):
            request = sim.client.build_request("POST", "/v1/completions", json=ask)
            answers.append(await sim.client.send(request, stream=True))
        statuses = [answer.status_code for answer in answers]
        for answer in answers:
            await answer.aclose()

        assert statuses[0] == 200
        assert statuses[-1] == 503

    with_sim(test, "--max-num-seqs", "1", "--max-num-queued-reqs", "1")


def test_ranks_have_caches_of_their_own() -> None:
    async def test(sim: Sim) -> None:
        async def ask(rank: str) -> httpx.Response:
            body = {"prompt": "word " * 40, "max_tokens": 1}
            return await sim.client.post("/v1/completions", json=body, headers={"x-data-parallel-rank": rank})

        cached = [(await ask(rank)).json()["usage"]["prompt_tokens_details"]["cached_tokens"] for rank in "0101"]
        assert cached[:2] == [0, 0]
        assert min(cached[2:]) > 0
        assert (await ask("2")).status_code == 400

    with_sim(test, "--data-parallel-size", "2")
