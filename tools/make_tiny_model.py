"""Write a tiny random Llama with a real tokenizer and chat template, for tests against a real engine.

Tests need an engine that starts fast and answers deterministically, not one that makes sense: two layers of random
float32 weights, greedy answers that differ visibly whenever the KV they rest on differs.  The tokenizer is a byte-level
BPE trained on the Python documentation that every interpreter carries, so it splits English as real ones do.  The
template has the features on which prompt rendering usually goes wrong: a default system prompt, tools, tool calls and
content parts.

Usage: PYTHON_OF_THE_ENGINE tools/make_tiny_model.py [FOLDER]
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# transformers and torch are not typed strictly, and live in the engine's environment only

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from atomic_folder import build_once

DEFAULT_FOLDER = Path(".cache/models/tiny-llama")
VOCABULARY = 4096
CONTEXT = 16384
SEED = 20
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")

CHAT_TEMPLATE = """\
{%- if messages[0].role != 'system' %}<|im_start|>system
You are a helpful assistant.{% if tools %}

# Tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}{% endif %}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}
{%- elif message.content %}{% for part in message.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}
{%- endfor %}{% endif %}
{%- if message.role == 'system' and loop.first and tools %}

# Tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}{% endif %}
{%- if message.tool_calls %}{% for call in message.tool_calls %}
<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>
{%- endfor %}{% endif %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


@dataclass(frozen=True, slots=True)
class Size:
    """Shape of a Llama."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head: int


TINY = Size(hidden=128, intermediate=256, layers=2, heads=4, kv_heads=2, head=32)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FOLDER
    built = build_once(folder, Path(__file__).read_text(), build)
    sys.stdout.write(f"{folder}: {'built' if built else 'there already'}\n")


def build(folder: Path, size: Size = TINY) -> None:
    tokenizer = train_tokenizer()
    tokenizer.save_pretrained(folder)
    save_weights(folder, tokenizer, size)


def train_tokenizer() -> Any:
    tokenizers = import_module("tokenizers")
    transformers = import_module("transformers")
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    bpe.train_from_iterator(corpus(), trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token="<|im_end|>",  # noqa: S106 - a token of text, not a secret
        pad_token="<|endoftext|>",  # noqa: S106 - as above
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def corpus() -> Iterator[str]:
    topics: dict[str, str] = import_module("pydoc_data.topics").topics
    yield from (topics[name] for name in sorted(topics))


def save_weights(folder: Path, tokenizer: Any, size: Size) -> None:
    torch = import_module("torch")
    transformers = import_module("transformers")
    torch.manual_seed(SEED)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=size.hidden,
        intermediate_size=size.intermediate,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        head_dim=size.head,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-6,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=0,
        initializer_range=0.15,  # far larger than usual: greedy choices far apart, so that float noise cannot flip them
    )
    model = transformers.LlamaForCausalLM(config).to(torch.float32)
    model.config.dtype = torch.float32
    model.generation_config.eos_token_id = [end]
    model.generation_config.pad_token_id = 0
    model.generation_config.bos_token_id = None
    model.save_pretrained(folder, safe_serialization=True)


if __name__ == "__main__":
    main()
