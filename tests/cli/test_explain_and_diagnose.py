"""`explain` and `diagnose`: from records and facts to words, and over real gRPC and HTTP."""

import json
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from inferplane.context import Context
from inferplane.decision import candidate_table, summary_lines
from inferplane.diagnosis import AgentFacts, Facts, Finding, RoutingFacts, diagnose, healthy
from inferplane.errors import CommandError
from inferplane.examine import routing_facts
from inferplane.output import plain_table
from inferplane.router_client import worker_status
from inferplane.testing import Call, make_instance, status_of
from inferplane_api.proto import router_pb2, worker_pb2
from inferplane_operator.local.lock import hold_runner_lock
from inferplane_operator.local.statedir import StateDir
from inferplane_operator.local.status import WorkerPhase

NAN = float("nan")


def record() -> router_pb2.DecisionRecord:
    chosen = router_pb2.Candidate(
        decode_worker="decode-0",
        prefill_worker="prefill-0",
        prefill_rank=1,
        chosen=True,
        prefill_hit_tokens=32,
        terms_ms={"queue": 1.0, "prefill": 20.5},
        cost_ms=21.5,
    )
    dear = router_pb2.Candidate(decode_worker="decode-1", terms_ms={"prefill": 40.0}, cost_ms=40.0)
    out = router_pb2.Candidate(decode_worker="decode-2", excluded_because="draining")
    prefill = worker_pb2.RequestReport(
        side=worker_pb2.ROLE_PREFILL,
        outcome=worker_pb2.OUTCOME_OK,
        status=200,
        cached_tokens=32,
        cached_tokens_known=True,
        ttft_s=NAN,
    )
    decode = worker_pb2.RequestReport(
        side=worker_pb2.ROLE_DECODE, outcome=worker_pb2.OUTCOME_OK, status=200, ttft_s=0.025, tpot_s=0.004
    )
    return router_pb2.DecisionRecord(
        request_id="r1",
        service="demo",
        model="m",
        policy="kv-aware",
        mode="exact",
        outcome=router_pb2.PICK_OUTCOME_ROUTED,
        prompt_tokens=48,
        block_size=16,
        candidates=[out, dear, chosen],
        predicted_ttft_s=0.0215,
        predicted_tpot_s=0.005,
        predicted_prefill_cached_tokens=32,
        observed=[prefill, decode],
    )


def test_the_summary_sets_prediction_against_observation() -> None:
    assert summary_lines(record()) == [
        "request r1: routed",
        "service demo   model m   policy kv-aware   mode exact",
        "prompt 48 tokens in blocks of 16   queued 0.0 ms",
        "prefill side: ok, status 200",
        "  cached tokens: predicted 32, observed 32",
        "decode side: ok, status 200",
        "  cached tokens: predicted 0, observed unknown",
        "  ttft: predicted 21.5 ms, observed 25.0 ms",
        "  tpot: predicted 5.0 ms, observed 4.0 ms",
    ]


def test_a_running_request_has_only_its_prediction() -> None:
    found = record()
    del found.observed[:]

    assert summary_lines(found)[-1] == "predicted: ttft 21.5 ms, tpot 5.0 ms; nothing observed yet"


def test_candidates_are_ordered_by_cost_and_say_why_they_are_out() -> None:
    assert plain_table(*candidate_table(record())) == [
        "    DECODE     PREFILL       HITS P   HITS D   PREFILL MS   QUEUE MS   COST MS   EXCLUDED",
        "*   decode-0   prefill-0/1   32       0        20.50        1.00       21.50     -",
        "-   decode-1   -             0        0        40.00        -          40.00     -",
        "-   decode-2   -             0        0        -            -          -         draining",
    ]


@contextmanager
def served(service: str, handlers: dict[str, Any]) -> Generator[str]:
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def explain_reply(request: router_pb2.ExplainRequest, _: grpc.ServicerContext) -> router_pb2.ExplainReply:
    found = request.request_id == "r1"
    return router_pb2.ExplainReply(found=found, record=record() if found else None)


@pytest.fixture
def router(context: Context) -> Iterator[StateDir]:
    handler = grpc.unary_unary_rpc_method_handler(
        explain_reply,
        request_deserializer=router_pb2.ExplainRequest.FromString,
        response_serializer=router_pb2.ExplainReply.SerializeToString,
    )
    with served("inferplane.v1.Router", {"Explain": handler}) as address:
        state = make_instance(context, "demo", status_of().model_copy(update={"grpc": address}))
        with hold_runner_lock(state):
            yield state


def test_explain_asks_the_router(call: Call, router: StateDir) -> None:
    del router
    shown, as_json, unknown = call("explain", "r1"), call("explain", "r1", "-o", "json"), call("explain", "r2")

    assert "request r1: routed" in shown.stdout
    assert "*   decode-0   prefill-0/1" in shown.stdout
    assert json.loads(as_json.stdout)["candidates"][2]["costMs"] == 21.5
    assert unknown.exit_code == 1
    assert "the router knows no request 'r2'" in unknown.stderr


