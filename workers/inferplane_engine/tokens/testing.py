"""A small model's tokenizer files, made on the spot: byte-level BPE with a ChatML template."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE

from inferplane_engine.tokens.files import ModelFiles

CHATML: Final = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)


def small_model(
    root: Path,
    *,
    chat_template: str | None = CHATML,
    config: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    bos: bool = True,
) -> ModelFiles:
    """Write a model's tokenizer files into `root` and read them."""
    root.mkdir(parents=True, exist_ok=True)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "w"), ("o", "r")]
    vocabulary = [*alphabet, *(left + right for left, right in merges)]
    tokenizer = Tokenizer(BPE(vocab={token: at for at, token in enumerate(vocabulary)}, merges=merges))
    make: Any = tokenizer  # its stub is partly untyped
    make.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    make.decoder = decoders.ByteLevel()
    special = ("<s>", "</s>", "<|im_start|>", "<|im_end|>")
    make.add_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    if bos:
        begin = tokenizer.token_to_id("<s>")
        make.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", begin)])
    (root / "tokenizer.json").write_text(tokenizer.to_str())
    settings: dict[str, Any] = {"bos_token": "<s>", "eos_token": "</s>", "added_tokens_decoder": {}}
    if chat_template is not None:
        settings["chat_template"] = chat_template
    (root / "tokenizer_config.json").write_text(json.dumps(settings))
    (root / "config.json").write_text(json.dumps(config or {"model_type": "small"}))
    if options is not None:
        (root / "engine_prompt_options.json").write_text(json.dumps(options))
    return ModelFiles.read(root)
