"""Tokenise texts and chats, fast against reference; one JSON line at the end.

    python bench/bench_tokenizer.py [--files FOLDER]

FOLDER holds a model's tokenizer.json and companions; without it a real one from .cache/tokenizers is taken.
Microseconds of wall time, best of the repeats, for text that no cache has seen.  `stall_share` is the longest
time that another Python thread could not run while 8 MB were encoded, as a share of it: near 1 where the GIL is held.
"""

import argparse
import itertools
import json
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inferplane_engine.tokens import ModelFiles, PromptEncoder

ROOT = Path(__file__).resolve().parents[1] / ".cache" / "tokenizers"
WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog",
    "while",
    "42",
    "engines",
    "compute",
    "attention",
    "for",
    "tokens,",
    "blocks",
    "and",
    "pages",
]


def fresh_text(size: int, number: int) -> str:
    """Text with words of its own: no cache of words or segments has seen it."""
    rng = random.Random(number)  # noqa: S311  # nothing secret
    made = ("".join(rng.choices("etaoinshrdlucmfw", k=rng.randint(2, 9))) for _ in itertools.count())
    pieces = (next(made) if at % 4 == 0 else word for at, word in enumerate(itertools.cycle(WORDS)))
    return " ".join(itertools.islice(pieces, size // 4))[:size]


def best_us(work: Callable[[int], object], repeats: int) -> float:
    best = float("inf")
    for number in range(repeats):
        before = time.perf_counter()
        work(number)
        best = min(best, time.perf_counter() - before)
    return round(best * 1e6, 1)


def stall_share(encode: Callable[[str], object], text: str) -> float:
    """Return the longest silence of another Python thread, as a share of the time that the encoding took."""
    thread = threading.Thread(target=encode, args=(text,))
    begun = before = time.perf_counter()
    longest = 0.0
    thread.start()
    while thread.is_alive():
        time.sleep(0)
        now = time.perf_counter()
        longest, before = max(longest, now - before), now
    return round(longest / (time.perf_counter() - begun), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=Path, default=ROOT / "qwen3")
    options = parser.parse_args()
    encoder = PromptEncoder(ModelFiles.read(options.files))
    tokenizer = encoder.tokenizer
    assert tokenizer is not None
    reference: Any = tokenizer.reference
    chat = "/v1/chat/completions"

    def body(turns: int, size: int, number: int) -> dict[str, Any]:
        texts = [fresh_text(size, number * 100 + turn) for turn in range(turns)]
        roles = itertools.cycle(("user", "assistant"))
        return {"messages": [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]}

    long_texts = [fresh_text(32 * 1024, number) for number in range(100, 130)]
    short = [body(1, 1024, number) for number in range(200, 500)]
    turns = [body(11, 400, number) for number in range(500, 600)]
    figures = {
        "backend": tokenizer.backend,
        "text_32k_us": best_us(lambda at: tokenizer.encode(long_texts[at]), 30),
        "text_32k_reference_us": best_us(lambda at: reference.encode(long_texts[at], add_special_tokens=False), 10),
        "chat_1k_us": best_us(lambda at: encoder.encode(chat, short[at]), 300),
        "chat_10_turns_us": best_us(lambda at: encoder.encode(chat, turns[at]), 100),
        "stall_share": stall_share(tokenizer.encode, fresh_text(8 * 1024 * 1024, 9999)),
    }
    print(json.dumps({"bench": "tokenizer", "model": options.files.name, **figures}))


if __name__ == "__main__":
    main()
