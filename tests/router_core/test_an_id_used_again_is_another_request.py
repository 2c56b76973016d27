"""What an agent says late of a request does nothing to a later one to which a client gave the same id."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_api.proto import worker_pb2
from inferplane_router.core import score_kernels as kernels
from inferplane_router.core.load import LoadTable
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import EPOCH, FakeWorker, accepted, ask, finished, make_core, prompt
from inferplane_router.core.values import Routed

OK = worker_pb2.OUTCOME_OK
FOREIGN = 99


def place(core: RouterCore, nonce: int, now: float) -> Routed:
    answer = core.pick(replace(ask(core, "mine", prompt(1, 160)), nonce=nonce), now)
    assert isinstance(answer, Routed)
    return answer


def ended(worker: FakeWorker, nonce: int) -> tuple[worker_pb2.WorkerMessage, worker_pb2.WorkerMessage]:
    """Return what an agent says at a request's end."""
    entry = finished("mine")
    entry.nonce = nonce
    report = worker.report("mine", prompt_tokens=160, cached_tokens=0)
    report.report.nonce = nonce
    return worker.load(entry), report


def counted(core: RouterCore) -> int:
    return sum(view.in_flight for view in core.statistics().workers)


@pytest.fixture
def worker() -> FakeWorker:
    return FakeWorker("d")


def test_the_end_of_the_earlier_one_that_is_told_late_leaves_the_later_one(worker: FakeWorker) -> None:
    core = make_core(worker)
    place(core, 1, 1.0)
    core.complete("mine", OK, 2.0)
    routed = place(core, 2, 2.0)
    for message in ended(worker, 1):
        core.on_worker_message("d", message, 2.1)

    assert routed.nonce == 2
    assert core.in_force("mine")
    assert counted(core) == 1


def test_its_own_end_ends_it(worker: FakeWorker) -> None:
    core = make_core(worker)
    place(core, 1, 1.0)
    core.complete("mine", OK, 2.0)
    place(core, 2, 2.0)
    for message in ended(worker, 2):
        core.on_worker_message("d", message, 3.0)

    assert not core.in_force("mine")
    assert counted(core) == 0


def test_an_agent_that_knows_of_no_nonces_ends_a_request_by_its_id(worker: FakeWorker) -> None:
    core = make_core(worker)
    place(core, 1, 1.0)
    for message in ended(worker, 0):
        core.on_worker_message("d", message, 3.0)

    assert not core.in_force("mine")
    assert counted(core) == 0


def test_a_retry_is_the_same_request() -> None:
    workers = FakeWorker("d"), FakeWorker("e")
    core = make_core(*workers)
    first = place(core, 1, 1.0)
    second = core.retry("mine", first.decode.worker_id, 1.1)

    assert isinstance(second, Routed)
    assert second.nonce == 1


@given(st.permutations(range(6)))
def test_however_the_reports_of_another_routers_two_interleave_nothing_is_left(order: list[int]) -> None:
    """Each request's own reports come in order; how the two requests mix does not matter."""
    table = LoadTable(epoch=EPOCH)
    left = {1: list(PHASES), 2: list(PHASES)}
    for each in order:
        nonce = 1 + each % 2
        entry = accepted("mine", epoch=FOREIGN)
        entry.phase, entry.nonce = left[nonce].pop(0), nonce
        table.report(0, entry, decodes=True)

    assert table.in_flight(0) == 0
    assert table.rows[0, kernels.IN_FLIGHT] == 0


PHASES = (
    worker_pb2.LOAD_PHASE_ACCEPTED,
    worker_pb2.LOAD_PHASE_PREFILL_DONE,
    worker_pb2.LOAD_PHASE_FINISHED,
)
