"""Tokens of every kind of request, against vLLM's own rendering code in its own environment."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from inferplane_engine.tokens import NotEncodableError, PromptEncoder
from inferplane_engine.tokens.testing_requests import REQUESTS
from real_tokenizers import VLLM_FAMILIES, Models

Answers = list[list[int] | str]
HERE = Path(__file__).parent
ENGINE_PYTHON = HERE.parents[1] / ".venv-engine" / "bin" / "python"


def outcome(encoder: PromptEncoder, path: str, body: dict[str, Any]) -> list[int] | None:
    try:
        return [int(token) for token in encoder.encode(path, body).tokens]
    except NotEncodableError:
        return None


pytestmark = [
    pytest.mark.engine,
    pytest.mark.slow,
    pytest.mark.timeout(600),  # vLLM is imported, and reads four vocabularies
    pytest.mark.skipif(not ENGINE_PYTHON.exists(), reason="no engine environment (.venv-engine)"),
]


@pytest.fixture(scope="module")
def theirs(models: Models) -> Mapping[str, Answers]:
    """What the engine makes of every request, by family."""
    job = json.dumps({"models": [str(models.complete(it)) for it in VLLM_FAMILIES], "requests": REQUESTS})
    command = [str(ENGINE_PYTHON), str(HERE / "render_with_vllm.py")]
    result = subprocess.run(command, input=job, capture_output=True, text=True, check=False, cwd=models.root)
    assert result.returncode == 0, result.stderr
    answers: list[Answers] = json.loads(result.stdout.splitlines()[-1])
    return dict(zip(VLLM_FAMILIES, answers, strict=True))


@pytest.mark.parametrize("family", VLLM_FAMILIES)
def test_what_is_encoded_here_equals_what_the_engine_makes_of_it(
    family: str, models: Models, theirs: Mapping[str, Answers]
) -> None:
    encoder = models.encoder(family)

    compared = 0
    for (path, body), expected in zip(REQUESTS, theirs[family], strict=True):
        ours = outcome(encoder, path, body)
        if ours is not None and not isinstance(expected, str):
            compared += 1
            assert ours == expected, body
        assert (ours is not None) or isinstance(expected, str) or "truncation_side" in body, body
    assert compared >= 35
