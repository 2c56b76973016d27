from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_workers.agent.body import UsageWish
from inferplane_workers.agent.sse import UsageFilter
from inferplane_workers.agent.usage import Usage

TEXTS = st.lists(
    st.text(max_size=12) | st.sampled_from(['"usage":{', ',"usage":{"x":1}', "\n\n", "data: ", '"choices":[]', "}"]),
    min_size=1,
    max_size=8,
)
FINGERPRINT = b'"vllm-1-abc"'


def chunk(text: str, index: int = 0, *, finish: str | None = None, usage: dict[str, Any] | None = None) -> bytes:
    body: dict[str, Any] = {
        "id": "x",
        "choices": [{"index": index, "text": text, "finish_reason": finish}],
    }
    if usage is not None:
        body["usage"] = usage
    return b"data: " + orjson.dumps(body) + b"\n\n"


def counted(output: int) -> dict[str, Any]:
    return {
        "prompt_tokens": 7,
        "total_tokens": 7 + output,
        "completion_tokens": output,
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def final(output: int) -> bytes:
    usage = {**counted(output), "prompt_tokens_details": {"cached_tokens": 4}}
    body: dict[str, Any] = {"id": "x", "choices": [], "usage": usage, "system_fingerprint": "vllm-1-abc"}
    return b"data: " + orjson.dumps(body) + b"\n\n"


def feed(filtered: UsageFilter, stream: bytes, cuts: list[int]) -> bytes:
    out, start = b"", 0
    for cut in sorted(cut % (len(stream) + 1) for cut in cuts):
        out += filtered.feed(stream[start:cut]) if cut > start else b""
        start = max(start, cut)
    return out + filtered.feed(stream[start:]) + filtered.finish()


@settings(deadline=None)
@given(texts=TEXTS, cuts=st.lists(st.integers(0, 5000), max_size=12))
def test_a_client_that_asked_for_nothing_sees_the_stream_as_if_nobody_had(texts: list[str], cuts: list[int]) -> None:
    asked = b"".join(chunk(text, usage=counted(n + 1)) for n, text in enumerate(texts))
    unasked = b"".join(chunk(text) for text in texts)
    filtered = UsageFilter(UsageWish())

    out = feed(filtered, asked + final(len(texts)) + b"data: [DONE]\n\n", cuts)

    assert out == unasked + b"data: [DONE]\n\n"
    assert filtered.usage == Usage(prompt=7, output=len(texts), cached=4)


@settings(deadline=None)
@given(texts=TEXTS, cuts=st.lists(st.integers(0, 5000), max_size=12))
def test_a_client_that_asked_for_usage_gets_the_last_chunk_only(texts: list[str], cuts: list[int]) -> None:
    asked = b"".join(chunk(text, usage=counted(n + 1)) for n, text in enumerate(texts))
    filtered = UsageFilter(UsageWish(final=True))

    out = feed(filtered, asked + final(len(texts)) + b"data: [DONE]\n\n", cuts)

    assert out == b"".join(chunk(text) for text in texts) + final(len(texts)) + b"data: [DONE]\n\n"


@settings(deadline=None)
@given(texts=TEXTS, cuts=st.lists(st.integers(0, 5000), max_size=12))
def test_a_client_that_asked_for_continuous_usage_gets_every_byte(texts: list[str], cuts: list[int]) -> None:
    stream = b"".join(chunk(text, usage=counted(n + 1)) for n, text in enumerate(texts)) + final(len(texts))

    assert feed(UsageFilter(UsageWish(final=True, continuous=True)), stream, cuts) == stream


@settings(deadline=None)
@given(data=st.binary(max_size=300), cuts=st.lists(st.integers(0, 300), max_size=5))
def test_bytes_that_are_no_event_stream_pass_unchanged(data: bytes, cuts: list[int]) -> None:
    assert feed(UsageFilter(UsageWish()), data, cuts) == data


def test_a_stream_cut_short_is_counted_up_to_its_last_chunk() -> None:
    filtered = UsageFilter(UsageWish())
    for output in (1, 3, 4):
        filtered.feed(chunk("x", usage=counted(output)))

    assert filtered.usage == Usage(prompt=7, output=4, cached=None)


def test_several_choices_are_counted_each_and_added() -> None:
    filtered = UsageFilter(UsageWish(), many=True)
    for index, output in ((0, 2), (1, 5), (0, 3)):
        filtered.feed(chunk("x", index, usage=counted(output)))

    assert filtered.usage == Usage(prompt=7, output=8, cached=None)


def test_the_fingerprint_returns_to_the_chunk_from_which_asking_for_usage_took_it() -> None:
    filtered = UsageFilter(UsageWish(), fingerprint=FINGERPRINT)

    out = filtered.feed(chunk("x", finish="stop", usage=counted(1)))

    assert out == chunk("x", finish="stop")[:-3] + b',"system_fingerprint":"vllm-1-abc"}\n\n'


def test_the_fingerprint_is_learnt_from_the_usage_chunk() -> None:
    filtered = UsageFilter(UsageWish())
    filtered.feed(final(1))

    assert filtered.fingerprint_seen == FINGERPRINT


@pytest.mark.parametrize("gap", [b"\n\n", b"\r\n\r\n"], ids=["lf", "crlf"])
def test_an_engine_that_writes_spaces_is_cleaned_too(gap: bytes) -> None:
    filtered = UsageFilter(UsageWish())
    body = b'data: {"choices": [{"index": 0, "text": "a"}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}'

    out = filtered.feed(body + gap)

    assert orjson.loads(out.removeprefix(b"data: ")) == {"choices": [{"index": 0, "text": "a"}]}
    assert filtered.usage == Usage(prompt=1, output=2)
