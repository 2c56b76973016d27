"""Tokens of every kind of request, against vLLM's own rendering code in its own environment."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from inferplane_engine.tokens import ModelFiles, NotEncodableError, PromptEncoder
from inferplane_engine.tokens.testing_requests import REQUESTS

HERE = Path(__file__).parent
ENGINE_PYTHON = HERE.parents[1] / ".venv-engine" / "bin" / "python"


def outcome(encoder: PromptEncoder, path: str, body: dict[str, Any]) -> list[int] | None:
    try:
        return [int(token) for token in encoder.encode(path, body).tokens]
    except NotEncodableError:
        return None


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_is_encoded_here_equals_what_the_engine_makes_of_it(complete_model: Path) -> None:
    if not ENGINE_PYTHON.exists():
        pytest.skip("no engine environment (.venv-engine)")
    job = json.dumps({"model": str(complete_model), "requests": REQUESTS})
    command = [str(ENGINE_PYTHON), str(HERE / "render_with_vllm.py")]
    result = subprocess.run(command, input=job, capture_output=True, text=True, check=False, cwd=complete_model)
    assert result.returncode == 0, result.stderr
    expected: list[list[int] | str] = json.loads(result.stdout.splitlines()[-1])
    encoder = PromptEncoder(ModelFiles.read(complete_model))

    compared = 0
    for (path, body), theirs in zip(REQUESTS, expected, strict=True):
        ours = outcome(encoder, path, body)
        if ours is not None and not isinstance(theirs, str):
            compared += 1
            assert ours == theirs, body
        assert (ours is not None) or isinstance(theirs, str) or "truncation_side" in body, body
    assert compared >= 35
