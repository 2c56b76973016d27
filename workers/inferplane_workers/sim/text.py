"""Text to tokens and back for the simulated engine, from a model folder's files.

Prompts go through the project's one implementation of what an engine makes of them.  What that leaves to an engine
(images, formats without a template) this engine refuses: there is nobody else to ask.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

import inferplane_engine.sim
from inferplane_engine.sim.content import Vocabulary
from inferplane_engine.tokens import ModelFiles, ModelFilesError, NotEncodableError, PromptEncoder
from inferplane_engine.tokens import Tokenizer as Encoder
from inferplane_workers.sim.errors import bad_request
from inferplane_workers.sim.options import BUILT_IN_MODELS, OptionsError

_WORD = re.compile(r"[Ġ▁][a-z]{2,12}")
_MOST_WORDS = 4096


def model_folder(model: str) -> Path:
    """Return the folder of the built-in model, or the one named."""
    if model in BUILT_IN_MODELS:
        return Path(inferplane_engine.sim.__file__).with_name("model")
    folder = Path(model)
    if not (folder / "tokenizer.json").is_file():
        raise OptionsError(f"--model: {model} has no tokenizer.json; give a model folder, or 'builtin'")
    return folder


class TextModel:
    """Tokenizer, template and the words that the model may say."""

    def __init__(self, folder: Path) -> None:
        try:
            self._files = ModelFiles.read(folder)
            self._prompts = PromptEncoder(self._files)
            self._encoder = self._prompts.tokenizer or Encoder(self._files)
        except ModelFilesError as error:
            raise OptionsError(f"--model: {error}") from None
        self._tokenizer: Tokenizer = self._encoder.reference
        self.size = self._tokenizer.get_vocab_size(with_added_tokens=True)
        self.vocabulary = self._read_vocabulary()

    def prompts(self, path: str, body: Mapping[str, object]) -> list[tuple[int, ...]]:
        """Return the prompts of a request to `path`; raises ApiError."""
        try:
            encoded = self._prompts.encode(path, body)
        except NotEncodableError as error:
            raise bad_request(str(error), "messages" if "messages" in body else "prompt") from None
        return [tuple(tokens.tolist()) for tokens in encoded.prompts]

    def encode(self, text: str, *, special: bool = True) -> tuple[int, ...]:
        try:
            return tuple(self._encoder.encode(text, add_special_tokens=special).tolist())
        except UnicodeEncodeError:
            raise bad_request("the text holds a lone surrogate", "prompt") from None

    def decode(self, tokens: Sequence[int], *, skip_special: bool = True) -> str:
        return self._tokenizer.decode(list(tokens), skip_special_tokens=skip_special)

    def names(self, tokens: Sequence[int]) -> list[str]:
        return [self._tokenizer.id_to_token(token) or "" for token in tokens]

    def stream(self) -> "TextStream":
        return TextStream(self._tokenizer)

    def context(self) -> int | None:
        """Return the longest prompt plus answer that the model's own configuration allows."""
        value: object = self._files.mapping("config.json").get("max_position_embeddings")
        return value if isinstance(value, int) else None

    def _read_vocabulary(self) -> Vocabulary:
        names = self._tokenizer.get_vocab(with_added_tokens=False)
        words = sorted(index for name, index in names.items() if _WORD.fullmatch(name))[:_MOST_WORDS]
        if not words:
            raise OptionsError(f"--model: the tokenizer in {self._files.root} has no plain words to say")
        return Vocabulary(tuple(words), self._eos())

    def _eos(self) -> int:
        for name in ("generation_config.json", "config.json"):
            listed: object = self._files.mapping(name).get("eos_token_id")
            if isinstance(listed, list) and listed:
                listed = cast("list[object]", listed)[0]
            if isinstance(listed, int):
                return listed
        text = self._files.special_tokens().get("eos_token")
        found = None if text is None else self._tokenizer.token_to_id(text)
        if found is None:
            raise OptionsError(f"--model: {self._files.root} names no eos_token")
        return found


class TextStream:
    """Text of tokens as they come; bytes of an incomplete character are held back."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._stream = DecodeStream(skip_special_tokens=True)

    def add(self, tokens: Sequence[int]) -> str:
        return "".join(self._stream.step(self._tokenizer, token) or "" for token in tokens)
