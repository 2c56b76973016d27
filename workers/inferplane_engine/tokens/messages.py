"""OpenAI chat messages to what a chat template is given, by vLLM's rules.

Contents become one text (parts joined by line ends, empty ones dropped) or a list of text parts, as the template wants;
tool calls get their arguments as objects; what the engine would look at a model for (images, audio) is refused.
Nothing here is guessed: a message that vLLM would refuse, or that it may see differently, is `NotEncodableError`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from inferplane_engine.tokens.content_format import ContentFormat
from inferplane_engine.tokens.json_shapes import is_list, is_object

Conversation = list[dict[str, Any]]

_TEXT_FIELDS: Final = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}
_MAY_BE_NONE: Final = frozenset({"text", "refusal"})
BILLING_HEADER: Final = "x-anthropic-billing-header"


class NotEncodableError(ValueError):
    """Only the engine can say what the tokens are (or why there are none); the message says why."""


def conversation(messages: Any, content_format: ContentFormat, *, developer_role: bool) -> Conversation:
    """Turn the request's `messages` into template values; `developer_role`: the template knows that role."""
    if not is_list(messages) or not messages:
        raise NotEncodableError("messages must be a list with at least one message")
    talk = [_message(entry, content_format, f"messages[{at}]") for at, entry in enumerate(messages)]
    if not developer_role and any(message["role"] == "developer" for message in talk):
        return _with_one_system_message([_as_system(message) for message in talk])
    return talk


def _message(entry: Any, content_format: ContentFormat, where: str) -> dict[str, Any]:
    if not is_object(entry):
        raise NotEncodableError(f"{where} must be an object")
    given = entry
    role = given.get("role")
    if not isinstance(role, str):
        raise NotEncodableError(f"{where}.role must be a text")
    message: dict[str, Any] = {"role": role, "content": _content(given, role, content_format, where)}
    if role == "assistant":
        _add_assistant_fields(message, given, where)
    elif role == "tool":
        if "tool_call_id" in given:
            message["tool_call_id"] = given["tool_call_id"]
        message["content"] = _joined(message["content"])
    message |= {name: given[name] for name in ("name", "task") if isinstance(given.get(name), str)}
    if role == "developer":
        message["tools"] = given.get("tools")
    return message


def _content(given: Mapping[str, Any], role: str, content_format: ContentFormat, where: str) -> Any:
    content = given.get("content")
    if isinstance(content, str) and role != "system" and content_format is not ContentFormat.PARTS:
        return encodable(content)  # what is below, for nearly all messages
    if content is None:
        parts: list[Any] = []
    elif isinstance(content, str):
        parts = [content]
    elif is_list(content):
        parts = content
    else:
        raise NotEncodableError(f"{where}.content must be a text or a list of parts")
    texts = [text for at, part in enumerate(parts) if (text := _text(part, f"{where}.content[{at}]")) is not None]
    if role == "system":
        texts = _without_billing_header(texts)
    if content_format is ContentFormat.PARTS:
        return [{"type": "text", "text": text} for text in texts]
    return "\n".join(text for text in texts if text)


def _text(part: Any, where: str) -> str | None:
    """Return a part's text, or None for one that is skipped."""
    if isinstance(part, str):
        return encodable(part)
    if not is_object(part):
        raise NotEncodableError(f"{where} must be a text or an object")
    kind = part.get("type")
    if not isinstance(kind, str) or kind not in _TEXT_FIELDS or part.get("uuid") is not None:
        raise NotEncodableError(f"{where} is of type {kind!r}: only the engine can turn that into tokens")
    text = part.get(_TEXT_FIELDS[kind])
    if text is None and kind in _MAY_BE_NONE:
        return None
    if not isinstance(text, str):
        raise NotEncodableError(f"{where}.{_TEXT_FIELDS[kind]} must be a text")
    return encodable(text)


def encodable(text: str) -> str:
    """Raise UnicodeEncodeError for lone surrogates, which the fast renderer would replace."""
    if not text.isascii():  # which is known of a text without looking at it
        text.encode()
    return text


def _without_billing_header(texts: Sequence[str]) -> list[str]:
    """Drop the line that one client puts before its system prompt; the engine drops it, since it changes every time."""
    kept = [text.partition("\n")[2] if text.startswith(BILLING_HEADER) else text for text in texts]
    return [text for text, before in zip(kept, texts, strict=True) if text or text == before]


def _add_assistant_fields(message: dict[str, Any], given: Mapping[str, Any], where: str) -> None:
    calls = given.get("tool_calls")
    if is_list(calls):
        if calls:
            message["tool_calls"] = [_tool_call(call, f"{where}.tool_calls[{at}]") for at, call in enumerate(calls)]
    elif calls is not None:
        raise NotEncodableError(f"{where}.tool_calls must be a list")
    reasoning = given.get("reasoning")
    if reasoning is None:
        reasoning = given.get("reasoning_content")
    if reasoning is not None:
        message["reasoning"] = message["reasoning_content"] = reasoning


def _tool_call(call: Any, where: str) -> dict[str, Any]:
    """Return the fields in the engine's order, since templates print them as JSON."""
    function = call.get("function") if is_object(call) else None
    if not is_object(call) or not is_object(function) or call.get("type", "function") != "function":
        raise NotEncodableError(f"{where} must be of type 'function' with a function object")
    known: dict[str, Any] = {"arguments": _arguments(function.get("arguments"))}
    if "name" in function:
        known["name"] = function["name"]
    ordered: dict[str, Any] = {"id": call["id"]} if "id" in call else {}
    return ordered | {"function": known, "type": "function"}


def _arguments(given: Any) -> Mapping[str, Any]:
    """Parse a call's arguments; what is no JSON object counts as none, as in the engine."""
    if isinstance(given, str):
        try:
            given = json.loads(given) if given else {}
        except ValueError:
            return {}
    return given if is_object(given) else {}


def _as_system(message: dict[str, Any]) -> dict[str, Any]:
    if message["role"] != "developer":
        return message
    return {**{name: value for name, value in message.items() if name != "tools"}, "role": "system"}


def _with_one_system_message(talk: Conversation) -> Conversation:
    """Merge system messages into one at the start, unless there is only one and it stands there."""
    at = [index for index, message in enumerate(talk) if message["role"] == "system"]
    if at in ([], [0]):
        return talk
    contents = (_joined(talk[index]["content"]) for index in at)
    merged = {"role": "system", "content": "\n\n".join(content for content in contents if content)}
    return [merged, *(message for message in talk if message["role"] != "system")]


def _joined(content: Any) -> str:
    return "\n".join(part["text"] for part in content) if is_list(content) else str(content)
