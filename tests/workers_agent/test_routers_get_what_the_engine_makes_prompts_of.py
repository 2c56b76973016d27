"""Which files an agent serves, where it finds them, and what it adds about its engine."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inferplane_engine.tokens import ModelFiles, NotEncodableError, PromptEncoder
from inferplane_runtime.settings import SettingsError, load
from inferplane_workers.agent.config import AgentConfig, ContentFormat, Role
from inferplane_workers.agent.model_files import OPTIONS_FILE, ServedFiles, folder, prompt_options, scan

SIM_MODEL = Path(__file__).parents[2] / "workers/inferplane_engine/sim/model"
COMMIT = "0" * 39 + "1"
CHAT = {"messages": [{"role": "user", "content": "Hello"}]}


def config(**changes: Any) -> AgentConfig:
    given = AgentConfig(
        worker_id="w",
        service="s",
        pool="p",
        role=Role.DECODE,
        engine_url="127.0.0.1:1",
        model="m",
        state_dir=Path("state"),
    )
    return replace(given, **changes)


def hub(root: Path, *, revision: str = "main") -> Path:
    """Lay a hub's cache out, one snapshot in it."""
    model = root / "hub" / "models--org--name"
    (model / "snapshots" / COMMIT).mkdir(parents=True)
    (model / "snapshots" / COMMIT / "tokenizer.json").write_text("{}")
    (model / "refs").mkdir()
    (model / "refs" / revision).write_text(COMMIT)
    return model


def test_only_tokenizer_files_are_served(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "model.safetensors").write_text("weights")
    files = scan(tmp_path)

    assert dict(files.sizes) == {"tokenizer.json": 2}
    assert files.file("tokenizer.json").body == b"{}"
    assert files.file("model.safetensors").status == 404
    assert files.file("../../etc/passwd").status == 404


def test_the_digest_is_the_one_that_routers_compute() -> None:
    assert scan(SIM_MODEL).digest == ModelFiles.read(SIM_MODEL).digest


def test_the_digest_changes_with_a_file_and_with_an_option(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    before, told = scan(tmp_path).digest, scan(tmp_path, {"max_model_len": 10}).digest
    (tmp_path / "tokenizer.json").write_text("{ }")

    assert len({before, told, scan(tmp_path).digest}) == 3


@pytest.mark.parametrize("found", [None, Path("nowhere")])
def test_without_a_models_files_there_is_no_digest(found: Path | None) -> None:
    assert scan(found, {"max_model_len": 10}).digest == ""


@pytest.mark.parametrize("revision", ["", "main", COMMIT], ids=["default", "branch", "commit"])
def test_a_hubs_cache_is_read_at_its_revision(tmp_path: Path, revision: str) -> None:
    model = hub(tmp_path)

    assert folder(config(model_path=model, model_revision=revision)) == model / "snapshots" / COMMIT


def test_a_single_snapshot_is_found_without_a_name_for_it(tmp_path: Path) -> None:
    model = hub(tmp_path, revision="other")

    assert folder(config(model_path=model)) == model / "snapshots" / COMMIT


def test_what_a_hub_has_brought_by_the_engines_start_is_served(tmp_path: Path) -> None:
    model = tmp_path / "hub" / "models--org--name"
    served = ServedFiles(config(model_path=model))
    early = served.read(max_model_len=0)
    hub(tmp_path)

    assert early == ""
    assert served.read(max_model_len=0) == scan(model / "snapshots" / COMMIT).digest
    assert list(served.current.sizes) == ["tokenizer.json"]


def test_the_simulated_engines_own_model_needs_no_path() -> None:
    assert folder(config(engine="sim")) == SIM_MODEL
    assert folder(config(engine="vllm")) is None


def test_nothing_is_said_of_an_engine_that_follows_its_model() -> None:
    assert prompt_options(config(), max_model_len=0) == {}


def test_everything_that_changes_prompts_is_said(tmp_path: Path) -> None:
    (tmp_path / "own.jinja").write_text("{{ messages }}")
    told = config(
        chat_template=str(tmp_path / "own.jinja"),
        chat_template_content_format=ContentFormat.OPENAI,
        default_chat_template_kwargs={"enable_thinking": False},
        exclude_tools_when_tool_choice_none=True,
    )

    assert prompt_options(told, max_model_len=4096) == {
        "max_model_len": 4096,
        "content_format": "openai",
        "chat_template_kwargs": {"enable_thinking": False},
        "exclude_tools_when_tool_choice_none": True,
        "chat_template": "{{ messages }}",
    }


def test_a_template_may_be_given_in_words() -> None:
    assert prompt_options(config(chat_template="{{ messages }}"), max_model_len=0) == {
        "chat_template": "{{ messages }}"
    }


def as_router(tmp_path: Path, agent: AgentConfig) -> PromptEncoder:
    """Keep an agent's files as a router does, and build its encoder."""
    served = ServedFiles(agent)
    served.read(max_model_len=100)
    for name in served.current.sizes:
        (tmp_path / name).write_bytes(served.current.file(name).body)
    files = ModelFiles.read(tmp_path)
    assert files.digest == served.current.digest
    return PromptEncoder(files)


def test_a_router_renders_with_the_engines_template(tmp_path: Path) -> None:
    template = "{% for m in messages %}<{{ m['content'] }}|{{ mood }}>{% endfor %}"
    agent = config(engine="sim", chat_template=template, default_chat_template_kwargs={"mood": "calm"})
    encoder = as_router(tmp_path, agent)
    plain = encoder.encode("/v1/completions", {"prompt": "<Hello|calm>", "add_special_tokens": False})

    assert encoder.encode("/v1/chat/completions", CHAT).tokens.tolist() == plain.tokens.tolist()


def test_a_template_that_only_the_engine_can_read_leaves_chats_to_it(tmp_path: Path) -> None:
    encoder = as_router(tmp_path, config(engine="sim", chat_template="/image/only.jinja"))

    with pytest.raises(NotEncodableError, match="readable by the engine alone"):
        encoder.encode("/v1/chat/completions", CHAT)

    assert encoder.encode("/v1/completions", {"prompt": "Hello"}).tokens.size


def test_the_models_length_bounds_a_truncation_to_the_most(tmp_path: Path) -> None:
    encoder = as_router(tmp_path, config(engine="sim"))
    body = {"prompt": list(range(1, 200)), "truncate_prompt_tokens": -1}

    assert encoder.encode("/v1/completions", body).tokens.size == 99


def test_a_folders_own_options_file_is_not_taken_for_the_engines(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / OPTIONS_FILE).write_text("{}")

    assert list(scan(tmp_path).sizes) == ["tokenizer.json"]


@pytest.mark.parametrize("text", ["[1]", "{", "null"])
def test_template_arguments_must_be_a_json_object(text: str) -> None:
    flags = ["--worker-id", "w", "--service", "s", "--pool", "p", "--role", "decode", "--model", "m"]
    flags += ["--engine-url", "http://127.0.0.1:1", "--state-dir", "x", "--default-chat-template-kwargs", text]

    with pytest.raises(SettingsError, match=r"--default-chat-template-kwargs: .* JSON"):
        load(AgentConfig, flags, {}, program="agent")


def test_an_options_file_is_json_with_sorted_keys() -> None:
    served = scan(SIM_MODEL, {"b": 1, "a": 2})

    assert json.loads(served.file(OPTIONS_FILE).body) == {"a": 2, "b": 1}
    assert served.file(OPTIONS_FILE).body == b'{"a":2,"b":1}'
