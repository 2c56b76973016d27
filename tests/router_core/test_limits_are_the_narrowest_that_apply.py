"""A request's own limit, its priority's, its prompt length's, the service's: which of them counts, and that it does."""

from typing import Any

import pytest

from inferplane_api.catalogue import CatalogueService, LengthLimit, PriorityLimit
from inferplane_api.catalogue_entries import catalogue_service
from inferplane_api.proto.worker_pb2 import OUTCOME_OK
from inferplane_api.v1alpha1 import InferenceService
from inferplane_router.core.objective import limits_of
from inferplane_router.core.testing import FakeWorker, accepted, ask, finished, make_core, prompt, service
from inferplane_router.core.values import Ask, Queued, ResolvedModel

SERVICE = service(ttft_s=2.0).model_copy(
    update={
        "ttft_by_prompt_length": (
            LengthLimit(max_prompt_tokens=100, ttft_s=0.5),
            LengthLimit(max_prompt_tokens=1000, ttft_s=1.0),
        ),
        "priorities": (
            PriorityLimit(priority=5, ttft_s=0.2),
            PriorityLimit(priority=-5, ttft_s=30.0, tpot_s=1.0),
            PriorityLimit(priority=1, tpot_s=0.02),
        ),
    }
)


def asked(tokens: int | None, *, of: CatalogueService = SERVICE, **more: Any) -> Ask:
    given = None if tokens is None else prompt(1, tokens)
    return Ask("r", ResolvedModel("tiny", of, "tiny"), given, **more)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param(asked(100), (0.5, 0.1), id="short"),
        pytest.param(asked(101), (1.0, 0.1), id="of the next length"),
        pytest.param(asked(1001), (2.0, 0.1), id="longer than every length"),
        pytest.param(asked(None), (2.0, 0.1), id="length not known"),
        pytest.param(asked(100, priority=5), (0.2, 0.1), id="the priority goes before the length"),
        pytest.param(asked(100, priority=1), (0.5, 0.02), id="a priority with one limit leaves the other"),
        pytest.param(asked(100, priority=-5), (30.0, 1.0), id="a low priority may be slow"),
        pytest.param(asked(100, priority=4), (0.5, 0.1), id="a priority that is not named"),
        pytest.param(asked(100, priority=5, ttft_s=0.1, tpot_s=0.3), (0.1, 0.3), id="the request's own"),
        pytest.param(asked(100, of=service(ttft_s=3.0)), (3.0, 0.1), id="a service without any"),
    ],
)
def test_the_narrowest_word_counts(request_: Ask, expected: tuple[float, float]) -> None:
    assert limits_of(request_) == expected


def test_who_is_due_first_is_served_first() -> None:
    worker = FakeWorker("d1", max_num_seqs=1)
    core = make_core(worker, services=[SERVICE])
    core.pick(ask(core, "has", prompt(1, 50)), 0.0)
    core.on_worker_message("d1", worker.load(accepted("has")), 0.0)
    waiting = [core.pick(ask(core, f"of {tokens}", prompt(2, tokens)), 0.0) for tokens in (1500, 50, 500)]
    assert all(isinstance(each, Queued) for each in waiting)
    served: list[str] = []
    for name in ("has", "of 50", "of 500"):
        core.on_worker_message("d1", worker.load(finished(name)), 0.1)
        core.complete(name, OUTCOME_OK, 0.1)
        for request_id, _ in core.poll(0.1):
            core.on_worker_message("d1", worker.load(accepted(request_id)), 0.1)
            served.append(request_id)

    assert served == ["of 50", "of 500", "of 1500"]


def test_a_router_is_told_what_the_objective_says() -> None:
    slo = {
        "ttft": "3s",
        "ttftByPromptLength": [{"maxPromptTokens": 1000, "ttft": "500ms"}],
        "priorities": [{"priority": 5, "tpot": "20ms"}],
    }
    spec = {"model": {"name": "acme/tiny"}, "engine": {"type": "sim"}, "decode": {"replicas": 1}, "slo": slo}
    told = catalogue_service(InferenceService.model_validate({"metadata": {"name": "chat"}, "spec": spec}))

    assert told.ttft_s == 3.0
    assert told.ttft_by_prompt_length == (LengthLimit(max_prompt_tokens=1000, ttft_s=0.5),)
    assert told.priorities == (PriorityLimit(priority=5, tpot_s=0.02),)
