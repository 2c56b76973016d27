"""The files of a model that determine how a prompt becomes tokens.

Agents serve exactly these files to routers, which keep them by digest: two workers with one digest tokenise alike.
The digest covers names and bytes of every file that is there, so an added template changes it too.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from inferplane_engine.tokens.json_shapes import is_object

TOKENIZER_FILES: Final = frozenset(
    {
        "added_tokens.json",
        "chat_template.jinja",
        "chat_template.json",
        "config.json",
        "engine_prompt_options.json",
        "generation_config.json",
        "merges.txt",
        "preprocessor_config.json",
        "processor_config.json",
        "special_tokens_map.json",
        "tekken.json",
        "tokenizer.json",
        "tokenizer.model",
        "tokenizer_config.json",
        "vocab.json",
        "vocab.txt",
    }
)
"""Every file that is served and counted; `engine_prompt_options.json` is the agent's, see `prompt_options`."""

_NAMED_TOKENS: Final = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)


def is_tokenizer_file(name: str) -> bool:
    """Say whether a file of this name is served; weights never are."""
    return name in TOKENIZER_FILES or (name.endswith(".tiktoken") and "/" not in name)


def files_digest(contents: Iterable[tuple[str, bytes]]) -> str:
    """Return the digest that names a set of files: sha256 over names, sizes and contents, in order of names."""
    whole = hashlib.sha256()
    for name, content in sorted(contents):
        whole.update(f"{name}\0{len(content)}\0".encode())
        whole.update(hashlib.sha256(content).digest())
    return whole.hexdigest()


class ModelFilesError(ValueError):
    """The files cannot be used; the message names the file."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A folder with a model's tokenizer files."""

    root: Path
    digest: str
    names: tuple[str, ...]

    @classmethod
    def read(cls, root: Path) -> "ModelFiles":
        """Read a folder; only tokenizer files are looked at."""
        names = tuple(sorted(path.name for path in root.iterdir() if is_tokenizer_file(path.name) and path.is_file()))
        if not names:
            raise ModelFilesError(f"{root} holds no tokenizer files; expected tokenizer.json and its companions")
        return cls(root=root, digest=files_digest((name, (root / name).read_bytes()) for name in names), names=names)

    def sizes(self) -> dict[str, int]:
        return {name: (self.root / name).stat().st_size for name in self.names}

    def tokenizer_json(self) -> str:
        if "tokenizer.json" not in self.names:
            raise ModelFilesError(f"{self.root} has no tokenizer.json")
        return (self.root / "tokenizer.json").read_text("utf-8")

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Return a JSON object, empty when the file is not there."""
        if name not in self.names:
            return {}
        try:
            content = json.loads((self.root / name).read_bytes())
        except ValueError as error:
            raise ModelFilesError(f"{self.root / name} is not JSON: {error}") from error
        if not is_object(content):
            raise ModelFilesError(f"{self.root / name} must hold a JSON object")
        return content

    @property
    def model_type(self) -> str:
        return str(self.mapping("config.json").get("model_type", ""))

    def special_tokens(self) -> dict[str, str]:
        """Return the named special tokens that templates may print."""
        config = self.mapping("tokenizer_config.json")
        legacy = self.mapping("special_tokens_map.json" if "added_tokens_decoder" not in config else "")
        named = {name: _text(config.get(name) or legacy.get(name)) for name in _NAMED_TOKENS}
        extra = config.get("extra_special_tokens")
        if is_object(extra):
            named |= {name: _text(value) for name, value in extra.items()}
        return {name: text for name, text in named.items() if text is not None}

    def chat_templates(self) -> dict[str, str]:
        """Return templates by name; the usual one is `default`."""
        if "chat_template.jinja" in self.names:
            return {"default": (self.root / "chat_template.jinja").read_text("utf-8")}
        given = self.mapping("chat_template.json").get("chat_template")
        if given is None:
            given = self.mapping("tokenizer_config.json").get("chat_template")
        if isinstance(given, str):
            return {"default": given}
        named = cast("list[dict[str, str]]", given or [])
        return {entry["name"]: entry["template"] for entry in named}

    def prompt_options(self) -> Mapping[str, Any]:
        """Return how the engine was told to make prompts, where that differs from its defaults.

        Keys: `chat_template_kwargs` (default ones), `content_format`, `exclude_tools_when_tool_choice_none`,
        `max_model_len`, `chat_template` (replaces the model's own), `chats_by_engine` (why nobody else can render).
        """
        return self.mapping("engine_prompt_options.json")


def _text(token: Any) -> str | None:
    """Return a token's text: it is written as such or as an object."""
    if is_object(token):
        token = token.get("content")
    return token if isinstance(token, str) else None
