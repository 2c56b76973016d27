"""Chats of nothing but texts, which nearly all are: recognised by a look at each message.

Problem: following an engine's rules for tools, parts, calls, reasoning and template arguments costs more than rendering
the template, and most chats have none of them.
Idea: for a chat of plain texts and known roles all those rules come to nothing, so that its messages are given to the
template as they came.
Invariant: what `plain_talk` returns is what `messages.conversation` would make of the body, in the same order.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from inferplane_engine.tokens.json_shapes import is_list
from inferplane_engine.tokens.messages import BILLING_HEADER, encodable

_FIELDS: Final = frozenset(
    {
        "add_generation_prompt", "add_special_tokens", "chat_template", "chat_template_kwargs",
        "continue_final_message", "documents", "reasoning_effort", "tool_choice", "tools", "truncate_prompt_tokens",
        "truncation_side",
    }
)  # fmt: skip
"""What else in a body has a say in its prompt."""
_KEYS: Final = ("role", "content")
_ROLES: Final = frozenset({"user", "assistant", "system"})


def plain_talk(body: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the messages of a body that brings nothing but texts, None for any other."""
    messages: Any = body.get("messages")
    if not _FIELDS.isdisjoint(body) or not is_list(messages) or not all(map(_is_plain, messages)):
        return None
    return messages or None


def _is_plain(message: Any) -> bool:
    """Whether a message has a role, a text and nothing else; raises UnicodeEncodeError as `messages` does."""
    if type(message) is not dict or tuple(cast("dict[str, Any]", message)) != _KEYS:
        return False
    role, content = cast("dict[str, Any]", message).values()
    if type(role) is not str or type(content) is not str or role not in _ROLES:
        return False
    encodable(content)
    return role != "system" or not content.startswith(BILLING_HEADER)
