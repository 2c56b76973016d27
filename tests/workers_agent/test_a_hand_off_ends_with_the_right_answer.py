from typing import Any

import orjson
import pytest

from inferplane_runtime.http.api import Headers, UpstreamFailure
from inferplane_workers.agent.testing import ENGINE, JSON, Bench, FakeCall
from inferplane_workers.agent.timeline import Outcome, Side

PARAMS = {
    "do_remote_prefill": True,
    "do_remote_decode": False,
    "remote_block_ids": [[1, 2, 3]],
    "remote_engine_id": "e",
    "remote_request_id": "cmpl-r1",
    "remote_host": "10.0.0.1",
    "remote_port": 5600,
    "tp_size": 1,
}
PREFILL = (b"x-inferplane-prefill", b"10.0.0.1:8100, 10.0.0.2:8100")
FIRST, SECOND = "10.0.0.1:8100", "10.0.0.2:8100"


def prefilled(call: FakeCall, *, params: object = PARAMS, cached: int = 16) -> None:
    usage = {"prompt_tokens": 40, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": cached}}
    body = orjson.dumps({"id": "p", "choices": [], "usage": usage, "kv_transfer_params": params})
    call.answer(body, headers=JSON.plus((b"x-inferplane-worker", b"prefill-0")))


def answered(call: FakeCall, text: str = "ok") -> bytes:
    usage = {"prompt_tokens": 40, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 39}}
    body = orjson.dumps({"id": "d", "choices": [{"text": text}], "usage": usage})
    call.answer(body)
    return body


def confirmations(bench: Bench) -> list[tuple[str, Any]]:
    return [
        (call.address, orjson.loads(call.request.body)["state"])
        for call in bench.upstream.calls
        if call.request.path.startswith(b"/handoff/")
    ]


def test_prefill_then_decode_then_confirmation() -> None:
    bench = Bench()
    exchange = bench.send({"prompt": "hi", "max_tokens": 5, "min_tokens": 2}, headers=(PREFILL,))
    first = bench.upstream.last
    prefilled(first)
    second = bench.upstream.last
    body = answered(second)

    assert first.address == FIRST
    assert first.request.headers.get(b"x-inferplane-handoff") == b"prefill"
    assert second.address == ENGINE
    assert second.json == {"prompt": "hi", "max_tokens": 5, "min_tokens": 2, "kv_transfer_params": PARAMS}
    assert exchange.body == body
    assert exchange.header(b"x-inferplane-prefill-worker") == b"prefill-0"
    assert confirmations(bench) == [(FIRST, "pulled")]


def test_cached_tokens_are_those_of_the_side_that_computed() -> None:
    bench = Bench()
    exchange = bench.send({"prompt": "hi"}, headers=(PREFILL,))
    prefilled(bench.upstream.last, cached=16)
    answered(bench.upstream.last)

    assert exchange.header(b"x-inferplane-cached-tokens") == b"16"
    assert bench.observer.reports[0].cached_tokens == 16


@pytest.mark.parametrize("failure", list(UpstreamFailure))
def test_a_prefill_worker_that_does_not_answer_gives_way_to_the_next(failure: UpstreamFailure) -> None:
    bench = Bench()
    bench.send({"prompt": "hi"}, headers=(PREFILL,))
    bench.upstream.last.fail(failure)

    assert bench.upstream.last.address == SECOND
    assert bench.observer.failures == [(FIRST, failure.value)]


@pytest.mark.parametrize("status", [404, 429, 500, 503])
def test_a_prefill_worker_that_fails_gives_way_to_the_next(status: int) -> None:
    bench = Bench()
    bench.send({"prompt": "hi"}, headers=(PREFILL,))
    bench.upstream.last.answer(b"{}", status=status)
    second = bench.upstream.last
    prefilled(second)
    answered(bench.upstream.last)

    assert second.address == SECOND
    assert bench.observer.reports[0].failed_prefill_workers == (FIRST,)
    assert confirmations(bench) == [(SECOND, "pulled")]


