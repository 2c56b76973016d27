"""Token counts of one answer, as the engine says them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts of one answer; `cached` is None when the engine did not say."""

    prompt: int = 0
    output: int = 0
    cached: int | None = None


def from_object(value: object) -> Usage | None:
    """Read an OpenAI usage object; None when it is none."""
    if not isinstance(value, dict):
        return None
    fields = cast("Mapping[str, Any]", value)
    return Usage(
        prompt=_count(fields.get("prompt_tokens")) or 0,
        output=_count(fields.get("completion_tokens")) or 0,
        cached=_cached(fields.get("prompt_tokens_details")),
    )


def from_bytes(raw: bytes) -> Usage | None:
    try:
        return from_object(orjson.loads(raw))
    except orjson.JSONDecodeError:
        return None


def from_answer(raw: bytes) -> tuple[Usage | None, dict[str, Any] | None]:
    """Read a complete unstreamed answer: its usage, and the answer itself when it is a JSON object."""
    try:
        value: object = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None, None
    if not isinstance(value, dict):
        return None, None
    fields = cast("dict[str, Any]", value)
    return from_object(fields.get("usage")), fields


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _cached(details: object) -> int | None:
    if not isinstance(details, dict):
        return None
    return _count(cast("Mapping[str, Any]", details).get("cached_tokens"))
