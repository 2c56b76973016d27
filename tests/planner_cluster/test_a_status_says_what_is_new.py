"""What is written into a service's status, and when."""

import asyncio
import math
from dataclasses import replace
from typing import Any

import pytest

from inferplane_api.v1alpha1.inference_service import InferenceService
from inferplane_api.v1alpha1.manifests import parse_resource
from inferplane_planner.act.world import Findings, Sight
from inferplane_planner.cluster.reading import read_service
from inferplane_planner.cluster.telling import REFRESH_S, applied, rfc3339, says_more, told
from inferplane_planner.cluster.testing import START, WALL_S, FakeCalls, holding, pool, service, world
from inferplane_planner.core.contract import Measured, Plan, Verdict
from inferplane_planner.core.decide import Move
from inferplane_planner.core.predict import Candidate
from inferplane_planner.observe.trust import Trust, trust_of
from inferplane_runtime.kube.errors import AbsentError, UnreachableError

PLAN = Plan(
    decided_at_s=1.0,
    prefill=2,
    decode=3,
    lent=1,
    move=Move.UP,
    verdict=Verdict.LIMITED,
    reason="the objective would take 3:5",
    ttft_s=1.23456,
    tpot_s=math.inf,
    attainment=0.98765,
    devices=5,
    cost_per_hour=12.5,
    would_take=Candidate(3, 5),
)
FOUND = Findings(PLAN, Measured(1234, 0.31234, 0.0218, 0.99876), Trust(1234, 56, "block_size"))


@pytest.fixture
def sight() -> Sight:
    return asyncio.run(world(holding(service(), pool("decode"))).look())


def test_figures_have_two_digits_and_units(sight: Sight) -> None:
    assert told(FOUND, sight, at=START) == {
        "slo": {"ttft": "310ms", "tpot": "22ms", "attainment": 0.999, "requests": 1200, "observedAt": START},
        "routing": {"requests": 1200, "doubted": 56, "mismatch": "block_size"},
        "plan": {
            "prefillReplicas": 2,
            "decodeReplicas": 3,
            "lentReplicas": 1,
            "predictedTtft": "1200ms",
            "predictedAttainment": 0.99,
            "devices": 5,
            "costPerHour": 12.5,
            "wouldTake": "3:5",
            "verdict": "Limited",
            "reason": "the objective would take 3:5",
            "acting": True,
            "decidedAt": START,
        },
    }


def test_what_is_applied_is_a_status_of_this_very_object(sight: Sight) -> None:
    said = applied(read_service(service(), None), told(FOUND, sight, at=START))
    parsed = parse_resource({**service(), "status": said["status"]})

    assert said["metadata"] == {"namespace": "team", "name": "chat", "uid": "uid-chat"}
    assert isinstance(parsed, InferenceService)
    assert parsed.status is not None
    assert parsed.status.routing is not None
    assert parsed.status.routing.doubted == 56


def test_a_service_that_is_not_planned_has_no_plan(sight: Sight) -> None:
    assert told(replace(FOUND, plan=None), sight, at=START).keys() == {"slo", "routing"}


def test_the_same_is_said_again_only_after_a_while(sight: Sight) -> None:
    before = told(FOUND, sight, at=START)
    soon, late = (rfc3339(WALL_S + after_s) for after_s in (REFRESH_S - 1, REFRESH_S))
    nearly = replace(FOUND, measured=Measured(1201, 0.3101, 0.0221, 0.99912))
    other = replace(FOUND, plan=replace(PLAN, reason="another"))

    assert not says_more(told(FOUND, sight, at=soon), before, now=soon)
    assert not says_more(told(nearly, sight, at=soon), before, now=soon)
    assert says_more(told(FOUND, sight, at=late), before, now=late)
    assert says_more(told(other, sight, at=soon), before, now=soon)
    assert says_more(told(replace(FOUND, plan=None), sight, at=soon), before, now=soon)
    assert says_more(told(FOUND, sight, at=START), {}, now=START)


def written(status: dict[str, Any] | None, failure: Any = None) -> FakeCalls:
    """Tell once of a service with this status."""
    calls = FakeCalls(failures=[failure])
    there = world(holding(service(status=status), pool("decode")), calls)
    asyncio.run(there.tell(FOUND, asyncio.run(there.look())))
    return calls


def test_it_is_written_by_server_side_apply_under_the_planners_name(sight: Sight) -> None:
    (call,) = written(None).calls

    assert (call.method, call.content_type) == ("PATCH", "application/apply-patch+yaml")
    assert call.path == "/apis/inferplane.dev/v1alpha1/namespaces/team/inferenceservices/chat/status"
    assert call.query == (("fieldManager", "inferplane-planner"), ("force", "true"))
    assert written(told(FOUND, sight, at=START)).calls == []


def test_a_service_that_has_just_gone_is_no_problem() -> None:
    assert len(written(None, AbsentError("404")).calls) == 1


def test_a_status_that_cannot_be_written_is_a_problem() -> None:
    with pytest.raises(Exception, match="the status cannot be written: nobody answers"):
        written(None, UnreachableError("nobody answers"))


def test_doubts_are_summed_up_by_their_most_frequent_cause() -> None:
    assert trust_of([]) == Trust(0, 0, "")
    assert trust_of(["", ""]) == Trust(2, 0, "")
    assert trust_of(["b", "", "a", "a", "b", "c"]) == Trust(6, 5, "a")
