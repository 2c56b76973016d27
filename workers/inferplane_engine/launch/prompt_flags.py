"""Which of a user's engine arguments change how prompts become tokens, as flags for the engine's agent.

Problem: a router makes the engine's tokens from the model's files, and some arguments make the engine use them in
another way.  Idea: these arguments are given to the agent too, in one spelling; it serves them beside the model's files
(`engine_prompt_options.json`), so they are part of the digest that routers go by.
Trade-off: other arguments that change tokens (another tokenizer, say) are not known here; a router finds them out,
since it compares its tokens with its engine's before it uses them.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, TypeGuard

CHAT_TEMPLATE: Final = "--chat-template"
CONTENT_FORMAT: Final = "--chat-template-content-format"
TEMPLATE_ARGUMENTS: Final = "--default-chat-template-kwargs"
EXCLUDE_TOOLS: Final = "--exclude-tools-when-tool-choice-none"
_FLAGS: Final = (CHAT_TEMPLATE, CONTENT_FORMAT, TEMPLATE_ARGUMENTS, EXCLUDE_TOOLS)
_SHORTEST_PREFIXES: Final = ("--chat-template-", "--default-chat", "--exclude-tools")


def prompt_flags(args: tuple[str, ...]) -> tuple[str, ...]:
    """Return the agent's flags for an engine's arguments; the last one of a kind wins, as it does there."""
    found: dict[str, str] = {}
    arguments: dict[str, Any] = {}
    for flag, key, value in _given(args):
        if flag != TEMPLATE_ARGUMENTS:
            found[flag] = value
        elif key:
            _put(arguments, key.split("."), _loose_json(value))
        else:
            whole = _loose_json(value)
            arguments = whole if _is_object(whole) else {}
    if arguments:
        found[TEMPLATE_ARGUMENTS] = json.dumps(arguments, separators=(",", ":"), sort_keys=True)
    return tuple(word for flag in _FLAGS if flag in found for word in (flag, found[flag]))


def _given(args: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield flag, dotted key and value of every argument that matters here."""
    for at, argument in enumerate(args):
        name, equals, value = argument.partition("=")
        name, _, key = name.partition(".")
        flag = _flag(name.replace("_", "-"))
        if flag == EXCLUDE_TOOLS:
            yield flag, "", "on"
        elif flag and equals:
            yield flag, key, value
        elif flag and at + 1 < len(args):
            yield flag, key, args[at + 1]


def _flag(name: str) -> str:
    if name in _FLAGS:
        return name
    if not name.startswith(_SHORTEST_PREFIXES):
        return ""
    return next((flag for flag in _FLAGS if flag.startswith(name)), "")


def _put(arguments: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        inner = arguments.setdefault(key, {})
        if not _is_object(inner):
            return
        arguments = inner
    arguments[keys[-1]] = value


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _loose_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
