"""Every worker that did not get a request is in the record, with the reason."""

import pytest

from inferplane_api.catalogue import RoutingMode, WorkerRole
from inferplane_api.proto import worker_pb2
from inferplane_engine.identity import Adapter
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import FakeWorker, ask, make_core, prompt, service
from inferplane_router.core.values import Refused, Routed

DISAGGREGATED = [service(mode=RoutingMode.DISAGGREGATED)]
AGGREGATED = [service(mode=RoutingMode.AGGREGATED)]


def reasons(core: RouterCore, request_id: str) -> dict[str, str]:
    """Return why a worker was not chosen, by its name; pairs that only cost more are left out."""
    record = core.explain(request_id)
    assert record is not None
    found = [each for each in record.candidates if each.excluded_because]
    return {each.prefill_worker or each.decode_worker: each.excluded_because for each in found}


@pytest.mark.parametrize(
    ("phase", "reason"),
    [
        (worker_pb2.PHASE_STARTING, "starting"),
        (worker_pb2.PHASE_DRAINING, "draining"),
        (worker_pb2.PHASE_FAILED, "failed"),
    ],
)
def test_a_worker_that_is_not_ready_says_why(phase: worker_pb2.Phase, reason: str) -> None:
    workers = [FakeWorker("d0"), FakeWorker("d1"), FakeWorker("p1", WorkerRole.PREFILL)]
    core = make_core(*workers, services=DISAGGREGATED)
    for worker in workers[1:]:
        core.on_worker_message(worker.worker_id, worker.status(phase), 0.0)
    core.pick(ask(core, "r", prompt(1, 100)), 0.1)

    assert reasons(core, "r") == {"d1": reason, "p1": reason}


def test_what_the_caller_said_is_named() -> None:
    core = make_core(FakeWorker("d0"), FakeWorker("d1"), FakeWorker("d2"), services=AGGREGATED)
    core.pick(ask(core, "r", prompt(1, 100), exclude=frozenset({"d1"}), only=frozenset({"d0", "d1"})), 0.0)

    assert reasons(core, "r") == {
        "d1": "excluded by the caller, or it failed this request before",
        "d2": "not among the workers asked for",
    }


def test_a_worker_without_the_adapter_is_named() -> None:
    lora = Adapter("lora", "1")
    core = make_core(FakeWorker("d0", adapters=(lora,)), FakeWorker("d1"), services=AGGREGATED)
    core.pick(ask(core, "r", prompt(1, 100), name="lora"), 0.0)

    assert reasons(core, "r") == {"d1": "adapter lora is not loaded"}


def test_a_full_worker_is_named_with_its_numbers() -> None:
    core = make_core(FakeWorker("d0", max_num_seqs=1), FakeWorker("d1"), services=AGGREGATED)
    core.pick(ask(core, "first", prompt(1, 100), only=frozenset({"d0"})), 0.0)
    answer = core.pick(ask(core, "r", prompt(1, 100)), 0.0)

    assert isinstance(answer, Routed)
    assert reasons(core, "r") == {"d0": "full: 1 of 1 requests"}


def test_a_prefill_worker_of_another_revision_is_named() -> None:
    workers = [
        FakeWorker("p0", WorkerRole.PREFILL, revision="new"),
        FakeWorker("p1", WorkerRole.PREFILL, revision="old"),
        FakeWorker("d0", revision="new"),
    ]
    core = make_core(*workers, services=DISAGGREGATED)
    core.pick(ask(core, "r", prompt(1, 100)), 0.0)

    assert reasons(core, "r") == {"p1": "prefill and decode worker are of different revisions"}


def test_a_suspect_worker_is_named_while_others_are_sound() -> None:
    workers = [FakeWorker("d0"), FakeWorker("d1")]
    core = make_core(*workers, services=AGGREGATED)
    core.worker_lost("d1", 0.0)
    core.pick(ask(core, "r", prompt(1, 100)), 0.1)

    assert reasons(core, "r") == {"d1": "suspect: its stream was lost or requests failed, and others are sound"}


def test_a_refusal_says_of_every_worker_why_it_was_none() -> None:
    workers = [FakeWorker("d0"), FakeWorker("d1")]
    core = make_core(*workers, services=AGGREGATED)
    core.on_worker_message("d0", workers[0].status(worker_pb2.PHASE_DRAINING), 0.0)
    answer = core.pick(ask(core, "r", prompt(1, 100), exclude=frozenset({"d1"})), 0.0)

    assert isinstance(answer, Refused)
    assert reasons(core, "r") == {
        "d0": "draining",
        "d1": "excluded by the caller, or it failed this request before",
    }


def test_a_record_says_what_was_true_when_it_was_decided() -> None:
    workers = [FakeWorker("d0"), FakeWorker("d1")]
    core = make_core(*workers, services=AGGREGATED)
    core.on_worker_message("d1", workers[1].status(worker_pb2.PHASE_DRAINING), 0.0)
    core.pick(ask(core, "r", prompt(1, 100)), 0.0)
    core.on_worker_message("d1", workers[1].status(), 0.1)

    assert reasons(core, "r") == {"d1": "draining"}


def test_the_chosen_one_is_never_excluded() -> None:
    core = make_core(FakeWorker("d0", max_num_seqs=1), services=AGGREGATED)
    core.pick(ask(core, "r", prompt(1, 100)), 0.0)

    assert reasons(core, "r") == {}
