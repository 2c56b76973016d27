"""Engine arguments that change prompts, in every spelling that engines accept."""

import pytest

from inferplane_engine.launch.prompt_flags import prompt_flags

KWARGS = "--default-chat-template-kwargs"


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((), ()),
        (("--seed", "1", "--enable-auto-tool-choice"), ()),
        (("--chat-template", "/t.jinja"), ("--chat-template", "/t.jinja")),
        (("--chat_template=/t.jinja",), ("--chat-template", "/t.jinja")),
        (("--chat-template", "a", "--chat-template=b"), ("--chat-template", "b")),
        (("--chat-template-content-format", "openai"), ("--chat-template-content-format", "openai")),
        (("--chat-template-c", "string"), ("--chat-template-content-format", "string")),
        ((KWARGS, '{"enable_thinking": false}'), (KWARGS, '{"enable_thinking":false}')),
        ((f"{KWARGS}.enable_thinking", "false"), (KWARGS, '{"enable_thinking":false}')),
        ((f"{KWARGS}.a.b=x", f"{KWARGS}.a.c", "1"), (KWARGS, '{"a":{"b":"x","c":1}}')),
        (
            ("--exclude-tools-when-tool-choice-none", "--seed", "1"),
            ("--exclude-tools-when-tool-choice-none", "on"),
        ),
        (("--chat-template",), ()),
    ],
)
def test_arguments_are_found_however_they_are_written(args: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert prompt_flags(args) == expected
