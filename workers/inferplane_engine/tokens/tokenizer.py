"""Text to token ids: fast, and equal to the engine's own or not used.

Problem: routing needs the engine's exact tokens, and the reference implementation takes 40 ms for 32 KB.
Idea: `fastokens` reads the same tokenizer.json; at start it is compared with `tokenizers` on probe texts and on every
added token, and on any difference, or an error, the reference stays in use and the reason is kept.
Special tokens inside user text become control tokens, as in the engine, which looks for them everywhere.
Trade-off: the self-test takes some tens of milliseconds at start, and both hold the vocabulary, some 50 MB each, until
`drop_reference`.  Invariant: `encode` gives what `tokenizers` gives; tokens that the post-processor adds (a
beginning-of-sequence token) are taken from the reference too.
"""

from typing import Any, Final, Protocol

import fastokens  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]  # no py.typed in the wheel
import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken
from tokenizers import Tokenizer as Reference

from inferplane_engine.tokens.files import ModelFiles, ModelFilesError
from inferplane_engine.tokens.probes import TEXTS

Tokens = NDArray[np.int32]

_SEGMENT_CACHE_BYTES: Final = 64 * 1024 * 1024


class _Backend(Protocol):
    def __call__(self, text: str, /) -> Tokens: ...


class Tokenizer:
    """One model's tokenizer; safe to call from several threads, and it releases the GIL while it works."""

    def __init__(self, files: ModelFiles, *, segment_cache_bytes: int = _SEGMENT_CACHE_BYTES) -> None:
        text = files.tokenizer_json()
        self._reference: Reference | None = reference_tokenizer(files, text)
        self._encode: _Backend = self._by_reference
        self.fallback_reason = ""
        """Why the fast tokenizer is not in use; empty when it is."""
        self.prefix, self.suffix = self._added_around()
        self.longest_token = max((len(token) for token in self.reference.get_vocab(with_added_tokens=True)), default=1)
        """Characters of the longest token in the vocabulary."""
        try:
            fast = _fast_tokenizer(self.reference, text, segment_cache_bytes)
        except Exception as error:  # noqa: BLE001  # whatever it is, the reference can do it
            self.fallback_reason = f"fastokens cannot read this tokenizer: {type(error).__name__}: {error}"
            return
        self.fallback_reason = self._difference(fast)
        if not self.fallback_reason:
            self._encode = fast

    @property
    def backend(self) -> str:
        return "tokenizers" if self.fallback_reason else "fastokens"

    @property
    def reference(self) -> Reference:
        """The reference implementation; RuntimeError once it was dropped."""
        if self._reference is None:
            raise RuntimeError("the reference tokenizer was dropped: ask before drop_reference")
        return self._reference

    def drop_reference(self) -> None:
        """Let go of the reference where the fast tokenizer serves: it was needed to prove that one right."""
        if not self.fallback_reason:
            self._reference = None

    def encode(self, text: str, *, add_special_tokens: bool = False) -> Tokens:
        """Return the token ids; UnicodeEncodeError for text that no UTF-8 can hold."""
        if not text.isascii():
            text.encode()  # fastokens would replace lone surrogates
        body = self._encode(text)
        if not add_special_tokens or not (self.prefix.size or self.suffix.size):
            return body
        return np.concatenate((self.prefix, body, self.suffix))

    def _by_reference(self, text: str) -> Tokens:
        return np.array(self.reference.encode(text, add_special_tokens=False).ids, np.int32)

    def _added_around(self) -> tuple[Tokens, Tokens]:
        """Return what the post-processor puts before and after a text."""
        plain = self.reference.encode("a", add_special_tokens=False).ids
        whole = self.reference.encode("a", add_special_tokens=True).ids
        for start in range(len(whole) - len(plain) + 1):
            if whole[start : start + len(plain)] == plain:
                end = start + len(plain)
                return np.array(whole[:start], np.int32), np.array(whole[end:], np.int32)
        raise ModelFilesError("tokenizer.json: its post-processor changes tokens, which is not supported")

    def _difference(self, fast: _Backend) -> str:
        """Return the first difference on the probes, empty when there is none."""
        added = self.reference.get_added_tokens_decoder().values()
        special = "".join(f"a {token.content}b {token.content}\n" for token in added)
        for text in (*TEXTS, "".join(TEXTS), special):
            try:
                same = np.array_equal(fast(text), self._by_reference(text))
            except Exception as error:  # noqa: BLE001  # whatever it is, the reference can do it
                return f"fastokens fails on {text[:40]!r}: {type(error).__name__}: {error}"
            if not same:
                return f"fastokens gives other tokens for {text[:40]!r}"
        return ""


def reference_tokenizer(files: ModelFiles, tokenizer_json: str) -> Reference:
    """Return the reference with the special tokens that only tokenizer_config.json names."""
    try:
        reference = Reference.from_str(tokenizer_json)
    except Exception as error:
        raise ModelFilesError(f"{files.root / 'tokenizer.json'} cannot be read: {error}") from error
    reference.no_truncation()
    reference.no_padding()
    config: Any = files.mapping("tokenizer_config.json")
    reference.encode_special_tokens = bool(config.get("split_special_tokens", False))
    missing = [text for text in files.special_tokens().values() if reference.token_to_id(text) is None]
    if missing:
        untyped: Any = reference  # its stub says `list` without elements
        untyped.add_tokens([AddedToken(text, special=True) for text in dict.fromkeys(missing)])
    return reference


def _fast_tokenizer(reference: Reference, tokenizer_json: str, segment_cache_bytes: int) -> _Backend:
    fast: Any = fastokens.Tokenizer.from_json_str(tokenizer_json)
    added = [token for _, token in sorted(reference.get_added_tokens_decoder().items())]
    known = {entry["content"] for entry in fast.added_tokens()}
    if new := [token for token in added if token.content not in known]:
        fast.add_tokens(new)
    fast.no_truncation()
    fast.no_padding()
    if hasattr(fast, "enable_segment_cache"):
        fast.enable_segment_cache(segment_cache_bytes)
    split = bool(reference.encode_special_tokens)

    def encode(text: str, /) -> Tokens:
        ids, _ = fast.encode_batch_flat([text], False, split)  # noqa: FBT003  # positional in the binding
        return np.frombuffer(ids, np.int32).copy()  # writable: kernels are compiled once, for writable arrays

    return encode
