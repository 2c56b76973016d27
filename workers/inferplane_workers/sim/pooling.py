"""Embeddings and scores: deterministic numbers with the right shapes.

A text's vector is the sum of pseudo-random vectors of its tokens, normalised, so that texts that share words are near
each other, and the same text has the same vector on every engine with the same tokenizer.
"""

import base64
import math
import struct
import time
from collections.abc import Sequence
from random import Random
from typing import cast

from inferplane_workers.sim.errors import bad_request, invalid_field
from inferplane_workers.sim.fields import Body, as_object, as_tokens
from inferplane_workers.sim.text import TextModel

_WIDTH = 64
_MOST_DIMENSIONS = 4096


def vector(tokens: Sequence[int], width: int = _WIDTH) -> list[float]:
    total = [0.0] * width
    for token in tokens:
        rng = Random(token)  # noqa: S311  a fixed direction per token
        for index in range(width):
            total[index] += rng.gauss(0.0, 1.0)
    length = math.sqrt(sum(value * value for value in total)) or 1.0
    return [value / length for value in total]


def similarity(first: Sequence[int], second: Sequence[int]) -> float:
    return sum(a * b for a, b in zip(vector(first), vector(second), strict=True))


def embeddings(text: TextModel, body: Body, model: str, request_id: str, limit: int) -> dict[str, object]:
    """/v1/embeddings."""
    inputs = _inputs(text, body)
    for tokens in inputs:
        _check_length(tokens, limit)
    width = body.whole("dimensions", _WIDTH) or _WIDTH
    if not 1 <= width <= _MOST_DIMENSIONS:
        raise bad_request(f"dimensions must be in [1, {_MOST_DIMENSIONS}], got {width}.", "dimensions")
    form = body.text("encoding_format", "float")
    if form not in ("float", "base64"):
        raise bad_request("encoding_format must be 'float' or 'base64'.", "encoding_format")
    vectors = [vector(tokens, width) for tokens in inputs]
    data = [
        {
            "index": index,
            "object": "embedding",
            "embedding": values if form == "float" else base64.b64encode(struct.pack(f"<{width}f", *values)).decode(),
        }
        for index, values in enumerate(vectors)
    ]
    return _answer(request_id, "list", model, inputs) | {"data": data}


def score(text: TextModel, body: Body, model: str, request_id: str, limit: int) -> dict[str, object]:
    """/score: one query against many, or pairs."""
    firsts = _texts(body, "text_1" if body.has("text_1") else "queries")
    seconds = _texts(body, "text_2" if body.has("text_2") else "documents")
    if len(firsts) == 1:
        firsts *= len(seconds)
    if len(firsts) != len(seconds):
        raise bad_request("Input lengths must be either 1:1, 1:N or N:N", "text_2")
    pairs = [(text.encode(first), text.encode(second)) for first, second in zip(firsts, seconds, strict=True)]
    for first, second in pairs:
        _check_length(first + second, limit)
    data = [{"index": index, "object": "score", "score": similarity(*pair)} for index, pair in enumerate(pairs)]
    return _answer(request_id, "list", model, [first + second for first, second in pairs]) | {"data": data}


def rerank(text: TextModel, body: Body, model: str, request_id: str, limit: int) -> dict[str, object]:
    """/rerank: documents by nearness to the query."""
    body.required("query")
    query = text.encode(body.text("query") or "")
    documents = _texts(body, "documents")
    encoded = [text.encode(document) for document in documents]
    for tokens in encoded:
        _check_length(query + tokens, limit)
    top = body.whole("top_n", len(documents)) or len(documents)
    scored = sorted(((similarity(query, tokens), -index) for index, tokens in enumerate(encoded)), reverse=True)
    results = [
        {"index": -index, "document": {"text": documents[-index], "multi_modal": None}, "relevance_score": value}
        for value, index in scored[:top]
    ]
    total = sum(len(query) + len(tokens) for tokens in encoded)
    return {
        "id": request_id,
        "model": model,
        "usage": {"prompt_tokens": total, "total_tokens": total},
        "results": results,
    }


def _answer(request_id: str, kind: str, model: str, inputs: Sequence[Sequence[int]]) -> dict[str, object]:
    total = sum(len(tokens) for tokens in inputs)
    return {
        "id": request_id,
        "object": kind,
        "created": int(time.time()),
        "model": model,
        "usage": {
            "prompt_tokens": total,
            "total_tokens": total,
            "completion_tokens": 0,
            "prompt_tokens_details": None,
        },
    }


def _check_length(tokens: Sequence[int], limit: int) -> None:
    if len(tokens) > limit:
        raise bad_request(
            f"This model's maximum context length is {limit} tokens. However, your prompt contains {len(tokens)} input "
            "tokens. Please reduce the length of the input prompt.",
            "input_tokens",
        )


def _inputs(text: TextModel, body: Body) -> list[tuple[int, ...]]:
    value = body.required("input")
    if isinstance(value, str):
        return [text.encode(value)]
    if not isinstance(value, list) or not value:
        raise bad_request("input must be a string, a list of strings, tokens, or a list of token lists.", "input")
    listed = cast("list[object]", value)
    if isinstance(listed[0], int):
        return [as_tokens(listed, body.at("input"), text.size)]
    return [
        text.encode(entry) if isinstance(entry, str) else as_tokens(entry, (*body.at("input"), index), text.size)
        for index, entry in enumerate(listed)
    ]


def _texts(body: Body, name: str) -> list[str]:
    value = body.required(name)
    listed = cast("list[object]", value) if isinstance(value, list) else [value]
    texts: list[str] = []
    for index, entry in enumerate(listed):
        path = (*body.at(name), index)
        text = as_object(cast("object", entry), path).text("text") if isinstance(entry, dict) else entry
        if not isinstance(text, str):
            raise invalid_field("string_type", path, "Input should be a valid string", text)
        texts.append(text)
    return texts