def test_when_no_prefill_worker_is_left_the_own_engine_prefills() -> None:
    bench = Bench()
    exchange = bench.send({"prompt": "hi"}, headers=(PREFILL,))
    bench.upstream.last.fail()
    bench.upstream.last.fail()
    local = bench.upstream.last
    body = answered(local)

    assert (local.address, local.json) == (ENGINE, {"prompt": "hi"})
    assert exchange.body == body
    assert exchange.header(b"x-inferplane-prefill-worker") is None
    assert exchange.header(b"x-inferplane-cached-tokens") == b"39"


@pytest.mark.parametrize(
    "params",
    [
        pytest.param(None, id="none"),
        pytest.param("x", id="text"),
        pytest.param({**PARAMS, "remote_block_ids": []}, id="no blocks kills an engine"),
        pytest.param({**PARAMS, "remote_host": None}, id="no host"),
        pytest.param({**PARAMS, "do_remote_prefill": False}, id="not for decode"),
    ],
)
def test_parameters_that_cannot_work_are_not_used(params: object) -> None:
    bench = Bench()
    bench.send({"prompt": "hi"}, headers=(PREFILL,))
    prefilled(bench.upstream.last, params=params)

    assert bench.upstream.last.json == {"prompt": "hi"}
    assert confirmations(bench) == [(FIRST, "abandoned")]


def test_a_transfer_that_the_decode_engine_cannot_do_is_repeated_without_it() -> None:
    bench = Bench()
    exchange = bench.send({"prompt": "hi"}, headers=(PREFILL,))
    prefilled(bench.upstream.last)
    decode = bench.upstream.last
    decode.answer(b"{}", status=500)
    again = bench.upstream.last
    body = answered(again)

    assert decode.cancelled
    assert again.json == {"prompt": "hi"}
    assert exchange.body == body


def test_an_engine_error_without_a_transfer_is_passed_on() -> None:
    bench = Bench()
    exchange = bench.send({"prompt": "hi"}, headers=(PREFILL,))
    bench.upstream.last.answer(b"bad", status=400)
    bench.upstream.last.answer(b'{"message": "too long"}', status=400)

    assert (exchange.status, exchange.body) == (400, b'{"message": "too long"}')
    assert len(bench.upstream.to(SECOND)) == 0


def test_a_client_that_leaves_during_the_prefill_cancels_it() -> None:
    bench = Bench()
    exchange = bench.send({"prompt": "hi"}, headers=(PREFILL,))
    exchange.leave()

    assert bench.upstream.last.cancelled
    assert bench.observer.reports[0].outcome is Outcome.CLIENT_GONE


def test_a_client_that_leaves_during_the_transfer_abandons_the_blocks() -> None:
    bench = Bench()
    exchange = bench.send({"prompt": "hi"}, headers=(PREFILL,))
    prefilled(bench.upstream.last)
    decode = bench.upstream.last
    exchange.leave()

    assert decode.cancelled
    assert confirmations(bench) == [(FIRST, "abandoned")]


def test_requests_that_cannot_be_handed_off_stay_here() -> None:
    bench = Bench()
    bench.send({"prompt": ["a", "b"]}, headers=(PREFILL,))

    assert [call.address for call in bench.upstream.calls] == [ENGINE]


def test_streams_are_handed_off_too_and_confirmed_at_the_first_token() -> None:
    bench = Bench()
    bench.send({"prompt": "hi", "stream": True}, headers=(PREFILL,))
    first = bench.upstream.last
    bench.time += 1.0
    prefilled(first)
    decode = bench.upstream.last
    bench.time += 0.25
    decode.begin_stream()
    decode.sink.on_body(b'data: {"choices":[{"index":0,"text":"a"}]}\n\n')
    confirmed = confirmations(bench)
    decode.sink.on_end()
    report = bench.observer.reports[0]

    assert first.json == {"prompt": "hi", "stream": True}
    assert decode.json["stream_options"]["include_usage"] is True
    assert confirmed == [(FIRST, "pulled")]
    assert (report.prefill_s, report.transfer_s, report.ttft_s) == (1.0, 0.25, 1.25)


