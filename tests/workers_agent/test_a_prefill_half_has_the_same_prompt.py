from typing import Any

import pytest

from inferplane_workers.agent import body as bodies

PROMPT_SHAPING = {
    "model": "m",
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "tool_choice": "auto",
    "response_format": {"type": "json_object"},
    "chat_template_kwargs": {"enable_thinking": False},
    "reasoning_effort": "low",
    "add_generation_prompt": True,
    "cache_salt": "s",
    "truncate_prompt_tokens": 10,
}


def test_whatever_shapes_the_prompt_is_the_same_on_both_sides() -> None:
    half = bodies.for_prefill({**PROMPT_SHAPING, "stream": True, "max_tokens": 50}, {"do_remote_decode": True})

    assert {name: half[name] for name in PROMPT_SHAPING} == PROMPT_SHAPING


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, {"max_tokens": 1}, id="nothing asked"),
        pytest.param({"max_tokens": 100}, {"max_tokens": 1}, id="max_tokens"),
        pytest.param(
            {"max_completion_tokens": 100}, {"max_tokens": 1, "max_completion_tokens": 1}, id="max_completion_tokens"
        ),
        pytest.param({"min_tokens": 5}, {"max_tokens": 1}, id="min_tokens would exceed max_tokens"),
        pytest.param({"stream": True, "stream_options": {"include_usage": True}}, {"max_tokens": 1}, id="stream"),
        pytest.param({"logprobs": True, "top_logprobs": 3}, {"max_tokens": 1}, id="logprobs"),
        pytest.param({"n": 1, "best_of": 1}, {"max_tokens": 1}, id="n"),
    ],
)
def test_the_half_asks_for_one_unstreamed_token(given: dict[str, Any], expected: dict[str, Any]) -> None:
    half = bodies.for_prefill({"prompt": "p", **given}, {"do_remote_decode": True})

    assert half == {"prompt": "p", **expected, "stream": False, "kv_transfer_params": {"do_remote_decode": True}}


def test_the_decode_half_is_the_request_and_the_parameters_verbatim() -> None:
    params = {"do_remote_prefill": True, "remote_block_ids": [[3, 4]], "unknown": {"kept": None}}

    assert bodies.for_decode({"prompt": "p", "max_tokens": 9}, params) == {
        "prompt": "p",
        "max_tokens": 9,
        "kv_transfer_params": params,
    }


@pytest.mark.parametrize(
    ("given", "possible"),
    [
        pytest.param({"prompt": "p"}, True, id="text"),
        pytest.param({"prompt": [1, 2, 3]}, True, id="token ids"),
        pytest.param({"prompt": ["p"]}, True, id="a list of one"),
        pytest.param({"prompt": ["p", "q"]}, False, id="two prompts"),
        pytest.param({"prompt": [[1], [2]]}, False, id="two lists of token ids"),
        pytest.param({"n": 2}, False, id="n"),
        pytest.param({"best_of": 3}, False, id="best_of"),
        pytest.param({"use_beam_search": True}, False, id="beam search"),
        pytest.param({"prompt_logprobs": 1}, False, id="prompt logprobs"),
        pytest.param({"echo": True, "logprobs": 1}, False, id="echo with logprobs"),
        pytest.param({"echo": True}, True, id="echo alone"),
        pytest.param({"n": 1}, True, id="n of one"),
    ],
)
def test_what_cannot_be_handed_off_is_known(given: dict[str, Any], *, possible: bool) -> None:
    assert bodies.shape(given).handoff_possible is possible


def test_usage_is_asked_for_without_losing_the_clients_options() -> None:
    body: dict[str, Any] = {"stream": True, "stream_options": {"other": 1}}
    bodies.ask_for_usage(body)

    assert body["stream_options"] == {"other": 1, "include_usage": True, "continuous_usage_stats": True}
