"""What fast implementations are compared on before they are trusted: texts and conversations that break things."""

from typing import Any, Final

# ruff: noqa: RUF001  # look-alike characters are the point
TEXTS: Final = (
    "",
    " ",
    "Hello, world! How's it going? I'll see you'd've.",
    "  two spaces, then   three\t\ttabs\n\n\nand lines \r\n end ",
    "def f(x: int) -> str:\n    return f'{x!r:>8}'  # naïve café\n\n\n\tif x:\n\t\tpass\n",
    "1234567890 3.14159 12,345,678 0x1F 2026-01-02T03:04:05Z 50% $9.99 ½ ² ٣ ५",
    "日本語のテキストと中文文本，한국어 텍스트。ไทย العربية עברית हिन्दी Ελληνικά Русский",
    "👩‍👩‍👧‍👦 🇩🇪 👍🏽 ❤️ e\u0301 \u00e9 \u1e9b\u0323 \ufb01 Å \u212b \u200b\u200d\ufeff\u00a0\u2028\u3000",
    "\x00\x01\x07\x1b[0m\x7f\x80\x9f \ufffd \U0001f9ff \U000e0041 \U00010348",
    "<s></s><unk><pad><bos><eos><|endoftext|><|im_start|>user\nhi<|im_end|>\n<think>\n\n</think>",
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n<|eot_id|><|start|>a<|message|>b<|end|>",
    "<start_of_turn>user\n<end_of_turn> <｜begin▁of▁sentence｜><｜User｜>x<｜Assistant｜> ▁▁ Ġ Ċ <0x0A>",
    "<|im_start|" + "aaaaaaaaaaaaaaaa" * 20 + "\n" * 40 + " " * 40 + "-" * 40 + "=" * 80,
    'https://example.org/a/b?c=d&e=%20f#g user@example.org C:\\dir\\file.txt {"k": [1, 2.5, null, true]}',
    "ALLCAPS camelCase snake_case kebab-case don't DON'T 'S 'LL it's IT'S",
)

_TOOL: Final = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": 'Weather of a place: "now" & <later> é',
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string"}, "days": {"type": "number", "default": 1, "maximum": 100}},
            "required": ["place"],
            "nullable": None,
            "strict": True,
        },
    },
}
_CALL: Final[dict[str, Any]] = {
    "id": "call_0",
    "type": "function",
    "function": {
        "name": "get_weather",
        "arguments": {
            "place": 'Zürich "<&>"',
            "days": 2,
            "ratio": 7,
            "ok": True,
            "none": None,
            "deep": {"a": [1, []]},
        },
    },
}


def conversations() -> tuple[dict[str, Any], ...]:
    """Return template variables, as the engine passes them (contents as text)."""
    user = {"role": "user", "content": "What's <b>new</b>?\n  é 日本 "}
    system = {"role": "system", "content": "Be brief."}
    answer = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nNothing. "}
    call: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [_CALL]}
    two_calls: dict[str, Any] = {"role": "assistant", "content": "Both.", "tool_calls": [_CALL, _CALL]}
    result = {"role": "tool", "content": "rain", "tool_call_id": "call_0", "name": "get_weather"}
    reasoned = {"role": "assistant", "content": "Yes.", "reasoning": "because", "reasoning_content": "because"}
    talks: tuple[list[dict[str, Any]], ...] = (
        [user],
        [system, user],
        [user, answer, user],
        [system, user, answer, user, answer, user],
        [user, reasoned, user],
        [user, call, result],
        [system, user, call, result, answer, user],
        [user, two_calls, result, result, user],
        [user, {"role": "user", "content": "again"}],
        [system, {"role": "custom", "content": "odd role"}],
        [answer],
        [{"role": "user", "content": ""}],
    )
    settings: tuple[dict[str, Any], ...] = (
        {"add_generation_prompt": True},
        {"add_generation_prompt": False},
        {"add_generation_prompt": True, "tools": [_TOOL]},
        {"add_generation_prompt": True, "tools": [_TOOL, _TOOL], "enable_thinking": False, "thinking": True},
        {"add_generation_prompt": True, "documents": [{"title": "t", "text": "x"}], "enable_thinking": True},
    )
    return tuple({"messages": talk, "tools": None, "documents": None, **more} for talk in talks for more in settings)


def in_parts(variables: dict[str, Any]) -> dict[str, Any]:
    """Return the same conversation with contents as lists of text parts."""
    messages = [
        {**message, "content": [{"type": "text", "text": message["content"]}]} if message["role"] != "tool" else message
        for message in variables["messages"]
    ]
    return {**variables, "messages": messages}
