"""`explain` and `diagnose`: from records and facts to words, and over real gRPC and HTTP."""

import json
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from inferplane.context import Context
from inferplane.decision import candidate_table, headline, notes, reason, setting
from inferplane.diagnosis import AgentFacts, Facts, Finding, RoutingFacts, diagnose, healthy
from inferplane.errors import CommandError
from inferplane.examine import routing_facts
from inferplane.index_facts import index_facts
from inferplane.outlook import outcome, outlook_table
from inferplane.output import table_lines
from inferplane.router_client import worker_status
from inferplane.table import Table
from inferplane.testing import Call, make_instance, status_of
from inferplane_api.proto import router_pb2, worker_pb2
from inferplane_operator.local.lock import hold_runner_lock
from inferplane_operator.local.statedir import StateDir
from inferplane_operator.local.status import WorkerPhase

NAN = float("nan")


def candidate(
    decode: str, prefill: str = "prefill-0", *, wait_ms: float, cached: int = 0, chosen: bool = False
) -> router_pb2.Candidate:
    return router_pb2.Candidate(
        decode_worker=decode,
        prefill_worker=prefill,
        chosen=chosen,
        prefill_hit_tokens=cached,
        terms_ms={"own_ttft": wait_ms, "ttft_overrun": 0.0, "prefill_delay_to_others": 1.5, "decode": 0.0},
        cost_ms=wait_ms + 1.5,
    )


def record(*candidates: router_pb2.Candidate) -> router_pb2.DecisionRecord:
    chosen = candidate("decode-0", wait_ms=20.0, cached=32, chosen=True)
    dear = candidate("decode-0", "prefill-1", wait_ms=40.0)
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
        side=worker_pb2.ROLE_DECODE,
        outcome=worker_pb2.OUTCOME_OK,
        status=200,
        ttft_s=0.025,
        tpot_s=0.004,
        output_tokens=7,
        prefill_worker="prefill-0",
        streamed=True,
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
        candidates=candidates or [out, dear, chosen],
        predicted_ttft_s=0.0215,
        predicted_tpot_s=0.005,
        predicted_prefill_cached_tokens=32,
        observed=[prefill, decode],
    )


def lines(table: Table) -> list[str]:
    return table_lines(table.heads, table.rows, right=table.right)


def test_an_explanation_begins_with_where_and_why() -> None:
    found = record()

    assert headline(found) == "r1 went to prefill-0 for prefill, then to decode-0 for decode"
    assert reason(found) == (
        "Why: cheapest of 2; prefill-1 costs 20.0 ms more, mostly for 'first token' (32 fewer tokens cached)."
    )
    assert outcome(found) == "Outcome: prefill ok; decode ok, 7 tokens."
    assert setting(found) == ("48 prompt tokens, model m, service demo, policy kv-aware, caches known exactly")


CHOSEN = candidate("decode-0", wait_ms=20.0, chosen=True)


@pytest.mark.parametrize(
    ("others", "policy", "expected"),
    [
        ([], "kv-aware", "Why: there was no other choice."),
        (
            [candidate("decode-1", wait_ms=20.2), candidate("decode-2", wait_ms=20.1)],
            "kv-aware",
            "Why: nothing is cheaper; decode-2 and 1 more would have been as good.",
        ),
        (
            [candidate("decode-1", wait_ms=15.0)],
            "kv-aware",
            "Why: the cheapest that could take it; decode-1 would have cost 5.0 ms less.",
        ),
        (
            [candidate("decode-1", wait_ms=15.0)],
            "round-robin",
            "Why: the round-robin policy says so; it does not go by the costs below.",
        ),
    ],
    ids=["alone", "tie", "cheaper ones were not able", "other policy"],
)
def test_the_reason_fits_the_choice(others: list[router_pb2.Candidate], policy: str, expected: str) -> None:
    found = record(CHOSEN, *others)
    found.policy = policy

    assert reason(found) == expected


def test_a_worker_that_prefills_itself_is_named_once() -> None:
    found = record(router_pb2.Candidate(decode_worker="decode-0", decode_rank=1, chosen=True, decode_hit_tokens=16))
    del found.observed[0]
    found.observed[0].prefill_worker = ""
    found.observed[0].cached_tokens, found.observed[0].cached_tokens_known = 16, True

    assert headline(found) == "r1 went to decode-0/1 for prefill and decode"
    assert lines(outlook_table(found))[1].split() == ["cached", "tokens", "16", "16"]
    assert lines(candidate_table(found))[0].split() == ["WORKER", "CACHED", "COST"]


def test_a_refusal_says_why() -> None:
    found = router_pb2.DecisionRecord(request_id="r1", outcome=router_pb2.PICK_OUTCOME_QUEUE_FULL, reason="limit 8")

    assert headline(found) == "r1 was not routed: queue full (limit 8)"
    assert reason(found) == ""


def test_prediction_is_set_against_observation() -> None:
    assert lines(outlook_table(record())) == [
        "                         PREDICTED   OBSERVED",
        "cached tokens, prefill          32         32",
        "cached tokens, decode            0    unknown",
        "tokens handed over              48    unknown",
        "first token, ms               21.5       25.0",
        "each further token, ms         5.0        4.0",
    ]