def test_explain_of_a_router_that_is_gone_says_so(call: Call, demo: StateDir) -> None:
    del demo
    result = call("explain", "r1")

    assert result.exit_code == 1
    assert "the router at 127.0.0.1:3 does not answer (UNAVAILABLE)" in result.stderr


def subscribe(
    requests: Iterator[worker_pb2.SubscriberMessage], _: grpc.ServicerContext
) -> Iterator[worker_pb2.WorkerMessage]:
    hello = next(requests).hello
    assert (hello.component, hello.want_blocks) == ("diagnose", False)
    yield worker_pb2.WorkerMessage(identity=worker_pb2.Identity(worker_id="decode-0"))
    yield worker_pb2.WorkerMessage(status=worker_pb2.WorkerStatus(kv_events=worker_pb2.KV_EVENTS_SUSPECT))


def test_an_agent_is_asked_over_its_stream() -> None:
    handler = grpc.stream_stream_rpc_method_handler(
        subscribe,
        request_deserializer=worker_pb2.SubscriberMessage.FromString,
        response_serializer=worker_pb2.WorkerMessage.SerializeToString,
    )
    with served("inferplane.v1.WorkerStream", {"Subscribe": handler}) as address:
        assert worker_status(address).kv_events == worker_pb2.KV_EVENTS_SUSPECT

    with pytest.raises(CommandError, match="does not answer"):
        worker_status(address)


def agents(**fields: Any) -> dict[str, AgentFacts]:
    status = worker_pb2.WorkerStatus(**fields)
    if "kv_events" not in fields:
        status.kv_events = worker_pb2.KV_EVENTS_OK
    return {"decode-0": AgentFacts(status)}


def wrong(facts: Facts) -> list[str]:
    return [f"{finding.check}: {finding.detail}" for finding in diagnose(facts) if not finding.ok]


def test_a_sound_instance_has_no_problem() -> None:
    findings = diagnose(Facts(status_of(), runner_alive=True, agents=agents(), routing=RoutingFacts(compared=3)))

    assert healthy(findings)
    assert Finding("kv routing", ok=True, detail="3 of 3 predictions of cached tokens were exact") in findings


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (Facts(status_of(), runner_alive=False), "runner: it is not running"),
        (
            Facts(status_of(phase=WorkerPhase.CRASH_LOOP), runner_alive=True),
            "decode-0: CrashLoop: engine exited with status 1",
        ),
        (
            Facts(status_of(), runner_alive=True, agents=agents(kv_events=worker_pb2.KV_EVENTS_OFF)),
            "decode-0 kv events: the engine publishes none: the router only guesses what is cached",
        ),
        (
            Facts(status_of(), runner_alive=True, agents=agents(canary=worker_pb2.CANARY_FAILED)),
            "decode-0 canary: the known prompt got a wrong answer: the engine computes nonsense",
        ),
        (
            Facts(status_of(), runner_alive=True, agents=agents(transport="tcp", transport_degraded=True)),
            "decode-0 transport: KV moves over tcp, worse than what was asked for",
        ),
        (
            Facts(status_of(), runner_alive=True, agents=agents(), routing=RoutingFacts({"decode-0": "block_size"})),
            "decode-0 kv routing: the router does not believe its events: block_size",
        ),
        (Facts(status_of(), runner_alive=True, agents=agents(), gateway_problem="no"), "gateway: no"),
        (Facts(status_of(), runner_alive=True), "decode-0 kv events: was not asked"),
    ],
    ids=["runner", "crash loop", "no events", "canary", "transport", "mismatch", "gateway", "agent"],
)
def test_each_fault_is_found(facts: Facts, expected: str) -> None:
    assert expected in wrong(facts)


def test_routing_facts_are_read_from_the_routers_metrics() -> None:
    text = (
        "# TYPE inferplane_router_worker_kv_exact gauge\n"
        'inferplane_router_worker_kv_exact{worker="decode-0",cause="events_off"} 0\n'
        'inferplane_router_worker_kv_exact{worker="decode-1",cause=""} 1\n'
        "# TYPE inferplane_router_predictions_total counter\n"
        'inferplane_router_predictions_total{service="demo",side="prefill",exact="yes"} 4\n'
        'inferplane_router_predictions_total{service="demo",side="decode",exact="no"} 1\n'
    )

    assert routing_facts(text) == RoutingFacts({"decode-0": "events_off"}, compared=5, mispredicted=1)


def test_diagnose_exits_1_when_something_is_wrong(call: Call, demo: StateDir) -> None:
    del demo
    shown, as_json = call("diagnose"), call("diagnose", "-o", "json")

    assert (shown.exit_code, as_json.exit_code) == (1, 1)
    assert shown.stdout.splitlines()[1].startswith("PROBLEM")
    assert "does not answer (ConnectError)" in shown.stdout
    assert json.loads(as_json.stdout)["healthy"] is False
