"""Real tokenizers, each read once: that takes seconds, and of the larger ones many."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from inferplane_engine.tokens import ModelFiles, PromptEncoder

FAMILIES = {
    "qwen3": "qwen3",
    "llama3_1": "llama",
    "gptoss": "gpt_oss",
    "gemma3": "gemma3_text",
    "deepseek_v3": "deepseek_v3",
}
ROOT = Path(__file__).parents[1] / ".cache" / "tokenizers"
VLLM_FAMILIES = ("qwen3", "llama3_1", "gemma3", "deepseek_v3")


def family_folder(family: str) -> Path:
    """Return the folder of a real tokenizer; without it the test is skipped, but fails in CI."""
    if not (ROOT / family / "tokenizer.json").is_file():
        reason = f"the real {family} tokenizer is missing; run: python tools/fetch_tokenizers.py"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return ROOT / family


@dataclass
class Models:
    """Folders of models, and their encoders."""

    root: Path
    _encoders: dict[str, PromptEncoder] = field(default_factory=dict[str, PromptEncoder])

    def complete(self, family: str) -> Path:
        """As on a hub: `transformers` chooses the tokenizer class by the model type."""
        folder = self.root / family
        if not folder.exists():
            found = [file for file in family_folder(family).iterdir() if file.name != "config.json"]
            folder.mkdir()
            for file in found:
                (folder / file.name).symlink_to(file)
            (folder / "config.json").write_text(json.dumps({"model_type": FAMILIES[family]}))
        return folder

    def encoder(self, family: str) -> PromptEncoder:
        if family not in self._encoders:
            folder = self.complete(family) if family in VLLM_FAMILIES else family_folder(family)
            self._encoders[family] = PromptEncoder(ModelFiles.read(folder))
        return self._encoders[family]
