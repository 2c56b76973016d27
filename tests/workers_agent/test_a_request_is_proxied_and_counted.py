import math
from typing import Any

import orjson
import pytest

from inferplane_runtime.http.api import Headers, ResponseHead, UpstreamFailure
from inferplane_workers.agent.gate import Phase as GatePhase
from inferplane_workers.agent.ledger import Phase
from inferplane_workers.agent.testing import ENGINE, STREAM, Bench
from inferplane_workers.agent.timeline import Outcome

USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12, "prompt_tokens_details": {"cached_tokens": 8}}
ANSWER = orjson.dumps({"id": "x", "choices": [{"text": "ok"}], "usage": USAGE})


def chunk(output: int, **more: Any) -> bytes:
    usage = {"prompt_tokens": 9, "total_tokens": 9 + output, "completion_tokens": output}
    return (
        b"data: " + orjson.dumps({"id": "x", "choices": [{"index": 0, "text": "t"}], "usage": usage, **more}) + b"\n\n"
    )


def test_an_unstreamed_answer_passes_byte_by_byte_with_its_cached_tokens_in_the_head() -> None:
    bench = Bench()
    exchange = bench.send({"prompt": "hi"})
    bench.upstream.last.answer(ANSWER)

    assert exchange.body == ANSWER
    assert exchange.header(b"x-inferplane-cached-tokens") == b"8"
    assert exchange.header(b"x-inferplane-worker") == b"w0"
    assert bench.upstream.last.address == ENGINE


def test_headers_of_a_connection_end_with_it() -> None:
    bench = Bench()
    exchange = bench.send({"prompt": "hi"}, headers=((b"connection", b"x-mine"), (b"x-mine", b"1"), (b"x-kept", b"2")))
    call = bench.upstream.last
    call.answer(ANSWER, headers=Headers(((b"connection", b"X-Theirs"), (b"x-theirs", b"1"), (b"x-said", b"2"))))

    assert {b"connection", b"x-mine"}.isdisjoint(name for name, _ in call.request.headers.pairs)
    assert call.request.headers.get(b"x-kept") == b"2"
    assert exchange.header(b"x-theirs") is None
    assert exchange.header(b"x-said") == b"2"


def test_a_request_is_accepted_then_past_prefill_then_finished() -> None:
    bench = Bench()
    said = ((b"x-inferplane-router-epoch", b"77"), (b"x-inferplane-tenant", b"acme"), (b"x-inferplane-nonce", b"5"))
    bench.send({"prompt": "hi"}, headers=said)
    bench.upstream.last.answer(ANSWER)

    assert [change.phase for change in bench.entries] == [Phase.ACCEPTED, Phase.PREFILL_DONE, Phase.FINISHED]
    assert {(change.entry.request_id, change.entry.router_epoch, change.entry.tenant) for change in bench.entries} == {
        ("r1", 77, "acme")
    }
    assert {change.entry.nonce for change in bench.entries} == {5}
    assert bench.entries[-1].output_tokens == 3
    assert len(bench.ledger) == 0


