"""A prompt with a known answer: the check that an engine computes right, not only that it answers.

Problem: a wrong weight file, a bad accelerator or a broken kernel gives fluent nonsense with every health check green.
Idea: one short greedy prompt after each start; its answer must equal the configured one or, without one, what this
model, revision and engine version said at their first start.  Trade-off: the first answer ever is taken on trust.
Invariant: a worker whose canary failed takes no requests.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, cast

import orjson

PROMPT: Final = "The capital of France is"
MAX_TOKENS: Final = 8


class CanaryState(IntEnum):
    """Values of the wire's CanaryState."""

    UNKNOWN = 0
    PASSED = 1
    FAILED = 2


@dataclass(frozen=True, slots=True)
class Verdict:
    state: CanaryState
    detail: str = ""


def question(model: str, *, salt: str) -> dict[str, Any]:
    """Return the request; `salt` is another each time, so that it is computed and not found in the cache."""
    asked = {"model": model, "prompt": PROMPT, "max_tokens": MAX_TOKENS, "temperature": 0, "seed": 0}
    return {**asked, "cache_salt": salt}


def answer_of(response: Mapping[str, Any]) -> str | None:
    """Return the text of a completion, or None."""
    choices = response.get("choices")
    if not isinstance(choices, list) or not choices:
        return None
    text = cast("list[dict[str, Any]]", choices)[0].get("text")
    return text if isinstance(text, str) else None


def judge(answer: str | None, expected: str | None) -> Verdict:
    """Compare; without an expectation, any answer will do."""
    if answer is None:
        return Verdict(CanaryState.FAILED, "the canary prompt got a wrong answer: no text")
    if expected is not None and answer != expected:
        return Verdict(CanaryState.FAILED, f"the canary prompt got a wrong answer: {answer!r} instead of {expected!r}")
    return Verdict(CanaryState.PASSED)


class CanaryMemory:
    """Remembers first answers in a directory, one small file for each model, revision and engine version."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def recall(self, model: str, revision: str, engine_version: str) -> str | None:
        try:
            stored: object = orjson.loads(self._path(model, revision, engine_version).read_bytes())
        except (FileNotFoundError, orjson.JSONDecodeError):
            return None
        answer = cast("dict[str, object]", stored).get("answer") if isinstance(stored, dict) else None
        return answer if isinstance(answer, str) else None

    def remember(self, model: str, revision: str, engine_version: str, answer: str) -> None:
        path = self._path(model, revision, engine_version)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_bytes(orjson.dumps({"model": model, "revision": revision, "answer": answer}))
        partial.replace(path)

    def _path(self, model: str, revision: str, engine_version: str) -> Path:
        name = hashlib.sha256(f"{PROMPT}\x00{model}\x00{revision}\x00{engine_version}".encode()).hexdigest()[:32]
        return self._directory / f"canary-{name}.json"
