"""The fast tokenizer against the reference on five real model families."""

import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inferplane_engine.tokens import PromptEncoder, Tokenizer
from inferplane_engine.tokens.probes import TEXTS

PIECES = (
    *TEXTS,
    "<|im_start|>", "<|im_end|>", "<bos>", "<eos>", "<|eot_id|>", "<|start|>", "<|return|>", "<start_of_turn>",
    "<think>",
    "\x00", "\x1b", "\u200d", "\ufeff", "\n\n", "  ", "\r\n", "'s", "'LL", "12345", "\u00e9", "e\u0301",
)  # fmt: skip
letters = st.characters(exclude_categories=["Cs"])
texts = st.lists(st.sampled_from(PIECES) | st.text(letters, max_size=20), max_size=8).map("".join)


def tokenizer_of(encoder: PromptEncoder) -> Tokenizer:
    assert encoder.tokenizer is not None
    return encoder.tokenizer


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_fast_tokenizer_is_in_use(family_encoder: PromptEncoder) -> None:
    tokenizer = tokenizer_of(family_encoder)

    assert (tokenizer.backend, tokenizer.fallback_reason) == ("fastokens", "")


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_any_text_gives_the_reference_tokens(family_encoder: PromptEncoder) -> None:
    tokenizer = tokenizer_of(family_encoder)
    reference: Any = tokenizer.reference

    @settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
    @given(texts, st.booleans())
    def check(text: str, special: bool) -> None:  # noqa: FBT001  # hypothesis passes by position
        tokens = tokenizer.encode(text, add_special_tokens=special)

        assert tokens.tolist() == reference.encode(text, add_special_tokens=special).ids
        assert tokens.dtype.name == "int32"
        assert tokens.flags.writeable

    check()


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_control_tokens_inside_text_are_control_tokens(family_encoder: PromptEncoder) -> None:
    tokenizer = tokenizer_of(family_encoder)
    reference: Any = tokenizer.reference

    for number, token in list(reference.get_added_tokens_decoder().items())[:300]:
        if not token.special:
            continue
        assert number in tokenizer.encode(f"before{token.content}after").tolist()


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_tokenizer_may_be_used_by_several_threads(family_encoder: PromptEncoder) -> None:
    tokenizer = tokenizer_of(family_encoder)
    text = "".join(TEXTS) * 3
    expected = tokenizer.encode(text).tolist()
    got: list[list[int]] = []
    threads = [threading.Thread(target=lambda: got.append(tokenizer.encode(text).tolist())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert got == [expected] * 4
