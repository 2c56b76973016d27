from random import Random

import orjson
import pytest

from inferplane_runtime.http.api import UpstreamFailure
from inferplane_runtime.tracing.context import read_traceparent
from inferplane_runtime.tracing.span import Span
from inferplane_runtime.tracing.tracer import Tracer
from inferplane_workers.agent.testing import ENGINE, JSON, Bench, FakeCall

PARENT = (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
PREFILL = (b"x-inferplane-prefill", b"10.0.0.1:8100, 10.0.0.2:8100")
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


def prefilled(call: FakeCall) -> None:
    body = orjson.dumps({"id": "p", "choices": [], "usage": {"prompt_tokens": 4}, "kv_transfer_params": PARAMS})
    call.answer(body, headers=JSON.plus((b"x-inferplane-worker", b"prefill-1")))


def traced() -> tuple[Bench, list[Span]]:
    bench, spans = Bench(), list[Span]()
    bench.path.context.tracer = Tracer(ratio=0.0, rng=Random(1), ended=spans.append)
    return bench, spans


def test_a_prefill_worker_that_failed_is_a_step_with_its_cause() -> None:
    bench, spans = traced()
    bench.send({"prompt": "hi"}, headers=(PREFILL, PARENT))
    bench.upstream.last.fail(UpstreamFailure.LOST)
    prefilled(bench.upstream.last)
    bench.upstream.to(ENGINE)[-1].answer(orjson.dumps({"choices": [{"text": "ok"}], "usage": {}}))

    request = spans[-1]
    assert [(span.name, span.fault) for span in spans] == [
        ("prefill", "lost"),
        ("prefill", ""),
        ("engine", ""),
        ("worker decode", ""),
    ]
    assert [(event.name, event.attributes["cause"]) for event in request.events] == [("hand-off failed", "lost")]
    assert request.attributes["inferplane.prefill_worker"] == "prefill-1"


def test_whoever_is_called_goes_on_below_the_call() -> None:
    bench, spans = traced()
    bench.send({"prompt": "hi"}, headers=(PREFILL, PARENT))
    prefilled(bench.upstream.last)
    bench.upstream.to(ENGINE)[-1].answer(orjson.dumps({"choices": [{"text": "ok"}], "usage": {}}))

    calls = [call for call in bench.upstream.calls if not call.request.path.startswith(b"/handoff")]
    told = [read_traceparent(call.request.headers.get(b"traceparent") or b"") for call in calls]
    assert told == [span.context for span in spans if span.name in {"prefill", "engine"}]


def test_an_engine_that_is_asked_again_is_two_steps() -> None:
    bench, spans = traced()
    bench.send({"prompt": "hi"}, headers=(PREFILL, PARENT))
    prefilled(bench.upstream.last)
    bench.upstream.to(ENGINE)[-1].fail(UpstreamFailure.LOST)
    bench.upstream.to(ENGINE)[-1].fail(UpstreamFailure.LOST)

    tries = [(span.attributes["inferplane.transfer"], span.fault) for span in spans if span.name == "engine"]
    assert tries == [(True, "the engine did not answer"), (False, "engine_lost")]
    assert spans[-1].fault == "engine_lost"


@pytest.mark.parametrize("header", [(), ((b"traceparent", PARENT[1][:-1] + b"0"),)])
def test_an_agent_decides_nothing_of_its_own(header: tuple[tuple[bytes, bytes], ...]) -> None:
    bench, spans = traced()
    bench.send({"prompt": "hi"}, headers=header)
    bench.upstream.to(ENGINE)[-1].answer(orjson.dumps({"choices": [], "usage": {}}))

    assert spans == []
    assert bench.upstream.last.request.headers.get(b"traceparent") == (header[0][1] if header else None)


def test_a_client_that_leaves_leaves_no_step_open() -> None:
    bench, spans = traced()
    exchange = bench.send({"prompt": "hi"}, headers=(PREFILL, PARENT))
    exchange.leave()

    assert {span.name for span in spans} == {"prefill", "worker decode"}
    assert all(span.fault == "" for span in spans)
