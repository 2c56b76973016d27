"""Names as long as they may be and of any script, a name that two services want, and objects edited by hand."""

import json
from typing import Any

import pytest

from e2e.support.cluster import Cluster
from e2e.support.conversation import Chat
from e2e.support.release import Release
from e2e.support.services import Service, sim_service
from e2e.support.waiting import until
from e2e.test_the_first_token import first_token

LONGEST = "a" * 20 + "-" + "z" * 19
"""Forty characters: the longest name that may be."""


@pytest.fixture
def served(namespace: str) -> str:
    return f"模型/{namespace}/Straße-🦊"


@pytest.fixture
def edge(cluster: Cluster, release: Release, namespace: str, served: str) -> Service:  # noqa: ARG001
    """Give a service with the longest name there may be."""
    service = Service(cluster, namespace, LONGEST)
    service.apply(sim_service(LONGEST, served=served))
    service.wait_ready()
    return service


def test_a_name_of_any_script_is_served_an_older_claim_holds_it_and_an_edit_by_hand_is_undone(
    cluster: Cluster, release: Release, edge: Service, served: str
) -> None:
    until(lambda: first_token(Chat(release.url, served, tokens=4)), what="a first token by that name")

    younger = Service(cluster, edge.namespace, "younger")
    younger.apply(sim_service("younger", prefill=0, served=served))
    told = until(lambda: refused(younger), what="the word of who holds the name")
    assert served in told["message"]
    assert LONGEST in told["message"]

    grace_s = grace(edge)
    shorten_grace(edge)
    until(lambda: blamed(edge), what="an Event that says who changed it and what to change instead")
    until(lambda: grace(edge) == grace_s, what="the field as it was")
    until(edge.is_current, what="Ready")


def refused(service: Service) -> dict[str, Any]:
    found = service.condition("Ready")
    return found if found.get("reason") == "ServedNameConflict" else {}


def decoders(service: Service) -> dict[str, Any]:
    selector = f"inferplane.dev/service={service.name},inferplane.dev/role=decode"
    found = service.cluster.get("deployments", namespace=service.namespace, selector=selector)["items"]
    (deployment,) = (each for each in found if not each["metadata"].get("deletionTimestamp"))
    return dict(deployment)


def grace(service: Service) -> int:
    return int(decoders(service)["spec"]["template"]["spec"]["terminationGracePeriodSeconds"])


def shorten_grace(service: Service) -> None:
    name = decoders(service)["metadata"]["name"]
    patch = json.dumps({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}})
    service.cluster.kubectl("patch", "deployment", name, "-n", service.namespace, "--type=merge", "--patch", patch)


def blamed(service: Service) -> bool:
    events = service.cluster.get("events", namespace=service.namespace)["items"]
    said = [event["message"] for event in events if event["reason"] == "EditedByHand"]
    return any("was changed by kubectl-patch and is set back" in message for message in said)
