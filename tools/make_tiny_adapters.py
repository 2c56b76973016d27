"""Write LoRA adapters for the tiny Llama: random, and strong enough that greedy answers differ from the model's own.

`one` and `two` differ in their weights alone; `wide` has a rank that an engine with the default limit must refuse.
The layout is PEFT's: `adapter_config.json`, and pairs of matrices for each projection in `adapter_model.safetensors`.

Usage: PYTHON_OF_THE_ENGINE tools/make_tiny_adapters.py [FOLDER]
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# safetensors lives in the engine's environment only, and says nothing of its types

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from atomic_folder import build_once

DEFAULT_FOLDER = Path(".cache/models/tiny-adapters")
HIDDEN, LAYERS = 128, 2
OUTPUTS = {"q_proj": 128, "k_proj": 64, "v_proj": 64, "o_proj": 128}
ADAPTERS = {"one": (21, 8), "two": (22, 8), "wide": (23, 64)}
"""Name to seed and rank."""


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FOLDER
    built = build_once(folder, Path(__file__).read_text(), build)
    sys.stdout.write(f"{folder}: {'built' if built else 'there already'}\n")


def build(folder: Path) -> None:
    for name, (seed, rank) in ADAPTERS.items():
        write(folder / name, seed, rank)


def write(folder: Path, seed: int, rank: int) -> None:
    folder.mkdir()
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "inferplane/tiny",
        "r": rank,
        "lora_alpha": rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(OUTPUTS),
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2))
    import_module("safetensors.numpy").save_file(tensors(seed, rank), str(folder / "adapter_model.safetensors"))


def tensors(seed: int, rank: int) -> dict[str, Any]:
    numpy = import_module("numpy")
    random = numpy.random.default_rng(seed)

    def drawn(*shape: int) -> Any:
        return (random.standard_normal(shape) * 0.2).astype(numpy.float32)

    found: dict[str, Any] = {}
    for layer in range(LAYERS):
        for projection, outputs in OUTPUTS.items():
            name = f"base_model.model.model.layers.{layer}.self_attn.{projection}"
            found[f"{name}.lora_A.weight"] = drawn(rank, HIDDEN)
            found[f"{name}.lora_B.weight"] = drawn(outputs, rank)
    return found


if __name__ == "__main__":
    main()
