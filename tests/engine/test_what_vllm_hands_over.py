"""Transfer parameters and what comes of them, as vLLM 0.32 with NIXL does it."""

import pytest

from engine_probe import Engines

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(180, func_only=True)]

REMOTE_DECODE = {"do_remote_decode": True}


def test_transfer_parameters_have_these_fields(engines: Engines, salt: str) -> None:
    prompt = list(range(500, 570))
    parameters = engines.prefill.complete(prompt, cache_salt=salt, kv_transfer_params=REMOTE_DECODE)[
        "kv_transfer_params"
    ]

    assert set(parameters) == {
        "do_remote_prefill",
        "do_remote_decode",
        "remote_block_ids",
        "remote_engine_id",
        "remote_request_id",
        "remote_host",
        "remote_port",
        "tp_size",
        "dcp_size",
        "pp_size",
        "remote_num_tokens",
        "remote_blocks_expiry_time",
        "transfer_mode",
        "remote_prefill_cached_tokens",
    }
    assert (parameters["do_remote_prefill"], parameters["do_remote_decode"]) == (True, False)
    assert parameters["remote_num_tokens"] == 70
    assert [len(group) for group in parameters["remote_block_ids"]] == [3]


def test_the_request_id_header_names_the_request(engines: Engines) -> None:
    response = engines.prefill.post(
        "/v1/completions", {"model": "tiny", "prompt": [600], "max_tokens": 1}, x_request_id="mine-1"
    )

    assert response.json()["id"] == "cmpl-mine-1"


@pytest.mark.parametrize("number", range(20))
def test_greedy_output_after_a_hand_over_equals_the_aggregated_one(
    engines: Engines, salt: str, texts: list[str], number: int
) -> None:
    tokens = engines.prefill.tokens_of(texts[number])
    handed = engines.prefill.complete(tokens, cache_salt=salt, kv_transfer_params=REMOTE_DECODE)
    body = {"max_tokens": 32, "ignore_eos": True}
    decoded = engines.decode.complete(tokens, cache_salt=salt, kv_transfer_params=handed["kv_transfer_params"], **body)
    aggregated = engines.other_decode.complete(tokens, cache_salt=salt, **body)

    assert decoded["choices"][0]["token_ids"] == aggregated["choices"][0]["token_ids"]


def test_a_closed_connection_ends_the_request(engines: Engines, salt: str) -> None:
    generated = engines.decode.metric("vllm:generation_tokens_total")
    body = {"prompt": list(range(500, 570)), "cache_salt": salt, "max_tokens": 4000, "ignore_eos": True}
    with engines.decode.streaming("/v1/completions", body) as response:
        next(response.iter_lines())
    engines.decode.wait_metric("vllm:num_requests_running", lambda running: running == 0)

    assert engines.decode.metric("vllm:generation_tokens_total") - generated < 4000
