"""Objects as an API server sends them, and what a look at them says."""

import asyncio
from typing import Any

import pytest

from inferplane_planner.act.world import Findings, Sight, WorldError
from inferplane_planner.cluster import reading
from inferplane_planner.cluster.tables import Tables
from inferplane_planner.cluster.testing import (
    WALL_S,
    FakeCalls,
    Object,
    endpoints,
    holding,
    pool,
    service,
    world,
    wrote,
)
from inferplane_planner.core.contract import Workers

LATER = "2026-01-01T00:01:00Z"
LATEST = "2026-01-01T00:02:00Z"


def look(tables: Tables, *, leads: bool = True) -> Sight:
    return asyncio.run(world(tables, leads=leads).look())


def test_pools_and_routers_are_in_the_picture() -> None:
    tables = holding(service(), pool("prefill"), pool("decode", replicas=3, ready=2), endpoints("10.0.0.1", "fd00::2"))
    sight = look(tables)

    assert sight.service == "team/chat"
    assert (sight.prefill, sight.decode) == (Workers(1, 1), Workers(3, 2))
    assert sight.routers == ("10.0.0.1:9000", "[fd00::2]:9000")
    assert (sight.planned, sight.acting) == (True, True)


def test_a_pool_that_another_object_controls_is_not_the_services() -> None:
    stranger = pool("decode")
    stranger["metadata"]["ownerReferences"][0]["uid"] = "uid-of-a-service-before"
    sight = look(holding(service(), stranger))

    assert sight.decode.wanted == 0
    assert not sight.planned


@pytest.mark.parametrize(
    ("mode", "leads", "planned", "acting"),
    [
        ("slo", True, True, True),
        ("slo", False, True, False),
        ("advise", True, True, False),
        ("manual", True, False, False),
        ("external", True, False, False),
    ],
)
def test_only_the_mode_slo_and_who_leads_act(mode: str, leads: bool, planned: bool, acting: bool) -> None:  # noqa: FBT001 - a table
    sight = look(holding(service(mode=mode), pool("decode")), leads=leads)

    assert (sight.planned, sight.acting) == (planned, acting)


@pytest.mark.parametrize(
    ("fields", "owner"),
    [
        ([wrote("inferplane-planner", "replicas", LATER, "scale")], ""),
        ([wrote("kubectl", "replicas", LATER, "scale")], "kubectl"),
        (
            [wrote("inferplane-planner", "replicas", LATER, "scale"), wrote("hpa", "replicas", LATEST, "scale")],
            "hpa",
        ),
        ([wrote("hpa", "replicas", LATER, "scale"), wrote("inferplane-planner", "replicas", LATEST, "scale")], ""),
        ([wrote("kubectl", "replicas", "2026-01-01T00:00:00Z", "scale")], "kubectl"),
        ([wrote("kubectl", "replicas", "2025-12-31T23:59:59Z", "scale")], ""),
    ],
    ids=["ours", "a person", "another controller", "ours again", "in the same second", "before the mode was chosen"],
)
def test_the_last_word_on_replicas_counts(fields: list[Object], owner: str) -> None:
    scaled = pool("decode")
    scaled["metadata"]["managedFields"] += fields

    assert look(holding(service(), pool("prefill"), scaled)).decode.owned_by == owner


def test_a_write_without_a_time_counts_from_when_it_was_seen_first() -> None:
    """As an API server keeps writes through the scale subresource of a custom resource."""
    scaled = pool("decode", replicas=3)
    scaled["metadata"]["managedFields"] = [wrote("kubectl", "replicas", "", "scale")]
    tables = holding(service(), scaled)
    there = world(tables)

    def owner(wall_s: float) -> str:
        there.wall = lambda: wall_s
        return asyncio.run(there.look()).decode.owned_by

    def edit(at: str) -> None:
        edited = service()
        edited["metadata"]["managedFields"].append(wrote("kubectl-edit", "scaling", at))
        tables.services.put(edited)

    seen = [owner(WALL_S)]
    edit(LATER)
    seen += [owner(WALL_S + 61), owner(WALL_S + 90)]
    scaled["spec"]["replicas"] = 5
    tables.decode_pools.put(scaled)
    seen += [owner(WALL_S + 100), owner(WALL_S + 1000)]

    assert seen == ["kubectl", "", "", "kubectl", "kubectl"]