def test_the_prefill_side_asks_its_engine_for_one_token_and_remembers_the_offer() -> None:
    bench = Bench(role=Side.PREFILL)
    exchange = bench.send(
        {"prompt": "hi", "stream": True, "max_tokens": 100, "kv_transfer_params": {"forged": 1}},
        headers=((b"x-inferplane-handoff", b"prefill"),),
    )
    call = bench.upstream.last
    prefilled(call)

    assert (call.json["max_tokens"], call.json["stream"]) == (1, False)
    assert call.json["kv_transfer_params"]["do_remote_decode"] is True
    assert "forged" not in call.json["kv_transfer_params"]
    assert orjson.loads(exchange.body)["kv_transfer_params"] == PARAMS
    assert bench.transfers.outstanding(bench.time) == 1
    assert bench.observer.reports[0].side is Side.PREFILL


def test_an_offer_nobody_confirms_lapses_with_its_lease() -> None:
    bench = Bench(role=Side.PREFILL)
    bench.send({"prompt": "hi"}, headers=((b"x-inferplane-handoff", b"prefill"),))
    prefilled(bench.upstream.last)

    assert bench.transfers.outstanding(bench.time + 29.9) == 1
    assert bench.transfers.outstanding(bench.time + 30.0) == 0


def test_a_confirmed_offer_is_no_longer_waited_for() -> None:
    bench = Bench(role=Side.PREFILL)
    bench.send({"prompt": "hi"}, headers=((b"x-inferplane-handoff", b"prefill"),))
    prefilled(bench.upstream.last)

    assert bench.transfers.resolved("r1") is True
    assert bench.transfers.outstanding(bench.time) == 0


def test_a_hand_off_of_embeddings_is_refused() -> None:
    exchange = Bench().send({}, path=b"/v1/embeddings", headers=((b"x-inferplane-handoff", b"prefill"),))

    assert exchange.status == 400


def test_ranks_go_to_the_side_they_are_meant_for() -> None:
    bench = Bench()
    ranks = ((b"x-inferplane-dp-rank", b"1"), (b"x-inferplane-prefill-dp-rank", b"3"))
    bench.send({"prompt": "hi"}, headers=(PREFILL, *ranks))
    first = bench.upstream.last
    prefilled(first)

    assert first.request.headers.get(b"x-inferplane-dp-rank") == b"3"
    assert bench.upstream.last.request.headers.get(b"x-data-parallel-rank") == b"1"
    assert Headers(first.request.headers.pairs).get(b"x-inferplane-prefill") is None


def test_each_prefill_candidate_is_asked_for_its_own_rank() -> None:
    bench = Bench()
    ranks = (b"x-inferplane-prefill-dp-rank", b"3, 5")
    bench.send({"prompt": "hi"}, headers=(PREFILL, ranks))
    first = bench.upstream.last
    first.fail(UpstreamFailure.REFUSED)
    second = bench.upstream.last

    assert [first.address, second.address] == [FIRST, SECOND]
    assert first.request.headers.get(b"x-inferplane-dp-rank") == b"3"
    assert second.request.headers.get(b"x-inferplane-dp-rank") == b"5"


def test_one_rank_stands_for_all_candidates() -> None:
    bench = Bench()
    bench.send({"prompt": "hi"}, headers=(PREFILL, (b"x-inferplane-prefill-dp-rank", b"3")))
    bench.upstream.last.fail(UpstreamFailure.REFUSED)

    assert bench.upstream.last.request.headers.get(b"x-inferplane-dp-rank") == b"3"


@pytest.mark.parametrize("ranks", [b"1,2,3", b"1,", b"one", b"-1,0"])
def test_ranks_that_do_not_match_the_candidates_are_an_error_that_names_the_header(ranks: bytes) -> None:
    exchange = Bench().send({"prompt": "hi"}, headers=(PREFILL, (b"x-inferplane-prefill-dp-rank", ranks)))

    assert exchange.status == 400
    assert b"x-inferplane-prefill-dp-rank" in exchange.body


def test_a_request_id_of_any_shape_names_its_transfer() -> None:
    bench = Bench()
    bench.send({"prompt": "hi"}, headers=(PREFILL,), request_id="a/b?c d")
    prefilled(bench.upstream.last)
    answered(bench.upstream.last)

    assert bench.upstream.last.request.path == b"/handoff/a%2Fb%3Fc%20d"
