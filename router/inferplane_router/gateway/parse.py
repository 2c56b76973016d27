"""Request bodies: parsed once, checked as far as routing needs, cleaned of what no client may say.

Problem: a gateway that judges too much breaks new engine features; one that judges nothing lets a body command KV
transfers or reach another tenant's cache.
Idea: check only the fields that routing reads (types and signs) and leave the rest to the engine, whose errors pass
through.  What is removed is removed here and, again, at the agent.
Invariant: the bytes that are forwarded are the client's own unless a field had to change.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, cast

import orjson

from inferplane_engine.identity import engine_salt
from inferplane_router.gateway.errors import BadRequestError
from inferplane_runtime.http.json_body import JsonBodyError, read_object

Body = dict[str, Any]

_FORBIDDEN: Final = ("kv_transfer_params", "ec_transfer_params")
_FORBIDDEN_XARGS: Final = (*_FORBIDDEN, "kv_cache_report_mode")
_INT32: Final = 2**31 - 1
_MAX_CHOICES: Final = 1024


class Route(Enum):
    """What a path asks for, as far as routing cares."""

    CHAT = "chat"
    COMPLETION = "completion"
    PLAIN = "plain"
    """Passed to the least loaded worker as it is."""


ROUTES: Final[dict[bytes, Route]] = {
    b"/v1/chat/completions": Route.CHAT,
    b"/v1/completions": Route.COMPLETION,
    b"/v1/embeddings": Route.PLAIN,
    b"/v1/rerank": Route.PLAIN,
    b"/v1/score": Route.PLAIN,
    b"/tokenize": Route.PLAIN,
    b"/detokenize": Route.PLAIN,
}


@dataclass(slots=True)
class ParsedBody:
    """A body that may be routed; `changed` when the client's bytes no longer say what `body` says."""

    body: Body
    raw: bytes
    model: str
    stream: bool
    max_tokens: int
    """0 when the client gave none."""
    salt: str | None
    """As the engine will see it."""
    changed: bool = False

    def with_model(self, name: str) -> None:
        """Ask the engine for the name that it knows."""
        if name != self.model:
            self.body["model"] = name
            self.changed = True

    def encoded(self) -> bytes:
        return orjson.dumps(self.body) if self.changed else self.raw


def parse(route: Route, raw: bytes, *, tenant: str = "") -> ParsedBody:
    """Read a body, or say which field is wrong."""
    body = _object(raw)
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequestError("model is required: the name of a served model", param="model")
    if route is Route.CHAT:
        _check_messages(body.get("messages"))
    elif route is Route.COMPLETION:
        _check_prompt(body)
    stream = _flag(body, "stream")
    max_tokens = _max_tokens(body)
    _count(body, "n", low=1, high=_MAX_CHOICES)
    changed = _strip(body)
    salt, salted = _salt(body, tenant)
    return ParsedBody(body, raw, model, stream, max_tokens, salt, changed or salted)


def _object(raw: bytes) -> Body:
    try:
        return read_object(raw)
    except JsonBodyError as error:
        raise BadRequestError(str(error)) from None


def _check_messages(messages: object) -> None:
    items = cast("list[object]", messages) if isinstance(messages, list) else []
    if not items:
        raise BadRequestError("messages is required: a list with at least one message", param="messages")
    for number, message in enumerate(items):
        if not isinstance(message, dict):
            raise BadRequestError("a message must be an object with role and content", param=f"messages[{number}]")
        role = cast("Body", message).get("role")
        if not isinstance(role, str):
            raise BadRequestError("role is required in every message", param=f"messages[{number}].role")


def _check_prompt(body: Body) -> None:
    prompt = body.get("prompt")
    if prompt is None and body.get("prompt_embeds") is not None:
        return
    if not isinstance(prompt, str) and not (isinstance(prompt, list) and _prompts(cast("list[object]", prompt))):
        raise BadRequestError(
            "prompt is required: text, a list of texts, token ids or a list of token ids", param="prompt"
        )


def _prompts(items: list[object]) -> bool:
    return bool(items) and (_all(_is_token, items) or _all(_is_text, items) or _all(_is_token_list, items))


def _all(check: Callable[[object], bool], items: list[object]) -> bool:
    return all(check(item) for item in items)


def _is_text(item: object) -> bool:
    return isinstance(item, str)


def _is_token(item: object) -> bool:
    return type(item) is int and 0 <= item <= _INT32


def _is_token_list(item: object) -> bool:
    tokens = cast("list[object]", item) if isinstance(item, list) else []
    return bool(tokens) and _all(_is_token, tokens)


def _flag(body: Body, name: str) -> bool:
    value = body.get(name)
    if value is None or isinstance(value, bool):
        return value is True
    raise BadRequestError(f"{name} must be true or false", param=name)


def _max_tokens(body: Body) -> int:
    newer = _count(body, "max_completion_tokens", low=0, high=_INT32)
    return newer or _count(body, "max_tokens", low=0, high=_INT32)


def _count(body: Body, name: str, *, low: int, high: int) -> int:
    value = body.get(name)
    if value is None:
        return 0
    if type(value) is not int:
        raise BadRequestError(f"{name} must be a whole number", param=name)
    if not low <= value <= high:
        raise BadRequestError(f"{name} must be between {low} and {high}, got {value}", param=name)
    return value


def _strip(body: Body) -> bool:
    """Remove what no client may set: a stale or forged transfer ends an engine."""
    found = False
    for name in _FORBIDDEN:
        if name in body:
            del body[name]
            found = True
    xargs = body.get("vllm_xargs")
    if isinstance(xargs, dict):
        entries = cast("Body", xargs)
        for name in _FORBIDDEN_XARGS:
            if name in entries:
                del entries[name]
                found = True
        if found and not entries:
            del body["vllm_xargs"]
    return found


def _salt(body: Body, tenant: str) -> tuple[str | None, bool]:
    """Replace the client's salt by ours: used alone it would reach another tenant's blocks."""
    given = body.pop("cache_salt", None)
    if given is not None and (not isinstance(given, str) or not given):
        raise BadRequestError("cache_salt must be text that is not empty", param="cache_salt")
    salt = engine_salt(tenant, given or "")
    if salt is not None:
        body["cache_salt"] = salt
    return salt, salt is not None
