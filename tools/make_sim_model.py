"""Write the simulated engine's built-in model: tokenizer, template and configuration, no weights.

The vocabulary is byte-level BPE: 256 bytes, 70 syllables and 700 pseudo-words of two syllables, plus the ChatML control
tokens.  Every word that the simulated model says is one token, and encodes to the same token again when a client sends
it back as history, so the second turn of a conversation finds the first one in the cache.

    python tools/make_sim_model.py [FOLDER]
"""

import json
import random
import sys
from pathlib import Path
from typing import Any, cast

FOLDER = Path(__file__).parents[1] / "workers" / "inferplane_engine" / "sim" / "model"
CONSONANTS = "bdfghklmnprstv"
VOWELS = "aeiou"
WORDS = 700
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CONTEXT = 32_768

TEMPLATE = """\
{%- macro text(content) %}
{%- if content is string %}{{- content }}{%- elif content %}
{%- for part in content %}{%- if part.type == 'text' %}{{- part.text }}{%- endif %}{%- endfor %}
{%- endif %}
{%- endmacro %}
{%- if tools %}
{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- text(messages[0].content) + '\\n\\n' }}{%- endif %}
{{- '# Tools\\n' }}
{%- for tool in tools %}{{- tool | tojson + '\\n' }}{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
{{- '<|im_start|>system\\n' + text(messages[0].content) + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if not (loop.first and message.role == 'system') %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.content is string %}{{- message.content }}{%- elif message.content %}
{%- for part in message.content %}{%- if part.type == 'text' %}{{- part.text }}{%- endif %}{%- endfor %}
{%- endif %}
{%- if message.tool_calls %}
{%- for call in message.tool_calls %}{{- '\\n' + call.function | tojson }}{%- endfor %}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""


def byte_alphabet() -> list[str]:
    """Return the 256 printable stand-ins for bytes, in GPT-2's order."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    stand_in = {byte: chr(byte) for byte in printable} | {byte: chr(256 + index) for index, byte in enumerate(others)}
    return [stand_in[byte] for byte in range(256)]


def tokenizer() -> dict[str, object]:
    """Build the tokenizer; merges in the order: syllables, syllables after a space, words."""
    syllables = [consonant + vowel for consonant in CONSONANTS for vowel in VOWELS]
    pairs = [(first, second) for first in syllables for second in syllables if first != second]
    words = sorted(random.Random(0).sample(pairs, WORDS))  # noqa: S311  a fixed choice, not a secret
    merges = [(syllable[0], syllable[1]) for syllable in syllables]
    merges += [("Ġ", syllable) for syllable in syllables]
    merges += [("Ġ" + first, second) for first, second in words]
    names = [*byte_alphabet(), *(left + right for left, right in merges)]
    vocabulary = {name: index for index, name in enumerate(names)}
    added = [
        {
            "id": len(vocabulary) + index,
            "content": content,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for index, content in enumerate(SPECIAL)
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": [list(pair) for pair in merges],
        },
    }


def files() -> dict[str, str]:
    """File name -> text."""
    tokens = tokenizer()
    added = cast("list[dict[str, Any]]", tokens["added_tokens"])
    ids: dict[str, int] = {entry["content"]: entry["id"] for entry in added}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": max(ids.values()) + 1,
        "max_position_embeddings": CONTEXT,
        "hidden_size": 256,
        "intermediate_size": 1024,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "torch_dtype": "float32",
        "bos_token_id": ids["<|im_start|>"],
        "eos_token_id": ids["<|im_end|>"],
    }
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONTEXT,
    }
    generation = {"eos_token_id": [ids["<|im_end|>"], ids["<|endoftext|>"]], "pad_token_id": ids["<|endoftext|>"]}
    written = {
        "tokenizer.json": json.dumps(tokens, ensure_ascii=False, separators=(",", ":")),
        "tokenizer_config.json": json.dumps(tokenizer_config, indent=2),
        "config.json": json.dumps(config, indent=2),
        "generation_config.json": json.dumps(generation, indent=2),
        "chat_template.jinja": TEMPLATE.rstrip(),
    }
    return {name: text + "\n" for name, text in written.items()}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
