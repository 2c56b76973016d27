"""Breakers open on failures, errors and slowness, close by themselves, and never take most of a fleet away."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_api.proto import worker_pb2
from inferplane_router.core.breaking import Breaker
from inferplane_router.core.ejection import spared
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import FakeWorker, ask, make_core, prompt
from inferplane_router.core.values import Health, Routed


def report(outcome: worker_pb2.Outcome, status: int = 200) -> worker_pb2.RequestReport:
    return worker_pb2.RequestReport(outcome=outcome, status=status)


GOOD = report(worker_pb2.OUTCOME_OK)
BAD = report(worker_pb2.OUTCOME_ENGINE_ERROR, 500)


@given(st.lists(st.floats(0, 400), max_size=40))
def test_nobody_is_avoided_for_longer_than_a_minute_at_a_time(gaps: list[float]) -> None:
    breaker, now = Breaker(), 0.0
    for gap in gaps:
        now += gap
        until = breaker.trip(now)

        assert now < until <= now + 60.0


def test_who_fails_again_and_again_is_avoided_longer_each_time() -> None:
    breaker, now, times = Breaker(), 0.0, list[float]()
    for _ in range(6):
        until = breaker.trip(now)
        times.append(until - now)
        now = until + 1.0

    assert times == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]


def test_failures_of_requests_that_were_sent_before_do_not_count_twice() -> None:
    breaker = Breaker()

    assert {breaker.trip(0.1 * number) for number in range(30)} == {5.0}


def test_after_a_while_a_failure_is_the_first_one_again() -> None:
    breaker = Breaker()
    breaker.trip(0.0)
    breaker.trip(6.0)

    assert breaker.trip(300.0) == 305.0


def test_half_errors_open_a_breaker_and_a_client_s_faults_do_not() -> None:
    breaker = Breaker()
    faults = (worker_pb2.OUTCOME_BAD_REQUEST, worker_pb2.OUTCOME_CLIENT_GONE)

    assert not any(breaker.ended(report(fault, 400)) for fault in faults * 30)
    assert not any(breaker.ended(each) for each in [GOOD, GOOD, BAD] * 20)
    assert any(breaker.ended(BAD) for _ in range(10))


@given(st.dictionaries(st.integers(0, 63), st.integers(0, 1000), max_size=20), st.integers(0, 40))
def test_at_least_half_of_those_that_can_be_heard_stay_in_use(doubted: dict[int, int], sound: int) -> None:
    usable = len(doubted) + sound
    back = spared(doubted, usable)
    out = set(doubted) - back

    assert back <= set(doubted)
    assert usable - len(out) >= usable / 2
    assert not out or min(doubted[slot] for slot in out) >= max((doubted[slot] for slot in back), default=0)


def healths(core: RouterCore) -> dict[str, Health]:
    return {view.worker_id: view.health for view in core.statistics().workers}


def end(core: RouterCore, workers: list[FakeWorker], number: int, *, status: int, now: float) -> None:
    """Let one request end on the worker that it was placed on."""
    name = f"r{number}"
    answer = core.pick(ask(core, name, prompt(number, 40)), now)
    assert isinstance(answer, Routed)
    worker = next(each for each in workers if each.worker_id == answer.decode.worker_id)
    outcome = worker_pb2.OUTCOME_ENGINE_ERROR if worker.worker_id == "d1" else worker_pb2.OUTCOME_OK
    message = worker.report(name, prompt_tokens=40, cached_tokens=0, outcome=outcome)
    message.report.status = status if worker.worker_id == "d1" else 200
    core.on_worker_message(worker.worker_id, message, now)


@pytest.mark.parametrize(("status", "health"), [(500, Health.SUSPECT), (400, Health.READY)])
def test_a_worker_whose_engine_errs_gets_nothing_for_a_while(status: int, health: Health) -> None:
    workers = [FakeWorker("d1"), FakeWorker("d2"), FakeWorker("d3")]
    core = make_core(*workers)
    for number in range(60):
        end(core, workers, number, status=status, now=0.01 * number)

    assert healths(core) == {"d1": health, "d2": Health.READY, "d3": Health.READY}
    core.on_worker_message("d1", workers[0].status(), 1.0)
    assert healths(core)["d1"] is health  # its own word does not change that
    core.poll(20.0)
    assert healths(core)["d1"] is Health.READY


def test_a_worker_far_slower_than_its_peers_is_avoided() -> None:
    workers = [FakeWorker("d1"), FakeWorker("d2"), FakeWorker("d3")]
    core = make_core(*workers)
    for number in range(90):
        worker = workers[number % 3]
        core.pick(ask(core, f"r{number}", prompt(number, 40), only=frozenset({worker.worker_id})), 0.0)
        took_s = 3.0 if worker.worker_id == "d1" else 0.02
        message = worker.report(f"r{number}", prompt_tokens=40, cached_tokens=0, prefill_s=took_s)
        core.on_worker_message(worker.worker_id, message, 0.0)

    assert healths(core) == {"d1": Health.SUSPECT, "d2": Health.READY, "d3": Health.READY}


def test_when_most_of_a_fleet_fails_half_of_it_stays_in_use() -> None:
    workers = [FakeWorker(f"d{number}") for number in range(4)]
    core = make_core(*workers)
    core.pick(ask(core, "r", None), 0.0)
    for worker in workers[:3]:
        core.retry("r", worker.worker_id, 0.0)
    used = set[str]()
    for number in range(40):
        answer = core.pick(ask(core, f"s{number}", None), 0.1)
        assert isinstance(answer, Routed)
        used.add(answer.decode.worker_id)

    assert used == {"d0", "d3"}  # of the three, the first one is tried again


def test_a_worker_that_cannot_be_heard_is_not_spared() -> None:
    workers = [FakeWorker(f"d{number}") for number in range(4)]
    core = make_core(*workers)
    for worker in workers[:3]:
        core.worker_lost(worker.worker_id, 0.0)
    answers = [core.pick(ask(core, f"s{number}", None), 0.1) for number in range(20)]

    assert {answer.decode.worker_id for answer in answers if isinstance(answer, Routed)} == {"d3"}