def test_a_later_edit_of_the_scaling_hands_the_replicas_back() -> None:
    scaled, edited = pool("decode"), service()
    scaled["metadata"]["managedFields"].append(wrote("kubectl", "replicas", LATER, "scale"))
    edited["metadata"]["managedFields"].append(wrote("kubectl-edit", "scaling", LATEST))

    assert look(holding(edited, scaled)).decode.owned_by == ""


def test_workers_without_a_device_are_counted_from_when_they_were_seen_first() -> None:
    waiting = {"type": "Ready", "status": "False", "reason": "NoRoom"}
    tables = holding(service(), pool("decode", conditions=[waiting]))
    watching = world(tables)
    first = asyncio.run(watching.look()).decode.pending_since_s
    watching.now = lambda: 1060.0
    still = asyncio.run(watching.look()).decode.pending_since_s
    tables.decode_pools.put(pool("decode"))

    assert (first, still) == (1000.0, 1000.0)
    assert asyncio.run(watching.look()).decode.pending_since_s is None


def test_each_start_is_learned_from_once() -> None:
    start = {"worker": "w1", "scheduled": "1s", "initialized": "4s", "started": "500ms", "ready": "1m"}
    watching = world(holding(service(), pool("decode", startup=start)))
    seen = [asyncio.run(watching.look()).start_ups_s for _ in range(2)]

    assert seen == [(65.5,), ()]


def test_a_service_that_cannot_be_planned_says_why() -> None:
    broken = service(slo={"ttft": "0s"})

    with pytest.raises(WorldError, match=r"spec\.slo\.ttft"):
        look(holding(broken, pool("decode")))
    with pytest.raises(WorldError, match="no such service"):
        look(holding())


def test_a_spec_is_validated_once_a_generation() -> None:
    first = reading.read_service(service(), None)
    again = reading.read_service(service(status={"slo": {"requests": 1}, "url": "u"}), first)

    assert again.spec is first.spec
    assert again.told == {"slo": {"requests": 1}}


def test_routers_are_heard_from_when_they_serve_until_they_have_gone() -> None:
    assert holding(endpoints("10.0.0.1", serving=False)).routers == ()
    assert holding(endpoints("10.0.0.1", serving=False, terminating=True)).routers == ("10.0.0.1:9000",)
    assert reading.read_routers(endpoints("10.0.0.1")).addresses == ("10.0.0.1",)


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_scaling_goes_through_the_scale_subresource(role: str) -> None:
    calls, found = FakeCalls(), pool(role)
    calls.hold(found)
    asyncio.run(world(holding(service(), pool("decode"), found), calls).scale(role, 3))
    (write,) = [call for call in calls.calls if call.method == "PATCH"]

    assert write.body == {"metadata": {"resourceVersion": "7"}, "spec": {"replicas": 3}}
    assert write.query == (("fieldManager", "inferplane-planner"),)
    assert write.path.endswith(f"/{role}pools/chat-{role}/scale")


def scaled_meanwhile(calls: FakeCalls, found: Object) -> None:
    calls.hold({**found, "spec": {"replicas": 9}})


def replaced_meanwhile(calls: FakeCalls, found: Object) -> None:
    calls.hold({**found, "metadata": {**found["metadata"], "uid": "another"}})


def gone_meanwhile(calls: FakeCalls, _found: Object) -> None:
    calls.scales.clear()


@pytest.mark.parametrize(
    ("disturb", "words"),
    [
        (scaled_meanwhile, "scaled to 9 by somebody else"),
        (replaced_meanwhile, "by somebody else"),
        (gone_meanwhile, "cannot be scaled to 3"),
    ],
)
def test_who_scales_in_the_same_moment_wins(disturb: Any, words: str) -> None:
    calls, found = FakeCalls(), pool("decode")
    disturb(calls, found)

    with pytest.raises(WorldError, match=words):
        asyncio.run(world(holding(service(), found), calls).scale("decode", 3))
    assert calls.written("/scale") == []


def test_nothing_is_written_without_the_lease() -> None:
    calls, found = FakeCalls(), pool("decode")
    calls.hold(found)
    waiting = world(holding(service(), found), calls, leads=False)
    sight = asyncio.run(waiting.look())
    asyncio.run(waiting.tell(Findings(), sight))

    with pytest.raises(WorldError, match="not held"):
        asyncio.run(waiting.scale("decode", 3))
    assert calls.calls == []
