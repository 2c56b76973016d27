"""Figures that a planner wrote into the status, and the conditions that are made of them."""

from collections.abc import Callable
from typing import Any

import pytest

from inferplane_api.v1alpha1.inference_service import InferenceService
from inferplane_api.v1alpha1.manifests import parse_resource
from inferplane_operator.reconcile.objective import SILENT_S
from inferplane_operator.reconcile.testing import FakeCluster

Build = Callable[..., FakeCluster]
GOOD = {"ttft": "310ms", "tpot": "20ms", "attainment": 0.995, "requests": 500}
PLAN = {"prefillReplicas": 1, "decodeReplicas": 2, "verdict": "Met", "reason": "1:2 is what it takes"}


def condition(cluster: FakeCluster, kind: str) -> tuple[str, str, str]:
    found = next(each for each in cluster.service["status"]["conditions"] if each["type"] == kind)
    return found["status"], found["reason"], found.get("message", "")


def observe(cluster: FakeCluster, *, plan: dict[str, Any] | None = None, **figures: Any) -> None:
    """Write what a planner writes."""
    status = cluster.service["status"]
    status["slo"] = {**GOOD, **figures, "observedAt": cluster.now}
    status["plan"] = {**PLAN, **(plan or {}), "decidedAt": cluster.now}
    status.setdefault("routing", {"requests": 500, "doubted": 0, "mismatch": ""})
    cluster.settle()


def test_an_objective_that_is_kept_is_met_and_shown(running: Build) -> None:
    cluster = running()
    observe(cluster)

    assert condition(cluster, "SLOMet") == (
        "True",
        "WithinObjective",
        "99.5 % of the requests were within both limits",
    )
    assert cluster.service["status"]["columns"]["ttft"] == "310ms/2s"
    assert cluster.service["status"]["columns"]["tpot"] == "20ms/100ms"


@pytest.mark.parametrize(
    ("figures", "plan", "reason", "words"),
    [
        ({"ttft": "2.5s"}, {"reason": "1:3 is needed"}, "TTFTExceeded", "TTFT is 2.5s, the limit 2s; 1:3 is needed"),
        ({"tpot": "150ms"}, {"reason": ""}, "TPOTExceeded", "TPOT is 150ms, the limit 100ms"),
        ({"ttft": "3s", "tpot": "1s"}, {"reason": ""}, "TTFTExceeded", "limit 2s; TPOT is 1s"),
        ({"ttft": "9s"}, {"verdict": "Unattainable"}, "Infeasible", "TTFT is 9s"),
    ],
    ids=["ttft", "tpot", "both", "never"],
)
def test_an_objective_that_is_missed_says_which_limit_and_what_is_planned(
    running: Build, figures: dict[str, Any], plan: dict[str, Any], reason: str, words: str
) -> None:
    cluster = running()
    observe(cluster, plan=plan, **figures)
    found = condition(cluster, "SLOMet")

    assert found[:2] == ("False", reason)
    assert words in found[2]


def test_who_else_sets_the_replicas_is_named_while_the_objective_holds(running: Build) -> None:
    cluster = running()
    observe(cluster, plan={"verdict": "External", "reason": "kubectl sets the replicas, which are left alone"})

    assert condition(cluster, "SLOMet")[:2] == ("True", "WithinObjective")
    assert condition(cluster, "SLOMet")[2].endswith("; kubectl sets the replicas, which are left alone")


def test_without_requests_nothing_is_claimed(running: Build) -> None:
    cluster = running()
    cluster.service["status"]["routing"] = {"requests": 0}
    observe(cluster, requests=0)

    assert condition(cluster, "SLOMet")[:2] == ("Unknown", "NoTraffic")
    assert condition(cluster, "KVRoutingHealthy")[:2] == ("Unknown", "NoTraffic")


@pytest.mark.parametrize(
    ("doubted", "mismatch", "expected"),
    [
        (0, "", ("True", "PredictionsMatch")),
        (49, "block_size", ("True", "PredictionsMatch")),
        (50, "block_size", ("False", "BlockSizeMismatch")),
        (500, "events_off", ("False", "EventsOff")),
        (500, "of a newer router", ("False", "UnknownMismatch")),
    ],
)
def test_routing_is_healthy_while_workers_are_believed(
    running: Build, doubted: int, mismatch: str, expected: tuple[str, str]
) -> None:
    cluster = running()
    cluster.service["status"]["routing"] = {"requests": 500, "doubted": doubted, "mismatch": mismatch}
    observe(cluster)

    assert condition(cluster, "KVRoutingHealthy")[:2] == expected


def test_what_the_planner_wrote_is_left_alone(running: Build) -> None:
    cluster = running()
    observe(cluster)
    written = {name: dict(cluster.service["status"][name]) for name in ("slo", "plan", "routing")}
    patches = [merge.patch for merge in cluster.reconcile().status]
    cluster.edit({"scaling": {"mode": "advise"}})
    patches += [merge.patch for merge in cluster.reconcile().status if merge.reference.kind == "InferenceService"]

    assert patches
    assert not any({"slo", "plan", "routing"} & set(patch["status"]) for patch in patches)
    assert {name: cluster.service["status"][name] for name in written} == written


def test_a_planner_that_falls_silent_is_not_quoted_for_ever(running: Build) -> None:
    cluster = running()
    observe(cluster)
    again_in_s = cluster.reconcile().again_in_s
    cluster.clock_s += SILENT_S
    cluster.settle()
    found = condition(cluster, "SLOMet")

    assert again_in_s is not None
    assert 0 < again_in_s <= SILENT_S + 1
    assert found[:2] == ("Unknown", "Pending")
    assert "has said nothing since" in found[2]
    assert cluster.service["status"]["columns"]["ttft"] == "-/2s"


def test_the_status_is_what_the_type_says(running: Build) -> None:
    cluster = running()
    observe(cluster, plan={"wouldTake": "2:5", "predictedTtft": "1.5s", "costPerHour": 2.5, "acting": True})
    parsed = parse_resource(cluster.service)

    assert isinstance(parsed, InferenceService)
    assert parsed.status is not None
    assert parsed.status.plan is not None
    assert parsed.status.plan.would_take == "2:5"