def test_an_answer_in_one_piece_has_no_token_times() -> None:
    found = record()
    found.observed[1].streamed = False
    found.observed[1].ttft_s = found.observed[1].tpot_s = NAN

    assert [row[2] for row in outlook_table(found).rows[3:]] == ["not streamed", "not streamed"]


def test_a_running_request_has_only_its_prediction() -> None:
    found = record()
    del found.observed[:]

    assert outcome(found) == "It is still running, or nothing was reported."
    assert lines(outlook_table(found))[0].split() == ["PREDICTED"]


def test_a_retried_side_tells_every_end() -> None:
    found = record()
    lost = worker_pb2.RequestReport(
        side=worker_pb2.ROLE_DECODE, outcome=worker_pb2.OUTCOME_ENGINE_LOST, status=502, prefill_worker="prefill-0"
    )
    found.observed.insert(1, lost)

    assert outcome(found) == "Outcome: prefill ok; decode engine lost (502), then ok, 7 tokens."


def test_candidates_are_ordered_by_cost_without_the_terms_that_are_zero_for_all() -> None:
    assert lines(candidate_table(record())) == [
        "    PREFILL     CACHED   DECODE     CACHED   FIRST TOKEN   PROMPTS BEHIND   COST",
        "*   prefill-0       32   decode-0        0          20.0              1.5   21.5",
        "-   prefill-1        0   decode-0        0          40.0              1.5   41.5",
    ]
    assert notes(record()) == [
        "first token: its own time to the first token, which counts lightly below the limit",
        "prompts behind: how long its prefill holds up other prompts",
        "not considered: decode-2 (draining)",
    ]


def test_of_many_candidates_the_cheapest_and_the_chosen_are_shown() -> None:
    many = [candidate(f"decode-{number}", wait_ms=float(number)) for number in range(1, 30)]
    found = record(*many, candidate("decode-99", wait_ms=99.0, chosen=True))
    shown = [row[3] for row in candidate_table(found).rows]

    assert shown == [*(f"decode-{number}" for number in range(1, 10)), "decode-99"]
    assert notes(found)[-1] == "20 more candidates: -o json"


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

    assert shown.stdout.startswith("r1 went to prefill-0 for prefill, then to decode-0 for decode\n")
    assert "*   prefill-0       32   decode-0" in shown.stdout
    assert json.loads(as_json.stdout)["candidates"][2]["costMs"] == 21.5
    assert unknown.exit_code == 1
    assert "no decision of 'r2' is kept" in unknown.stderr


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


def test_blocks_that_the_routers_index_has_wrong_are_named() -> None:
    right = {"rank": 0, "plane": "host", "blocks": 7, "missing": 0, "surplus": 0, "examples": list[str]()}
    wrong_place = {"rank": 1, "plane": "device", "blocks": 90, "missing": 5, "surplus": 2, "examples": ["0a", "0b"]}
    facts = index_facts(
        {
            "workers": [
                {"worker": "decode-0", "problem": "", "places": [right]},
                {"worker": "decode-1", "problem": "", "places": [right, wrong_place]},
                {"worker": "decode-2", "problem": "no answer", "places": []},
            ]
        }
    )
    findings = diagnose(Facts(status_of(), runner_alive=True, agents=agents(), index=facts))
    first, second, third = (each for each in findings if each.check.endswith("block index"))

    assert (first.ok, first.detail) == (True, "the router knows all 7 blocks of the worker, and no others")
    assert (second.ok, second.detail) == (
        False,
        "the router's index is wrong: rank 1, device: 5 of 90 blocks missing, 2 too many (0a, 0b)",
    )
    assert "run `inferplane diagnose` once more" in second.fix
    assert (third.ok, third.detail) == (False, "no answer")


def test_diagnose_exits_1_when_something_is_wrong(call: Call, demo: StateDir) -> None:
    del demo
    shown, as_json = call("diagnose"), call("diagnose", "-o", "json")

    assert (shown.exit_code, as_json.exit_code) == (1, 1)
    first, fix, *_, last = shown.stdout.splitlines()
    assert first.startswith("PROBLEM   gateway ")
    assert "does not answer (ConnectError)" in first
    assert fix.index("fix: see `inferplane logs router`") == first.index("http://")
    assert last == "3 problems"
    assert json.loads(as_json.stdout)["healthy"] is False


def test_the_side_that_was_left_out_is_named() -> None:
    chosen = candidate("decode-0", wait_ms=20.0, chosen=True)
    alone = router_pb2.Candidate(prefill_worker="prefill-1", excluded_because="draining")
    pair = candidate("decode-0", "prefill-2", wait_ms=1.0)
    pair.excluded_because = "of another revision"
    full = candidate("decode-1", wait_ms=1.0)
    full.excluded_because = "full"
    (said,) = (line for line in notes(record(chosen, alone, pair, full)) if line.startswith("not considered"))

    assert said == ("not considered: prefill-1 (draining), prefill-2 (of another revision), decode-1 (full)")
