"""Services, adapters and routes claim names; a catalogue gives each to one of them."""

from typing import Any

import pytest

from inferplane_api.catalogue import CatalogueService
from inferplane_router.discovery.fake_cluster import FakeCluster, Object
from inferplane_router.discovery.testing import Found, Plant, adapter, route, service


def created(raw: Object, second: int) -> Object:
    return {**raw, "metadata": {**raw["metadata"], "creationTimestamp": f"2026-01-01T00:00:{second:02}Z"}}


def by_name(found: Found) -> dict[tuple[str, str], CatalogueService]:
    return {(entry.namespace, entry.name): entry for entry in found.catalogue.services}


def test_the_older_service_holds_a_name_and_the_other_keeps_the_rest() -> None:
    cluster = FakeCluster()
    cluster.put(created(service("young", "m", "own", namespace="a"), 2))
    cluster.put(created(service("old", "m", namespace="b"), 1))

    found = Found(cluster)

    assert {key: entry.served_names for key, entry in by_name(found).items()} == {
        ("a", "young"): ("own",),
        ("b", "old"): ("m",),
    }
    assert found.ignored["name_taken"] == 1


def test_a_service_that_holds_no_name_is_left_out_with_its_workers_and_they_are_no_strangers() -> None:
    cluster = FakeCluster()
    cluster.put(created(service("a", "m"), 1))
    pool = Plant(cluster).pool(cluster.put(created(service("b", "m", mode="aggregated"), 2)))
    Plant(cluster).pod(Plant(cluster).replica_set(pool), "x")

    found = Found(cluster)

    assert list(by_name(found)) == [("default", "a")]
    assert found.workers == {}
    assert found.ignored["unowned_pod"] == 0


def test_adapters_are_offered_by_their_service_unless_somebody_else_holds_the_name() -> None:
    cluster = FakeCluster()
    cluster.put(created(service("s", "m"), 1))
    cluster.put(created(adapter("mine", "s"), 2))
    cluster.put(created(adapter("taken", "s"), 4))
    cluster.put(created(adapter("stray", "nobody"), 2))
    cluster.put(created(service("t", "taken"), 3))

    found = by_name(Found(cluster))

    assert found["default", "s"].adapters == ("mine",)
    assert found["default", "t"].served_names == ("taken",)


def test_an_alias_is_the_older_routes_and_never_a_served_name() -> None:
    cluster = FakeCluster()
    cluster.put(created(service("s", "m"), 5))
    cluster.put(created(route("alias", "x", namespace="b"), 2))
    cluster.put(created(route("alias", "m", namespace="c"), 1))
    cluster.put(created(route("m", "x", namespace="a"), 0))

    found = Found(cluster)

    assert [(each.name, each.targets) for each in found.catalogue.routes] == [("alias", (("m", 1),))]
    assert found.ignored["name_taken"] == 2


BAD: list[Object] = [
    service("bad", "x", mode="sideways"),
    service("bad", "x", slo={"ttft": 3}),
    {**service("bad", "x"), "spec": None},
    {**adapter("bad", "s"), "spec": {"service": "s", "source": {}}},
    route("bad"),
]


@pytest.mark.parametrize(
    "raw",
    BAD,
    ids=["unknown mode", "number without unit", "no spec", "adapter without source", "route without targets"],
)
def test_what_cannot_be_carried_out_is_counted_and_breaks_nothing_else(raw: Object) -> None:
    cluster = FakeCluster()
    Plant(cluster).worker("good", "m")
    cluster.put(raw)

    found = Found(cluster)

    assert list(by_name(found)) == [("default", "good")]
    assert len(found.workers) == 1
    assert found.ignored["invalid"] == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"status": {"observedGeneration": "newer", "anything": {"new": 1}}},
        {"spec": {"model": {"name": "m", "quantum": True}, "engine": {"type": "sim"}, "newThing": {"deep": [1]}}},
    ],
    ids=["status", "spec"],
)
def test_fields_of_a_later_version_are_no_reason_to_drop_a_service(changes: dict[str, Any]) -> None:
    cluster = FakeCluster()
    cluster.put({**service("s", "m"), **changes})

    assert by_name(Found(cluster))["default", "s"].served_names == ("m",)


def test_a_status_that_changes_costs_no_validation_and_a_spec_that_changes_is_seen() -> None:
    cluster = FakeCluster()
    first = cluster.put(service("s", "m"))
    cluster.put({**first, "status": {"url": "http://x"}})
    assert cluster.put({**first, "spec": service("s", "n")["spec"]})["metadata"]["generation"] == 2

    assert by_name(Found(cluster))["default", "s"].served_names == ("n",)
