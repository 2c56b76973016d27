"""The reference tokenizer proves the fast one right, and may then go."""

from pathlib import Path

import fastokens  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]  # no py.typed in the wheel
import pytest

from inferplane_engine.tokens.testing import small_model
from inferplane_engine.tokens.tokenizer import Tokenizer


def test_tokens_are_the_same_without_the_reference(tmp_path: Path) -> None:
    tokenizer = Tokenizer(small_model(tmp_path))
    expected = tokenizer.encode("hello world", add_special_tokens=True).tolist()

    tokenizer.drop_reference()

    assert tokenizer.encode("hello world", add_special_tokens=True).tolist() == expected
    with pytest.raises(RuntimeError, match="dropped"):
        _ = tokenizer.reference


def test_a_reference_that_serves_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(fastokens, "Tokenizer")
    tokenizer = Tokenizer(small_model(tmp_path))
    expected = tokenizer.encode("hello world").tolist()

    tokenizer.drop_reference()

    assert tokenizer.backend == "tokenizers"
    assert tokenizer.encode("hello world").tolist() == expected
    assert tokenizer.reference.get_vocab_size() > 0