def test_a_stream_is_passed_on_as_it_comes_without_the_usage_that_only_we_asked_for() -> None:
    bench = Bench()
    exchange = bench.send({"prompt": "hi", "stream": True})
    call = bench.upstream.last
    call.begin_stream()
    call.sink.on_body(chunk(1))
    first = list(exchange.written)
    bench.time += 0.5
    call.sink.on_body(chunk(2))
    call.sink.on_body(b"data: " + orjson.dumps({"id": "x", "choices": [], "usage": USAGE}) + b"\n\ndata: [DONE]\n\n")
    call.sink.on_end()

    assert call.json["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert first == [b'data: {"id":"x","choices":[{"index":0,"text":"t"}]}\n\n']
    assert exchange.body == first[0] * 2 + b"data: [DONE]\n\n"
    assert exchange.ended


def test_the_report_of_a_stream_has_its_times() -> None:
    bench = Bench()
    bench.send({"prompt": "hi", "stream": True, "model": "m"})
    call = bench.upstream.last
    call.begin_stream()
    for output in (1, 2, 3):
        bench.time += 0.25
        call.sink.on_body(chunk(output))
    call.sink.on_end()

    report = bench.observer.reports[0]

    assert (report.ttft_s, report.tpot_s, report.decode_s, report.prefill_s) == (0.25, 0.25, 0.5, 0.25)
    assert (report.prompt_tokens, report.output_tokens, report.model) == (9, 3, "m")
    assert math.isnan(report.queue_s)
    assert report.outcome is Outcome.OK


def test_a_client_that_leaves_ends_the_engines_work_and_is_counted_up_to_there() -> None:
    bench = Bench()
    exchange = bench.send({"prompt": "hi", "stream": True})
    call = bench.upstream.last
    call.begin_stream()
    call.sink.on_body(chunk(5))
    exchange.leave()

    report = bench.observer.reports[0]

    assert call.cancelled
    assert (report.outcome, report.output_tokens) == (Outcome.CLIENT_GONE, 5)
    assert bench.entries[-1].phase is Phase.FINISHED


@pytest.mark.parametrize("status", [400, 404, 422, 500, 503])
def test_an_engines_error_passes_with_its_status_and_body(status: int) -> None:
    bench = Bench()
    exchange = bench.send({"prompt": "hi", "stream": True})
    body = b'{"object": "error", "message": "as the engine said it",  "code": 400}'
    bench.upstream.last.answer(body, status=status)

    assert (exchange.status, exchange.body) == (status, body)
    assert exchange.header(b"x-inferplane-retry") is None


@pytest.mark.parametrize(
    ("failure", "status"), [(UpstreamFailure.REFUSED, 503), (UpstreamFailure.LOST, 502), (UpstreamFailure.TIMEOUT, 502)]
)
def test_an_engine_without_an_answer_may_be_retried_elsewhere(failure: UpstreamFailure, status: int) -> None:
    bench = Bench()
    exchange = bench.send({"prompt": "hi"})
    bench.upstream.last.fail(failure)

    assert exchange.status == status
    assert exchange.header(b"x-inferplane-retry") == b"1"
    assert bench.observer.reports[0].outcome is Outcome.ENGINE_LOST


def test_a_stream_that_breaks_off_resets_its_client() -> None:
    bench = Bench()
    exchange = bench.send({"prompt": "hi", "stream": True})
    call = bench.upstream.last
    call.begin_stream()
    call.sink.on_body(chunk(2))
    call.fail()

    assert exchange.aborted
    assert bench.observer.reports[0].output_tokens == 2


def test_a_slow_client_pauses_the_engines_answer() -> None:
    bench = Bench()
    exchange = bench.send({"prompt": "hi", "stream": True})
    call = bench.upstream.last
    call.begin_stream()
    exchange.press(slow=True)
    paused = call.paused
    exchange.press(slow=False)

    assert (paused, call.paused) == (True, False)


@pytest.mark.parametrize("phase", [GatePhase.STARTING, GatePhase.FAILED])
def test_a_worker_that_is_not_ready_refuses_retryably_and_asks_nothing(phase: GatePhase) -> None:
    bench = Bench()
    bench.gate.move(phase, "not now")
    exchange = bench.send({"prompt": "hi"})

    assert (exchange.status, exchange.header(b"x-inferplane-retry")) == (503, b"1")
    assert bench.upstream.calls == []
    assert bench.entries == []


def test_embeddings_pass_as_bytes() -> None:
    bench = Bench()
    raw = b'{"input":  "x",   "model":"m"}'
    exchange = bench.send(raw, path=b"/v1/embeddings")
    sent = bench.upstream.last.request.body
    bench.upstream.last.answer(b'{"data": []}')

    assert (sent, exchange.body) == (raw, b'{"data": []}')


def test_hop_by_hop_headers_of_the_engine_stay_with_it() -> None:
    bench = Bench()
    exchange = bench.send({"prompt": "x", "stream": True})
    headers = Headers((*STREAM.pairs, (b"connection", b"close"), (b"x-inferplane-worker", b"forged"), (b"date", b"d")))
    bench.upstream.last.sink.on_head(ResponseHead(200, headers))

    assert exchange.head is not None
    assert dict(exchange.head.headers.pairs) == {
        b"content-type": STREAM.pairs[0][1],
        b"date": b"d",
        b"x-inferplane-worker": b"w0",
    }


def test_a_repeated_request_id_is_two_requests() -> None:
    bench = Bench()
    bench.send({"prompt": "a"})
    bench.send({"prompt": "b"})
    bench.upstream.calls[0].answer(ANSWER)

    assert len(bench.ledger) == 1
