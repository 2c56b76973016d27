"""Cached tokens, as vLLM 0.32 reports them: what predictions are checked against."""

from typing import Any

import pytest

from engine_probe import EngineProbe, Engines, wait_until

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(180, func_only=True)]

BLOCK = 32


def cached(answer: dict[str, Any]) -> int:
    count: int = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    return count


def sources_of(engine: EngineProbe, before: dict[str, float], total: int) -> dict[str, float]:
    """What the engine's counters gained, once they account for `total` prompt tokens."""

    def gained() -> dict[str, float]:
        return {name: value - before.get(name, 0) for name, value in engine.prompt_tokens_by_source().items()}

    return wait_until(gained, lambda gains: sum(gains.values()) >= total)


@pytest.mark.parametrize(
    ("length", "expected"),
    [(31, 0), (32, 0), (33, 32), (63, 32), (64, 32), (65, 64), (96, 64), (97, 96)],
)
def test_a_repeated_prompt_hits_whole_blocks_but_never_its_last_token(
    engines: Engines, salt: str, length: int, expected: int
) -> None:
    prompt = list(range(500, 500 + length))
    engines.prefill.complete(prompt, cache_salt=salt)

    assert cached(engines.prefill.complete(prompt, cache_salt=salt)) == expected


def test_aliases_of_a_model_share_their_cache(engines: Engines, salt: str) -> None:
    prompt = list(range(500, 600))
    engines.prefill.complete(prompt, cache_salt=salt, model="tiny")

    assert cached(engines.prefill.complete(prompt, cache_salt=salt, model="tiny-alias")) == 96


def test_no_salt_is_a_salt_of_its_own(engines: Engines, salt: str) -> None:
    prompt = list(range(700, 800))
    engines.prefill.complete(prompt, cache_salt=salt)

    assert cached(engines.prefill.complete(prompt)) == 0


def test_streams_report_cached_tokens_in_their_last_chunk(engines: Engines, salt: str) -> None:
    prompt = list(range(500, 600))
    engines.prefill.complete(prompt, cache_salt=salt)
    body = {"prompt": prompt, "max_tokens": 2, "cache_salt": salt, "stream_options": {"include_usage": True}}
    with engines.prefill.streaming("/v1/completions", body) as response:
        lines = [line for line in response.iter_lines() if line]

    assert '"cached_tokens":96' in lines[-2]
    assert lines[-1] == "data: [DONE]"


def test_a_handed_over_prompt_is_not_computed_again(engines: Engines, salt: str, texts: list[str]) -> None:
    tokens = engines.prefill.tokens_of(texts[0])
    before = engines.decode.prompt_tokens_by_source()
    handed = engines.prefill.complete(tokens, cache_salt=salt, kv_transfer_params={"do_remote_decode": True})
    engines.decode.complete(tokens, cache_salt=salt, kv_transfer_params=handed["kv_transfer_params"])

    assert sources_of(engines.decode, before, len(tokens)) == {
        "local_compute": 0,
        "local_cache_hit": 0,
        "external_kv_transfer": len(tokens),
    }


def test_a_second_turn_transfers_only_what_decode_does_not_hold(engines: Engines, salt: str, texts: list[str]) -> None:
    tokens = engines.prefill.tokens_of(texts[1])
    first, second = tokens[:200], tokens[:300]
    for prompt in (first, second):
        before = engines.decode.prompt_tokens_by_source()
        handed = engines.prefill.complete(prompt, cache_salt=salt, kv_transfer_params={"do_remote_decode": True})
        answer = engines.decode.complete(prompt, cache_salt=salt, kv_transfer_params=handed["kv_transfer_params"])

    assert sources_of(engines.decode, before, 300) == {
        "local_compute": 0,
        "local_cache_hit": 192,
        "external_kv_transfer": 108,
    }
    assert cached(handed) == 192
    assert cached(answer) == 192


def test_decode_reports_the_prefill_sides_cached_tokens_as_its_own(
    engines: Engines, salt: str, texts: list[str]
) -> None:
    tokens = engines.prefill.tokens_of(texts[2])[:200]
    engines.prefill.complete(tokens, cache_salt=salt)
    handed = engines.prefill.complete(tokens, cache_salt=salt, kv_transfer_params={"do_remote_decode": True})
    answer = engines.decode.complete(tokens, cache_salt=salt, kv_transfer_params=handed["kv_transfer_params"])

    assert cached(answer) == 192  # though the decode side held nothing of it
