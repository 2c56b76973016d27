"""Text to tokens and back for the simulated engine: a model folder's tokenizer and template."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import jinja2
import orjson
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

import inferplane_engine.sim
from inferplane_engine.sim.content import Vocabulary
from inferplane_workers.sim.errors import ApiError, bad_request
from inferplane_workers.sim.options import BUILT_IN_MODELS, OptionsError

_WORD = re.compile(r"[Ġ▁][a-z]{2,12}")
_MOST_WORDS = 4096


def model_folder(model: str) -> Path:
    """Folder of the built-in model, or the one named."""
    if model in BUILT_IN_MODELS:
        return Path(inferplane_engine.sim.__file__).with_name("model")
    folder = Path(model)
    if not (folder / "tokenizer.json").is_file():
        raise OptionsError(f"--model: {model} has no tokenizer.json; give a model folder, or 'builtin'")
    return folder


class TextModel:
    """Tokenizer, template and the words that the model may say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._template = self._read_template()
        self.size = self._tokenizer.get_vocab_size(with_added_tokens=True)
        self.vocabulary = self._read_vocabulary()

    def encode(self, text: str, *, special: bool = True) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=special).ids)

    def decode(self, tokens: Sequence[int], *, skip_special: bool = True) -> str:
        return self._tokenizer.decode(list(tokens), skip_special_tokens=skip_special)

    def names(self, tokens: Sequence[int]) -> list[str]:
        return [self._tokenizer.id_to_token(token) or "" for token in tokens]

    def stream(self) -> "TextStream":
        return TextStream(self._tokenizer)

    def render(self, messages: Sequence[Mapping[str, object]], **variables: object) -> str:
        """Apply the chat template."""
        if self._template is None:
            raise bad_request("This model has no chat template; use /v1/completions.", "messages")
        try:
            return self._template.render(messages=messages, **variables)
        except (jinja2.TemplateError, TypeError) as error:
            raise ApiError(400, f"chat template: {error}") from error

    def _read_template(self) -> jinja2.Template | None:
        source = self.folder / "chat_template.jinja"
        text = (
            source.read_text(encoding="utf-8")
            if source.is_file()
            else self._json("tokenizer_config.json").get("chat_template")
        )
        if not isinstance(text, str):
            return None
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = lambda value: orjson.dumps(value).decode()
        special = {name: self._special(name) or "" for name in ("bos_token", "eos_token")}
        return environment.from_string(text, globals={"raise_exception": _raise_exception, **special})

    def _read_vocabulary(self) -> Vocabulary:
        names = self._tokenizer.get_vocab(with_added_tokens=False)
        words = sorted(index for name, index in names.items() if _WORD.fullmatch(name))[:_MOST_WORDS]
        if not words:
            raise OptionsError(f"--model: the tokenizer in {self.folder} has no plain words to say")
        return Vocabulary(tuple(words), self._eos())

    def _eos(self) -> int:
        listed = self._json("generation_config.json").get("eos_token_id", self._json("config.json").get("eos_token_id"))
        if isinstance(listed, list) and listed:
            listed = cast("list[object]", listed)[0]
        if isinstance(listed, int):
            return listed
        token = self._special("eos_token")
        found = None if token is None else self._tokenizer.token_to_id(token)
        if found is None:
            raise OptionsError(f"--model: {self.folder} names no eos_token")
        return found

    def _special(self, name: str) -> str | None:
        """Return the text of a special token, written plainly or as an object."""
        value = self._json("tokenizer_config.json").get(name)
        if isinstance(value, dict):
            value = cast("dict[str, object]", value).get("content")
        return value if isinstance(value, str) else None

    def context(self) -> int | None:
        """Longest prompt plus answer that the model's own configuration allows."""
        value = self._json("config.json").get("max_position_embeddings")
        return value if isinstance(value, int) else None

    def _json(self, name: str) -> dict[str, object]:
        path = self.folder / name
        if not path.is_file():
            return {}
        value: object = orjson.loads(path.read_bytes())
        return cast("dict[str, object]", value) if isinstance(value, dict) else {}


class TextStream:
    """Text of tokens as they come; bytes of an incomplete character are held back."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._stream = DecodeStream(skip_special_tokens=True)

    def add(self, tokens: Sequence[int]) -> str:
        return "".join(self._stream.step(self._tokenizer, token) or "" for token in tokens)


def _raise_exception(message: str) -> str:
    raise jinja2.TemplateError(message)
