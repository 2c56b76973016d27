from inferplane_api.catalogue import RoutingMode, WorkerRole
from inferplane_router.core.testing import FakeWorker, ask, connect, make_core, prompt, service
from inferplane_router.core.values import RefusalReason, Refused, Routed


def test_a_request_goes_where_its_prefix_is() -> None:
    workers = [FakeWorker(f"d{number}") for number in range(4)]
    core = make_core(*workers)
    tokens = prompt(1, 1000)
    core.on_worker_message("d2", workers[2].delta(stored=workers[2].hashes(tokens)), 0.0)

    answer = core.pick(ask(core, "r1", tokens), 0.1)

    assert isinstance(answer, Routed)
    assert answer.decode.worker_id == "d2"
    assert answer.prefill == ()
    assert answer.decode_cached_tokens == answer.prefill_cached_tokens == 62 * 16
    assert answer.uncached_tokens == 8


def test_the_second_of_two_equal_requests_sees_the_first_before_any_event() -> None:
    workers = [FakeWorker(f"d{number}") for number in range(4)]
    core = make_core(*workers)
    tokens = prompt(1, 1000)

    first = core.pick(ask(core, "r1", tokens), 0.0)
    second = core.pick(ask(core, "r2", tokens), 0.0)

    assert isinstance(first, Routed)
    assert isinstance(second, Routed)
    assert second.decode == first.decode
    assert second.decode_cached_tokens == 62 * 16


def test_a_disaggregated_request_gets_both_sides_of_one_revision() -> None:
    workers = [
        FakeWorker("p1", WorkerRole.PREFILL, revision="old"),
        FakeWorker("p2", WorkerRole.PREFILL, revision="new"),
        FakeWorker("d1", revision="new"),
    ]
    core = make_core(*workers, services=[service(mode=RoutingMode.DISAGGREGATED)])

    answer = core.pick(ask(core, "r1", prompt(1, 500)), 0.0)

    assert isinstance(answer, Routed)
    assert [target.worker_id for target in answer.prefill] == ["p2"]
    assert answer.decode.worker_id == "d1"
    assert {expectation.worker_id for expectation in answer.expects} == {"p2", "d1"}


def test_an_empty_pool_is_refused_as_such() -> None:
    core = make_core(FakeWorker("p1", WorkerRole.PREFILL))

    answer = core.pick(ask(core, "r1", prompt(1, 500)), 0.0)

    assert isinstance(answer, Refused)
    assert answer.reason is RefusalReason.NO_WORKERS


def test_a_restarted_worker_is_known_again_from_its_snapshot() -> None:
    workers = [FakeWorker("d1"), FakeWorker("d2")]
    core = make_core(*workers)
    tokens = prompt(1, 1000)
    core.worker_lost("d1", 1.0)
    connect(core, workers[0], now=2.0)
    core.on_worker_message("d1", workers[0].snapshot(workers[0].hashes(tokens)), 2.0)

    answer = core.pick(ask(core, "r1", tokens), 2.1)

    assert isinstance(answer, Routed)
    assert answer.decode.worker_id == "d1"


def test_an_explained_candidate_has_terms_that_add_up() -> None:
    workers = [FakeWorker("p1", WorkerRole.PREFILL), FakeWorker("d1"), FakeWorker("d2")]
    core = make_core(*workers, services=[service(mode=RoutingMode.DISAGGREGATED)])
    core.pick(ask(core, "r1", prompt(1, 500)), 0.0)

    record = core.explain("r1")

    assert record is not None
    assert len(record.candidates) == 2
    assert [candidate.chosen for candidate in record.candidates] == [True, False]
    for candidate in record.candidates:
        assert abs(sum(candidate.terms_ms.values()) - candidate.cost_ms) < 1e-6


def test_whoever_holds_a_prompt_is_waited_for_where_computing_it_anew_takes_longer() -> None:
    holder, idle = FakeWorker("holder"), FakeWorker("idle")
    core = make_core(holder, idle, services=[service(ttft_s=2.0)])
    long = prompt(1, 20_000)
    core.on_worker_message("holder", holder.delta(stored=holder.hashes(long)), 0.0)
    core.pick(ask(core, "ahead", prompt(2, 14_000), only=frozenset({"holder"})), 0.0)  # 0.7 s: longer than a full queue

    answer = core.pick(ask(core, "r", long), 0.0)
    elsewhere = core.pick(ask(core, "other", prompt(3, 1000)), 0.0)

    assert isinstance(answer, Routed)
    assert isinstance(elsewhere, Routed)
    assert answer.decode.worker_id == "holder"
    assert elsewhere.decode.worker_id == "idle"
