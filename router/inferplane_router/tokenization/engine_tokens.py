"""Tokens by the engine's own `/tokenize`, for what cannot be encoded here."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from inferplane_router.tokenization.agent_call import AgentCallError, AgentCalls

_CHAT_FIELDS: Final = (
    "messages", "add_generation_prompt", "continue_final_message", "add_special_tokens", "chat_template",
    "chat_template_kwargs", "mm_processor_kwargs", "tools",
)  # fmt: skip
# Fields that change a chat's tokens, but that the engine's /tokenize does not know.
_NOT_IN_TOKENIZE: Final = ("documents", "reasoning_effort", "truncate_prompt_tokens")


def tokenize_body(path: str, model_name: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what to ask `/tokenize`, or None when it would not answer for this request."""
    if any(body.get(name) is not None for name in _NOT_IN_TOKENIZE):
        return None
    if path == "/v1/chat/completions":
        asked = {name: body[name] for name in _CHAT_FIELDS if body.get(name) is not None}
        return {"model": model_name, **asked} if "messages" in asked else None
    if path == "/v1/completions" and isinstance(body.get("prompt"), str) and body.get("suffix") is None:
        special = body.get("add_special_tokens", True)
        return {"model": model_name, "prompt": body["prompt"], "add_special_tokens": special}
    return None


async def ask_engine(calls: AgentCalls, address: str, body: Mapping[str, Any]) -> NDArray[np.int32]:
    """Return the engine's tokens."""
    try:
        answer: Any = orjson.loads(await calls.post(address, "/tokenize", body))
        return np.array(answer["tokens"], np.int32)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise AgentCallError(f"{address}/tokenize gave no list of tokens: {error}") from error
