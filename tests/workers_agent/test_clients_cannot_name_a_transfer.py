from typing import Any

import orjson
import pytest

from inferplane_workers.agent import body as bodies
from inferplane_workers.agent.errors import BadRequestError
from inferplane_workers.agent.testing import Bench

FORGED = {"do_remote_prefill": True, "remote_block_ids": [1], "remote_engine_id": "x"}


@pytest.mark.parametrize(
    ("forged", "named"),
    [
        pytest.param({"kv_transfer_params": FORGED}, ["kv_transfer_params"], id="kv"),
        pytest.param({"kv_transfer_params": None}, ["kv_transfer_params"], id="null"),
        pytest.param({"ec_transfer_params": FORGED}, ["ec_transfer_params"], id="encoder cache"),
        pytest.param({"vllm_xargs": {"kv_transfer_params": "x"}}, ["vllm_xargs.kv_transfer_params"], id="xargs"),
        pytest.param(
            {"vllm_xargs": {"kv_cache_report_mode": "full"}}, ["vllm_xargs.kv_cache_report_mode"], id="report mode"
        ),
    ],
)
@pytest.mark.parametrize("path", [b"/v1/completions", b"/v1/chat/completions", b"/v1/embeddings", b"/v1/responses"])
def test_what_would_command_a_transfer_never_reaches_the_engine(
    forged: dict[str, Any], named: list[str], path: bytes
) -> None:
    bench = Bench()
    bench.send({"model": "m", "prompt": "hi", **forged}, path=path)

    assert bench.upstream.last.json == {"model": "m", "prompt": "hi"}
    assert bench.observer.removed == named


def test_other_extra_arguments_stay() -> None:
    bench = Bench()
    bench.send({"model": "m", "prompt": "hi", "vllm_xargs": {"mine": 1, "kv_transfer_params": "x"}})

    assert bench.upstream.last.json["vllm_xargs"] == {"mine": 1}


@pytest.mark.parametrize(
    "header",
    [
        (b"x-inferplane-tenant", b"other"),
        (b"x-inferplane-anything", b"1"),
        (b"x-data-parallel-rank", b"3"),
        (b"x-vllm-priority", b"-9"),
    ],
    ids=lambda header: header[0].decode(),
)
def test_internal_and_engine_control_headers_never_reach_the_engine(header: tuple[bytes, bytes]) -> None:
    bench = Bench()
    bench.send({"prompt": "hi"}, headers=(header, (b"authorization", b"Bearer x")))

    sent = bench.upstream.last.request.headers

    assert sent.get(header[0]) is None
    assert sent.get(b"authorization") == b"Bearer x"
    assert sent.get(b"x-request-id") == b"r1"


def test_the_rank_that_the_router_chose_is_told_in_the_engines_own_header() -> None:
    bench = Bench()
    bench.send({"prompt": "hi"}, headers=((b"x-inferplane-dp-rank", b"2"), (b"x-data-parallel-rank", b"7")))

    sent = bench.upstream.last.request.headers.pairs

    assert [value for name, value in sent if name == b"x-data-parallel-rank"] == [b"2"]


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b'"x"', b"\xff\xfe{\x00}\x00", b'{"a": NaN}', b"{'a': 1}"])
def test_a_body_that_cannot_be_read_is_refused_with_an_openai_error(raw: bytes) -> None:
    bench = Bench()
    exchange = bench.send(raw)

    assert exchange.status == 400
    assert orjson.loads(exchange.body)["error"]["type"] == "invalid_request_error"
    assert bench.upstream.calls == []


def test_deeply_nested_json_is_refused_and_not_a_crash() -> None:
    with pytest.raises(BadRequestError, match="not valid JSON"):
        bodies.parse(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


@pytest.mark.parametrize("path", [b"/v1/load_lora_adapter", b"/reset_prefix_cache", b"/v1/../health", b"/v1/chat"])
def test_an_unlisted_path_does_not_exist(path: bytes) -> None:
    bench = Bench()
    exchange = bench.send({}, path=path)

    assert exchange.status == 404
    assert bench.upstream.calls == []


def test_a_malformed_internal_header_is_an_error_that_names_it() -> None:
    exchange = Bench().send({"prompt": "x"}, headers=((b"x-inferplane-dp-rank", b"-1"),))

    assert exchange.status == 400
    assert orjson.loads(exchange.body)["error"]["param"] == "x-inferplane-dp-rank"
