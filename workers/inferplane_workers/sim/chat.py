"""/v1/chat/completions: messages in, JSON in vLLM's shape out."""

import time
from collections.abc import Sequence

from inferplane_workers.sim.errors import bad_request, invalid_field
from inferplane_workers.sim.fields import Body, as_object
from inferplane_workers.sim.generation import Choice, Delta
from inferplane_workers.sim.text import TextModel
from inferplane_workers.sim.tools import ToolCall

CHAT_PATH = "/v1/chat/completions"
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


class ChatShape:
    """JSON of chat answers."""

    def __init__(
        self, request_id: str, model: str, prompt: tuple[int, ...], *, token_ids: bool, tool: ToolCall | None
    ) -> None:
        self._id = request_id
        self._model = model
        self._created = int(time.time())
        self._prompt = prompt
        self._token_ids = token_ids
        self._tool = tool

    def _chunk(self, choices: list[dict[str, object]]) -> dict[str, object]:
        return {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
            "choices": choices,
        }

    def opening(self, choice: Choice) -> dict[str, object]:
        chunk = self._chunk(
            [
                {
                    "index": choice.index,
                    "delta": {"role": "assistant", "content": ""},
                    "logprobs": None,
                    "finish_reason": None,
                }
            ]
        )
        if self._token_ids:
            chunk["prompt_token_ids"] = self._prompt
        return chunk

    def delta(self, delta: Delta) -> dict[str, object]:
        choice = delta.choice
        content = {"content": delta.text} if self._tool is None else self._tool.delta(len(choice.tokens), choice)
        value: dict[str, object] = {
            "index": choice.index,
            "delta": content,
            "logprobs": None,
            "finish_reason": self._reason(choice),
        }
        if choice.reason is not None:
            value["stop_reason"] = choice.stop_reason
        value["token_ids"] = delta.tokens if self._token_ids else None
        return self._chunk([value])

    def last(self, usage: dict[str, object]) -> dict[str, object]:
        return self._chunk([]) | {"usage": {key: value for key, value in usage.items() if value is not None}}

    def whole(
        self, choices: Sequence[Choice], usage: dict[str, object], transfer: dict[str, object] | None
    ) -> dict[str, object]:
        return {
            "id": self._id,
            "object": "chat.completion",
            "created": self._created,
            "model": self._model,
            "choices": [self._choice(choice) for choice in choices],
            "service_tier": None,
            "system_fingerprint": None,
            "usage": usage,
            "prompt_logprobs": None,
            "prompt_token_ids": self._prompt if self._token_ids else None,
            "kv_transfer_params": transfer,
        }

    def _choice(self, choice: Choice) -> dict[str, object]:
        return {
            "index": choice.index,
            "message": {
                "role": "assistant",
                "content": choice.text if self._tool is None else None,
                "refusal": None,
                "annotations": None,
                "audio": None,
                "function_call": None,
                "tool_calls": [] if self._tool is None else [self._tool.whole(choice.index)],
                "reasoning": None,
            },
            "logprobs": None,
            "finish_reason": self._reason(choice),
            "stop_reason": choice.stop_reason,
            "token_ids": choice.tokens if self._token_ids else None,
        }

    def _reason(self, choice: Choice) -> str | None:
        if choice.reason is None or self._tool is None:
            return choice.reason
        return "stop" if self._tool.named else "tool_calls"


def read_prompt(text: TextModel, body: Body) -> tuple[int, ...]:
    """Check the messages in vLLM's words, then make the prompt of them; raises ApiError."""
    body.required("messages")
    listed = body.items("messages")
    if not listed:
        raise bad_request("messages must not be empty.", "messages")
    for index, value in enumerate(listed):
        _check_message(as_object(value, (*body.at("messages"), index)))
    if body.flag("continue_final_message") and body.raw("add_generation_prompt") is True:
        raise bad_request("Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
    (prompt,) = text.prompts(CHAT_PATH, body.values)
    return prompt


def _check_message(message: Body) -> None:
    role = message.text("role")
    if role not in _ROLES:
        raise invalid_field("enum", message.at("role"), f"Input should be one of {', '.join(_ROLES)}", role)
    content = message.raw("content")
    if content is not None and not isinstance(content, str | list):
        raise invalid_field("string_type", message.at("content"), "Input should be a valid string", content)
