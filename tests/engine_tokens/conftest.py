import json
import os
import shutil
from functools import cache
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
ROOT = Path(__file__).parents[2] / ".cache" / "tokenizers"
VLLM_FAMILIES = ("qwen3", "llama3_1", "gemma3", "deepseek_v3")


def family_folder(family: str) -> Path:
    """The folder of a real tokenizer; the test is skipped without it, but not in CI."""
    if not (ROOT / family / "tokenizer.json").is_file():
        reason = f"the real {family} tokenizer is missing; run: python tools/fetch_tokenizers.py"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return ROOT / family


@cache
def encoder_of(folder: Path) -> PromptEncoder:
    return PromptEncoder(ModelFiles.read(folder))


@pytest.fixture(params=FAMILIES, name="family_encoder")
def real_encoder(request: pytest.FixtureRequest) -> PromptEncoder:
    return encoder_of(family_folder(request.param))


@pytest.fixture(params=VLLM_FAMILIES, name="complete_model")
def model_with_a_config(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """As on a hub: `transformers` chooses the tokenizer class by the model type."""
    family = str(request.param)
    copy = tmp_path / family
    shutil.copytree(family_folder(family), copy)
    (copy / "config.json").write_text(json.dumps({"model_type": FAMILIES[family]}))
    return copy
