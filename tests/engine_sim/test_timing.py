"""The timing model is one formula for numbers and arrays, and its profiles are plausible."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_engine.profiles import ACCELERATORS, CPU_TEST, MODELS, PROFILES, derive, profile_named
from inferplane_engine.timing import attention_pairs, decode_step_s, prefill_s, step_s, transfer_s

H100 = PROFILES["h100-8b"]


@given(st.lists(st.integers(0, 8192), min_size=1, max_size=20))
def test_arrays_give_bit_for_bit_what_numbers_give(tokens: list[int]) -> None:
    values = np.array(tokens, np.float64)
    pairs = attention_pairs(values, values * 2.0)
    many = step_s(H100, tokens=values, prefill_pairs=pairs, decode_kv_tokens=values * 3.0, sequences=values)
    one = [
        step_s(
            H100,
            tokens=float(n),
            prefill_pairs=attention_pairs(float(n), float(n) * 2.0),
            decode_kv_tokens=float(n) * 3.0,
            sequences=float(n),
        )
        for n in tokens
    ]

    assert many.tolist() == one


def test_prefill_grows_faster_than_its_length() -> None:
    short = prefill_s(H100, uncached_tokens=8_000, cached_tokens=0, chunk_tokens=8192)
    long = prefill_s(H100, uncached_tokens=64_000, cached_tokens=0, chunk_tokens=8192)

    assert long > 8 * short


def test_cached_tokens_cost_attention_only() -> None:
    fresh = prefill_s(H100, uncached_tokens=8_000, cached_tokens=0, chunk_tokens=8192)
    cached = prefill_s(H100, uncached_tokens=1_000, cached_tokens=7_000, chunk_tokens=8192)

    assert cached < fresh / 4


@pytest.mark.parametrize(("batch", "low_ms", "high_ms"), [(1, 5, 12), (32, 6, 20), (256, 15, 60)])
def test_an_h100_decodes_an_8b_model_in_milliseconds(batch: int, low_ms: float, high_ms: float) -> None:
    step_ms = 1000 * decode_step_s(H100, batch=float(batch), kv_tokens=1000.0 * batch)

    assert low_ms < step_ms < high_ms


def test_faster_memory_decodes_faster_and_a_link_costs_its_bytes() -> None:
    steps = [
        decode_step_s(PROFILES[f"{name}-8b"], batch=8.0, kv_tokens=8e3) for name in ("l40s", "a100", "h100", "h200")
    ]

    assert steps == sorted(steps, reverse=True)
    assert transfer_s(H100, tokens=1e6) == pytest.approx(0.002 + 1e6 * 131_072 / 40e9)


def test_a_slow_engine_is_slow_everywhere() -> None:
    slow = CPU_TEST.scaled(3.0)

    assert decode_step_s(slow, batch=4.0, kv_tokens=100.0) == pytest.approx(
        3 * decode_step_s(CPU_TEST, batch=4.0, kv_tokens=100.0)
    )
    assert transfer_s(slow, tokens=100.0) == pytest.approx(3 * transfer_s(CPU_TEST, tokens=100.0))


def test_what_does_not_fit_is_refused_and_unknown_names_are_listed() -> None:
    with pytest.raises(ValueError, match="raise the tensor parallelism"):
        derive(MODELS["70b"], ACCELERATORS["h100"], 1)
    with pytest.raises(ValueError, match="cpu-test"):
        profile_named("abacus")
