"""Requests that a prompt's encoding can go wrong on: [path, body] pairs, JSON alone."""

from typing import Any

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"

USER: dict[str, Any] = {"role": "user", "content": "What's <b>new</b>? é 日本 👍🏽 <|im_end|><eos></s>\n"}
SYSTEM: dict[str, Any] = {"role": "system", "content": "Be brief."}
ANSWER: dict[str, Any] = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nNothing. "}
CALL: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "type": "function",
            "id": "call_1",
            "function": {
                "name": "weather",
                "arguments": '{"place": "Zürich \\"<&>\\"", "days": 2.0, "deep": [1, {"a": null}]}',
            },
        }
    ],
}
BROKEN_CALL: dict[str, Any] = {
    "role": "assistant",
    "content": "Both.",
    "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{not json"}},
        {"id": "b", "type": "function", "function": {"name": "weather", "arguments": "[1]"}},
        {"id": "c", "type": "function", "function": {"name": "weather", "arguments": ""}},
    ],
}
RESULT: dict[str, Any] = {
    "role": "tool",
    "content": [{"type": "text", "text": "rain"}, {"type": "text", "text": "sun"}],
    "tool_call_id": "call_1",
}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "parameters": {"type": "object", "properties": {"days": {"type": "number", "maximum": 1e20}}, "strict": True},
        "name": "weather",
        "description": 'Weather: "now" & <later> é',
        "unknown": 1,
    },
    "unknown": 2,
}
BARE_TOOL: dict[str, Any] = {"type": "function", "function": {"name": "stop"}}
STRICT_TOOL: dict[str, Any] = {"type": "function", "function": {"name": "stop", "strict": False, "parameters": {}}}


def chat(*messages: dict[str, Any], **fields: Any) -> tuple[str, dict[str, Any]]:
    return CHAT, {"model": "m", "messages": list(messages), **fields}


def parts(*texts: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    chat(USER),
    chat(SYSTEM, USER),
    chat(SYSTEM, USER, ANSWER, USER),
    chat(USER, ANSWER, USER, ANSWER, USER),
    chat(parts("one", "", "two")),
    chat(parts("system one", "two", role="system"), parts("user")),
    chat({"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "refusal", "refusal": "no"}]}),
    chat({"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]}),
    chat({"role": "user", "content": "", "name": "bob"}),
    chat({"role": "user", "content": None}),
    chat({"role": "developer", "content": "dev"}, USER),
    chat(SYSTEM, USER, {"role": "developer", "content": "late"}, USER),
    chat({"role": "system", "content": "x-anthropic-billing-header: cch=1\nReal prompt"}, USER),
    chat(
        {
            "role": "system",
            "content": [{"type": "text", "text": "x-anthropic-billing-header: 1"}, {"type": "text", "text": "b"}],
        },
        USER,
    ),
    chat(USER, {"role": "assistant", "content": "Yes.", "reasoning_content": "because"}, USER),
    chat(USER, {"role": "assistant", "content": "Yes.", "reasoning": "because"}, USER),
    chat(USER, CALL, RESULT),
    chat(SYSTEM, USER, CALL, RESULT, ANSWER, USER, tools=[TOOL]),
    chat(USER, BROKEN_CALL, RESULT, RESULT, tools=[TOOL, BARE_TOOL, STRICT_TOOL]),
    chat(USER, {**CALL, "tool_calls": []}, USER),
    chat(USER, tools=[TOOL]),
    chat(USER, tools=[TOOL], tool_choice="none"),
    chat(USER, tools=[TOOL], tool_choice="auto"),
    chat(USER, tools=[BARE_TOOL], tool_choice={"type": "function", "function": {"name": "stop"}}),
    chat(USER, tools=[]),
    chat(USER, add_generation_prompt=False),
    chat(USER, add_special_tokens=True),
    chat(USER, ANSWER, add_generation_prompt=False, continue_final_message=True),
    chat(USER, parts("goes on", role="assistant"), add_generation_prompt=False, continue_final_message=True),
    chat(USER, ANSWER, continue_final_message=True),
    chat(USER, chat_template_kwargs={"enable_thinking": False}),
    chat(USER, chat_template_kwargs={"enable_thinking": True, "unknown": 1, "add_generation_prompt": False}),
    chat(USER, chat_template_kwargs={"enable_thinking": None}),
    chat(USER, reasoning_effort="none"),
    chat(USER, reasoning_effort="high"),
    chat(USER, documents=[{"title": "t", "text": "x"}]),
    chat(USER, truncate_prompt_tokens=5),
    chat(USER, truncate_prompt_tokens=5, add_special_tokens=True),
    chat(USER, truncate_prompt_tokens=4000),
    chat({"role": "custom", "content": "odd"}),
    chat(),
    chat({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y.png"}}]}),
    chat({"role": "user", "content": 5}),
    (TEXT, {"model": "m", "prompt": "Once upon a time\n é <|im_start|> <bos>"}),
    (TEXT, {"model": "m", "prompt": "no special", "add_special_tokens": False}),
    (TEXT, {"model": "m", "prompt": ""}),
    (TEXT, {"model": "m", "prompt": "one two three four five six seven", "truncate_prompt_tokens": 4}),
    (
        TEXT,
        {
            "model": "m",
            "prompt": "one two three four five six seven",
            "truncate_prompt_tokens": 4,
            "add_special_tokens": False,
        },
    ),
    (TEXT, {"model": "m", "prompt": [1, 2, 3]}),
    (TEXT, {"model": "m", "prompt": [1, 2, 3, 4], "truncate_prompt_tokens": 2}),
    (TEXT, {"model": "m", "prompt": [1, 2, 3, 4], "truncate_prompt_tokens": 2, "truncation_side": "right"}),
]
