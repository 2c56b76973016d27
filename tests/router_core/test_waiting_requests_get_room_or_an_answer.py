from inferplane_api.catalogue import Catalogue
from inferplane_api.proto import worker_pb2
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import FakeWorker, accepted, ask, finished, make_core, prompt, service
from inferplane_router.core.values import Queued, RefusalReason, Refused, Routed


def full_core(*, queue_limit: int = 2) -> tuple[RouterCore, FakeWorker]:
    """Make a core whose only worker takes one request and has it."""
    worker = FakeWorker("d1", max_num_seqs=1)
    core = make_core(worker, services=[service(queue_limit=queue_limit)])
    core.pick(ask(core, "first", prompt(1, 100)), 0.0)
    core.on_worker_message("d1", worker.load(accepted("first")), 0.0)
    return core, worker


def test_a_request_waits_for_room_and_gets_it_in_order() -> None:
    core, _ = full_core()

    second = core.pick(ask(core, "second", prompt(2, 100)), 0.1)
    third = core.pick(ask(core, "third", prompt(3, 100)), 0.2)

    assert isinstance(second, Queued)
    assert isinstance(third, Queued)
    assert (second.position, third.position) == (1, 2)
    assert core.poll(0.3) == []
    core.complete("first", worker_pb2.OUTCOME_OK, 0.4)
    answers = core.poll(0.4)
    assert [(request_id, type(answer)) for request_id, answer in answers] == [("second", Routed)]


def test_a_full_queue_refuses_with_when_to_come_back() -> None:
    core, _ = full_core(queue_limit=0)

    answer = core.pick(ask(core, "second", prompt(2, 100)), 0.1)

    assert isinstance(answer, Refused)
    assert answer.reason is RefusalReason.QUEUE_FULL
    assert answer.retry_after_s >= 1.0


def test_a_deadline_that_passes_is_told_at_the_wakeup() -> None:
    core, _ = full_core()
    queued = core.pick(ask(core, "second", prompt(2, 100), deadline_s=0.5), 0.1)
    assert isinstance(queued, Queued)
    wakeup = core.next_wakeup()

    assert wakeup is not None
    assert wakeup <= queued.deadline
    answers = core.poll(queued.deadline)
    assert len(answers) == 1
    refused = answers[0][1]
    assert isinstance(refused, Refused)
    assert refused.reason is RefusalReason.DEADLINE


def test_a_deadline_that_the_pace_cannot_meet_is_refused_at_once() -> None:
    core, worker = full_core()
    core.on_worker_message("d1", worker.load(finished("first")), 1.0)
    core.complete("first", worker_pb2.OUTCOME_OK, 1.0)
    now = 1.0
    for number in range(12):
        core.pick(ask(core, f"r{number}", prompt(number, 100)), now)
        now += 10.0
        core.complete(f"r{number}", worker_pb2.OUTCOME_OK, now)
    core.pick(ask(core, "holds", prompt(50, 100)), now)

    answer = core.pick(ask(core, "hopeless", prompt(51, 100), deadline_s=1.0), now)

    assert isinstance(answer, Refused)
    assert answer.reason is RefusalReason.DEADLINE
    assert 5.0 < answer.retry_after_s < 20.0


def test_a_burst_after_a_quiet_hour_is_let_wait() -> None:
    core, worker = full_core(queue_limit=8)
    core.on_worker_message("d1", worker.load(finished("first")), 1.0)
    core.complete("first", worker_pb2.OUTCOME_OK, 1.0)
    now = 1.0
    for number in range(12):
        core.pick(ask(core, f"r{number}", prompt(number, 100)), now)
        core.complete(f"r{number}", worker_pb2.OUTCOME_OK, now + 0.5)
        now += 300.0
    core.pick(ask(core, "holds", prompt(50, 100)), now)

    answers = [core.pick(ask(core, f"burst{number}", prompt(60 + number, 100)), now) for number in range(6)]

    assert [type(answer) for answer in answers] == [Queued] * 6


def test_a_cancelled_request_leaves_the_queue() -> None:
    core, _ = full_core()
    core.pick(ask(core, "second", prompt(2, 100)), 0.1)
    core.complete("second", worker_pb2.OUTCOME_CLIENT_GONE, 0.2)
    core.complete("first", worker_pb2.OUTCOME_OK, 0.3)

    assert core.poll(0.4) == []
    assert core.statistics().services[0].in_flight == 0


def test_those_who_wait_for_a_removed_service_are_told() -> None:
    core, _ = full_core()
    core.pick(ask(core, "second", prompt(2, 100)), 0.1)
    core.apply_catalogue(Catalogue(), 0.2)

    answers = core.poll(0.2)

    assert [request_id for request_id, _ in answers] == ["second"]
    assert isinstance(answers[0][1], Refused)


def test_a_retry_avoids_the_worker_that_failed() -> None:
    workers = [FakeWorker("d1"), FakeWorker("d2")]
    core = make_core(*workers)
    first = core.pick(ask(core, "r", prompt(1, 100)), 0.0)
    assert isinstance(first, Routed)

    second = core.retry("r", first.decode.worker_id, 0.1)

    assert isinstance(second, Routed)
    assert second.decode.worker_id != first.decode.worker_id
    record = core.explain("r")
    assert record is not None
    assert [bool(candidate.excluded_because) for candidate in record.candidates] == [False, True]


def test_a_request_that_nobody_completes_is_let_go() -> None:
    core, worker = full_core()
    core.on_worker_message("d1", worker.load(finished("first")), 1.0)
    core.poll(100.0)

    assert core.statistics().services[0].in_flight == 0
