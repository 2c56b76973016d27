from dataclasses import replace
from typing import Any

import pytest

from inferplane_api.claims import Key
from inferplane_operator.reconcile.core import PureCore
from inferplane_operator.reconcile.values import Merge, ObservedKVStore, ObservedRoute, Outcome

CORE, NOW = PureCore(), "2026-01-01T00:00:00Z"


def resource(kind: str, name: str, spec: dict[str, Any], created: str = NOW) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "generation": 1, "creationTimestamp": created}
    return {"apiVersion": "inferplane.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def status(outcome: Outcome) -> dict[str, Any]:
    (merge,) = outcome.status
    assert isinstance(merge, Merge)
    return dict(merge.patch["status"])


STORE = resource("KVStore", "shared", {"tiers": [{"name": "ram", "medium": "dram", "capacity": "1Gi"}]})


def test_a_store_names_its_users() -> None:
    services = [
        resource("InferenceService", name, {"kvStore": {"name": store}} if store else {})
        for name, store in (("b", "shared"), ("a", "shared"), ("c", "other"), ("d", ""))
    ]

    assert status(CORE.kv_store(ObservedKVStore(STORE, services, NOW)))["usedBy"] == ["a", "b"]


def test_a_store_that_nobody_uses_any_more_says_so_once() -> None:
    used = {**STORE, "status": status(CORE.kv_store(ObservedKVStore(STORE, [], NOW))) | {"usedBy": ["a"]}}
    outcome = CORE.kv_store(ObservedKVStore(used, [], NOW))
    assert status(outcome)["usedBy"] == []

    free = {**STORE, "status": status(outcome)}
    assert CORE.kv_store(ObservedKVStore(free, [], NOW)).status == ()


ROUTE = resource("ModelRoute", "chat", {"targets": [{"servedName": "big", "weight": 9}, {"servedName": "small"}]})
HOLDERS = {"big": Key("default", "x"), "small": Key("default", "y")}


BASE = ObservedRoute(ROUTE, HOLDERS, now=NOW)


def said(observed: ObservedRoute = BASE) -> tuple[str, str, str]:
    (condition,) = status(CORE.route(observed))["conditions"]
    return condition["status"], condition["reason"], condition["message"]


def test_a_route_whose_targets_are_served_is_accepted() -> None:
    assert said()[:2] == ("True", "Accepted")


def test_an_unknown_target_is_named() -> None:
    found, reason, message = said(replace(BASE, holders={"big": Key("default", "x")}))

    assert (found, reason) == ("False", "UnknownTarget")
    assert "small" in message


def test_a_target_without_weight_may_be_gone() -> None:
    spec = {"targets": [{"servedName": "big", "weight": 1}, {"servedName": "gone", "weight": 0}]}

    assert said(replace(BASE, route=resource("ModelRoute", "chat", spec)))[0] == "True"


def test_an_alias_that_a_service_serves_is_taken() -> None:
    found, reason, message = said(replace(BASE, holders={**HOLDERS, "chat": Key("team", "z")}))

    assert (found, reason) == ("False", "AliasTaken")
    assert "team/z" in message


@pytest.mark.parametrize(("created", "taken"), [("2025-01-01T00:00:00Z", True), ("2027-01-01T00:00:00Z", False)])
def test_of_two_routes_the_older_has_the_alias(created: str, *, taken: bool) -> None:
    spec = {"aliases": ["chat"], "targets": [{"servedName": "big"}]}
    other = resource("ModelRoute", "other", spec, created)

    assert (said(replace(BASE, others=[other]))[1] == "AliasTaken") is taken


def test_an_invalid_route_is_said() -> None:
    assert said(replace(BASE, route=resource("ModelRoute", "chat", {"targets": []})))[1] == "InvalidSpec"


def test_nothing_is_said_twice() -> None:
    outcome = CORE.route(ObservedRoute(ROUTE, HOLDERS, now=NOW))
    again = CORE.route(ObservedRoute({**ROUTE, "status": status(outcome)}, HOLDERS, now="2026-02-01T00:00:00Z"))

    assert [event.reason for event in outcome.events] == ["Accepted"]
    assert (again.status, list(again.events)) == ((), [])
