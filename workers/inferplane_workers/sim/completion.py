"""/v1/completions: prompts as text or tokens in, JSON in vLLM's shape out."""

import time
from collections.abc import Sequence
from typing import cast

from inferplane_workers.sim.errors import bad_request
from inferplane_workers.sim.fields import Body, as_tokens
from inferplane_workers.sim.generation import Choice, Delta
from inferplane_workers.sim.text import TextModel

COMPLETION_PATH = "/v1/completions"
_MAX_PROMPTS = 1024
"""As vLLM's default."""


class CompletionShape:
    """JSON of completions."""

    def __init__(self, request_id: str, model: str, *, token_ids: bool, echo: dict[int, str]) -> None:
        self._id = request_id
        self._model = model
        self._created = int(time.time())
        self._token_ids = token_ids
        self._echo = echo
        self._given: set[int] = set()

    def _base(self, kind: str) -> dict[str, object]:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._model}

    def opening(self, choice: Choice) -> dict[str, object] | None:
        del choice
        return None

    def delta(self, delta: Delta) -> dict[str, object]:
        choice = delta.choice
        first = choice.index not in self._given
        self._given.add(choice.index)
        value: dict[str, object] = {
            "index": choice.index,
            "text": (self._echo.get(choice.index, "") if first else "") + delta.text,
            "logprobs": None,
            "finish_reason": choice.reason,
            "stop_reason": choice.stop_reason,
            "prompt_token_ids": choice.prompt if first and self._token_ids else None,
            "token_ids": delta.tokens if self._token_ids else None,
        }
        return self._base("text_completion") | {"choices": [value]}

    def last(self, usage: dict[str, object]) -> dict[str, object]:
        kept = {key: value for key, value in usage.items() if value is not None}
        none: list[object] = []
        return self._base("text_completion") | {"choices": none, "usage": kept}

    def whole(
        self, choices: Sequence[Choice], usage: dict[str, object], transfer: dict[str, object] | None
    ) -> dict[str, object]:
        return self._base("text_completion") | {
            "choices": [self._choice(choice) for choice in choices],
            "service_tier": None,
            "system_fingerprint": None,
            "usage": usage,
            "kv_transfer_params": transfer,
        }

    def _choice(self, choice: Choice) -> dict[str, object]:
        return {
            "index": choice.index,
            "text": self._echo.get(choice.index, "") + choice.text,
            "logprobs": None,
            "finish_reason": choice.reason,
            "stop_reason": choice.stop_reason,
            "token_ids": choice.tokens if self._token_ids else None,
            "prompt_logprobs": None,
            "prompt_token_ids": choice.prompt if self._token_ids else None,
        }


def read_prompts(text: TextModel, body: Body) -> list[tuple[int, ...]]:
    """One or several prompts, as tokens; raises ApiError."""
    value = body.raw("prompt")
    if value is None or value in ("", []):
        raise bad_request("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
    if isinstance(value, str):
        return text.prompts(COMPLETION_PATH, body.values)
    if not isinstance(value, list):
        raise bad_request(
            "prompt must be a string, array of strings, array of tokens, or array of token arrays.", "prompt"
        )
    listed = cast("list[object]", value)
    if isinstance(listed[0], int):
        as_tokens(listed, body.at("prompt"), text.size)
    elif len(listed) > _MAX_PROMPTS:
        raise bad_request(
            f"prompt list length {len(listed)} exceeds the maximum allowed count of {_MAX_PROMPTS}.", "prompt"
        )
    for index, prompt in enumerate(listed):
        if isinstance(prompt, list):
            as_tokens(cast("object", prompt), (*body.at("prompt"), index), text.size)
    prompts = text.prompts(COMPLETION_PATH, body.values)
    if not all(prompts):
        raise bad_request("The decoder prompt cannot be empty", "prompt")
    return prompts
