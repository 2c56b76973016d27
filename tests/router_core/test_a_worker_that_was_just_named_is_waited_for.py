"""Between a worker's name in the catalogue and its first word pass milliseconds: nobody is refused for them."""

from random import Random

import pytest

from inferplane_api.catalogue import Catalogue, CatalogueService
from inferplane_api.proto import worker_pb2
from inferplane_router.core.first_words import PATIENCE_S
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import EPOCH, FakeWorker, ask, catalogue, connect, prompt, service
from inferplane_router.core.values import Queued, RefusalReason, Refused, Routed


def named(*workers: FakeWorker, settings: CatalogueService | None = None) -> RouterCore:
    """Make a core whose workers are named at 0 and have said nothing."""
    core = RouterCore(epoch=EPOCH, rng=Random(1), wall_clock=lambda: 1.7e9)
    core.apply_catalogue(catalogue([service() if settings is None else settings], workers), 0.0)
    return core


def test_a_request_waits_for_the_first_word_and_is_placed_by_it() -> None:
    worker = FakeWorker("d1")
    core = named(worker)

    assert isinstance(core.pick(ask(core, "r", None), 0.1), Queued)
    assert core.poll(0.2) == []
    connect(core, worker, now=0.3)
    assert [(each, type(answer)) for each, answer in core.poll(0.3)] == [("r", Routed)]


def test_who_waited_in_vain_hears_that_there_is_no_worker() -> None:
    core = named(FakeWorker("d1"))
    core.pick(ask(core, "r", None), 0.1)

    assert core.next_wakeup() == PATIENCE_S
    ((_, answer),) = core.poll(PATIENCE_S)
    assert isinstance(answer, Refused)
    assert answer.reason is RefusalReason.NO_WORKERS


def test_a_word_that_says_not_yet_ends_the_wait() -> None:
    worker = FakeWorker("d1")
    core = named(worker)
    core.pick(ask(core, "r", None), 0.1)
    core.worker_connected("d1", 0.2)
    core.on_worker_message("d1", worker.identity(), 0.2)
    core.on_worker_message("d1", worker.status(worker_pb2.PHASE_STARTING), 0.2)

    assert [type(answer) for _, answer in core.poll(0.2)] == [Refused]
    assert isinstance(core.pick(ask(core, "later", prompt(1, 64)), 0.3), Refused)


def test_nobody_waits_where_none_was_named_just_now() -> None:
    core = named(FakeWorker("d1"))

    assert isinstance(core.pick(ask(core, "late", None), PATIENCE_S), Refused)
    core.apply_catalogue(Catalogue(services=(service(),)), 5.0)
    assert isinstance(core.pick(ask(core, "without", None), 5.0), Refused)


def test_a_worker_that_went_before_its_first_word_is_waited_for_no_more() -> None:
    core = named(FakeWorker("d1"))
    core.apply_catalogue(Catalogue(services=(service(),)), 0.1)

    assert isinstance(core.pick(ask(core, "r", None), 0.2), Refused)


@pytest.mark.parametrize("limit", [0, 2])
def test_no_more_wait_than_the_queue_holds(limit: int) -> None:
    core = named(FakeWorker("d1"), settings=service(queue_limit=limit))
    answers = [core.pick(ask(core, f"r{number}", None, only=frozenset({f"d{number}"})), 0.1) for number in range(3)]

    assert [type(answer) for answer in answers] == [Queued] * limit + [Refused] * (3 - limit)
    assert {answer.reason for answer in answers if isinstance(answer, Refused)} == {RefusalReason.NO_WORKERS}


def test_a_worker_that_is_ready_is_used_while_another_is_awaited() -> None:
    worker = FakeWorker("d1")
    core = named(worker, FakeWorker("d2"))
    connect(core, worker, now=0.1)

    assert isinstance(core.pick(ask(core, "r", prompt(1, 64)), 0.2), Routed)
