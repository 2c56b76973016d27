"""Bodies that get no tokens here, each with its reason; and what the agent's options change."""

from pathlib import Path
from typing import Any

import pytest

from inferplane_engine.tokens import NotEncodableError, PromptEncoder
from inferplane_engine.tokens.testing import CHATML, small_model

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
HELLO: dict[str, Any] = {"role": "user", "content": "hello"}


@pytest.fixture(name="encoder")
def small_encoder(tmp_path: Path) -> PromptEncoder:
    return PromptEncoder(small_model(tmp_path))


def user(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


REFUSED: list[tuple[str, dict[str, Any], str]] = [
        ("/v1/embeddings", {"input": "x"}, "/v1/embeddings has no prompt"),
        (CHAT, {}, "messages must be a list"),
        (CHAT, {"messages": []}, "messages must be a list"),
        (CHAT, {"messages": ["x"]}, r"messages\[0\] must be an object"),
        (CHAT, {"messages": [{"content": "x"}]}, r"messages\[0\].role must be a text"),
        (CHAT, user(5), r"messages\[0\].content must be a text or a list"),
        (CHAT, user([{"type": "image_url", "image_url": {"url": "x"}}]), r"content\[0\] is of type 'image_url'"),
        (CHAT, user([{"type": "input_audio", "input_audio": {}}]), "is of type 'input_audio'"),
        (CHAT, user([{"type": "text", "text": 5}]), "text must be a text"),
        (CHAT, user("\ud800"), "lone surrogate"),
        (CHAT, {"messages": [HELLO], "chat_template": "x"}, "its own chat_template"),
        (CHAT, {"messages": [HELLO], "chat_template_kwargs": 5}, "chat_template_kwargs must be an object"),
        (CHAT, {"messages": [HELLO], "chat_template_kwargs": {"tokenize": True}}, "chat_template_kwargs holds"),
        (CHAT, {"messages": [HELLO], "tools": [{}]}, r"tools\[0\].function must be an object"),
        (CHAT, {"messages": [HELLO], "add_generation_prompt": "yes"}, "add_generation_prompt must be true or false"),
        (CHAT, {"messages": [HELLO], "continue_final_message": True}, "exclude each other"),
        (CHAT, {"messages": [HELLO], "truncate_prompt_tokens": -1}, "length is not known"),
        (CHAT, {"messages": [HELLO], "truncate_prompt_tokens": "5"}, "must be an integer"),
        (TEXT, {}, "prompt must be"),
        (TEXT, {"prompt": ""}, "prompt must not be empty"),
        (TEXT, {"prompt": [1, "x"]}, "prompt must be a list of token ids"),
        (TEXT, {"prompt": [-1]}, "prompt must be a list of token ids"),
        (TEXT, {"prompt": [1 << 31]}, "prompt must be a list of token ids"),
        (TEXT, {"prompt": [[1], []]}, r"prompt\[1\] must be a list of token ids"),
        (TEXT, {"prompt": "x", "suffix": "y"}, "suffix"),
        (TEXT, {"prompt_embeds": "x"}, "prompt_embeds"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "message"), REFUSED)
def test_the_reason_is_given(encoder: PromptEncoder, path: str, body: dict[str, Any], message: str) -> None:
    with pytest.raises(NotEncodableError, match=message):
        encoder.encode(path, body)


@pytest.mark.parametrize(
    ("config", "template", "message"),
    [
        ({"model_type": "gpt_oss"}, CHATML, "harmony"),
        ({"model_type": "deepseek_v32"}, CHATML, "DeepSeek"),
        (None, None, "no chat template"),
        (None, "{{ strftime_now('%Y') }}" + CHATML, "prints the time"),
        (None, "{% for %}", "does not compile"),
    ],
)
def test_models_whose_chats_only_the_engine_can_render(
    tmp_path: Path, config: dict[str, Any] | None, template: str | None, message: str
) -> None:
    encoder = PromptEncoder(small_model(tmp_path, config=config, chat_template=template))

    with pytest.raises(NotEncodableError, match=message):
        encoder.encode(CHAT, {"messages": [HELLO]})
    assert encoder.encode(TEXT, {"prompt": "hello"}).tokens.size > 1


def test_a_list_of_prompts_gives_each_its_tokens(encoder: PromptEncoder) -> None:
    texts = encoder.encode(TEXT, {"prompt": ["hello", "hello world"]}).prompts
    ids = encoder.encode(TEXT, {"prompt": [[1, 2], [3]]}).prompts

    assert [int(tokens[0]) for tokens in texts] == [int(texts[0][0])] * 2
    assert [tokens.tolist() for tokens in ids] == [[1, 2], [3]]


def test_the_engines_options_are_followed(tmp_path: Path) -> None:
    template = "{{ mood }}" + CHATML
    options = {"chat_template_kwargs": {"mood": "calm"}, "max_model_len": 12, "chat_template": template}
    encoder = PromptEncoder(small_model(tmp_path, options=options))
    body: dict[str, Any] = {"messages": [HELLO]}
    plain = encoder.encode(CHAT, body).tokens.tolist()

    assert encoder.encode(CHAT, {**body, "chat_template_kwargs": {"mood": "calm"}}).tokens.tolist() == plain
    assert encoder.encode(CHAT, {**body, "chat_template_kwargs": {"mood": "wild"}}).tokens.tolist() != plain
    assert encoder.encode(CHAT, {**body, "truncate_prompt_tokens": -1}).tokens.tolist() == plain[-11:]


def test_truncation_keeps_the_end_and_the_beginning_token(encoder: PromptEncoder) -> None:
    whole = encoder.encode(TEXT, {"prompt": "hello world or"}).tokens.tolist()
    cut = encoder.encode(TEXT, {"prompt": "hello world or", "truncate_prompt_tokens": 3}).tokens.tolist()

    assert cut == [whole[0], *whole[-2:]]
