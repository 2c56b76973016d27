"""What happens with models whose files are unusual, and with templates that the fast renderer cannot do."""

import json
from pathlib import Path

import jinja2
import pytest

from inferplane_engine.tokens import ChatTemplate, ModelFiles, ModelFilesError, PromptEncoder, TemplateError
from inferplane_engine.tokens.content_format import ContentFormat
from inferplane_engine.tokens.probes import conversations
from inferplane_engine.tokens.testing import CHATML, small_model

LOOP = "{% for message in messages %}"
BY_PARTS = LOOP + "{% for part in message.content %}{{ part.text }}{% endfor %}{% endfor %}"


SLICED = (
    "{% set rest = messages[1:] %}{% for m in rest %}{% for c in m['content'] | list %}{{ c }}{% endfor %}{% endfor %}"
)
MACRO = "{% macro show(it) %}{% for x in it %}{{ x.text }}{% endfor %}{% endmacro %}"
ASSIGNED = LOOP + "{% set content = message.content %}{% for c in content %}{{ c.text }}{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "content_format"),
    [
        pytest.param(CHATML, ContentFormat.STRING, id="text"),
        pytest.param(BY_PARTS, ContentFormat.PARTS, id="parts"),
        pytest.param(SLICED, ContentFormat.PARTS, id="slice and filter"),
        pytest.param(MACRO + LOOP + "{{ show(message.content) }}{% endfor %}", ContentFormat.PARTS, id="macro"),
        pytest.param(MACRO + LOOP + "{{ show(message.tags) }}{% endfor %}", ContentFormat.STRING, id="other macro"),
        pytest.param(ASSIGNED, ContentFormat.PARTS, id="variable"),
        pytest.param("{% for a, b in messages %}{% endfor %}" + ASSIGNED, ContentFormat.STRING, id="unpacking"),
    ],
)
def test_the_content_format_is_read_from_the_template(template: str, content_format: ContentFormat) -> None:
    assert ChatTemplate(template).content_format is content_format


def test_values_print_as_in_python() -> None:
    template = ChatTemplate(
        LOOP
        + "{{ message.content }}{{ message.tool_calls }}{{ message.gone }}{{ 1.0 }}{{ true }}{{ none }}{% endfor %}"
    )

    assert template.backend == "minijinja"
    assert template.render({"messages": [{"content": "x", "tool_calls": [{"a": None}]}]}) == "x[{'a': None}]1.0TrueNone"


def test_floats_are_left_to_jinja2() -> None:
    template = ChatTemplate(LOOP + "{{ message.content | tojson }}{% endfor %}")

    assert template.backend == "minijinja"
    assert template.render({"messages": [{"content": 2.0}]}) == "2.0"


def test_generation_marks_are_rendered_through() -> None:
    template = ChatTemplate(LOOP + "{%- generation -%}{{ message.content }}{%- endgeneration -%}{% endfor %}")

    assert template.backend == "minijinja"
    assert template.render({"messages": [{"content": "x"}]}) == "x"


def test_a_template_that_the_fast_renderer_does_otherwise_is_rendered_by_jinja2() -> None:
    template = ChatTemplate(LOOP + "{{ message.content.encode('utf-8') }}{% endfor %}")

    assert template.backend == "jinja2"
    assert "differently" in template.fallback_reason
    assert template.render({"messages": [{"content": "x"}]}) == "b'x'"


def test_both_renderers_agree_on_every_probe() -> None:
    template = ChatTemplate(CHATML)
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, autoescape=False)  # noqa: S701  # no HTML
    expected = environment.from_string(CHATML)

    for variables in conversations():
        assert template.render(variables) == expected.render(variables)


def test_what_the_template_refuses_is_its_own_message() -> None:
    template = ChatTemplate("{{ raise_exception('roles must alternate') }}")

    with pytest.raises(TemplateError, match="roles must alternate"):
        template.render({"messages": []})


def test_a_template_cannot_reach_into_python() -> None:
    template = ChatTemplate(LOOP + "{{ message.__class__.__mro__ }}{{ message.content }}{% endfor %}")

    with pytest.raises(TemplateError, match=r"unsafe|no attribute|undefined"):
        template.render({"messages": [{"content": "x"}]})


def test_a_template_that_does_not_compile_says_so() -> None:
    with pytest.raises(TemplateError, match="the chat template does not compile"):
        ChatTemplate("{% for %}")


def test_the_digest_changes_with_every_file(tmp_path: Path) -> None:
    digests = {
        small_model(tmp_path / "a").digest,
        small_model(tmp_path / "b", bos=False).digest,
        small_model(tmp_path / "c", chat_template=None).digest,
        small_model(tmp_path / "d", options={"max_model_len": 10}).digest,
    }

    assert len(digests) == 4
    assert small_model(tmp_path / "e").digest in digests


def test_a_template_file_goes_before_the_configuration(tmp_path: Path) -> None:
    small_model(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("other")

    assert ModelFiles.read(tmp_path).chat_templates() == {"default": "other"}


def test_named_templates_are_read(tmp_path: Path) -> None:
    small_model(tmp_path, chat_template=None)
    named = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))

    assert ModelFiles.read(tmp_path).chat_templates() == {"default": "a", "tool_use": "b"}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", "{", "tokenizer.json cannot be read"),
        ("tokenizer_config.json", "[]", "tokenizer_config.json must hold a JSON object"),
        ("config.json", "{", "config.json is not JSON"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    small_model(tmp_path)
    (tmp_path / name).write_text(content)

    with pytest.raises(ModelFilesError, match=message):
        PromptEncoder(ModelFiles.read(tmp_path))


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFilesError, match="holds no tokenizer files"):
        ModelFiles.read(tmp_path)


def test_special_tokens_that_only_the_configuration_names_are_tokens(tmp_path: Path) -> None:
    small_model(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"pad_token": "<|late|>"}))
    tokenizer = PromptEncoder(ModelFiles.read(tmp_path)).tokenizer

    assert tokenizer is not None
    assert tokenizer.backend == "fastokens"
    assert tokenizer.encode("a<|late|>").size == 2
