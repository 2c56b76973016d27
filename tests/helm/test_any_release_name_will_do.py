"""Releases of any name live side by side: in one namespace, and of one name in two namespaces."""

import itertools

import pytest

from helm_chart import Helm, Manifest

NAMES = ["inferplane", "r", "7b", "a.b", "a-b", "x" * 53, "x" * 52 + "y", "1.2-3.four", "my-inferplane-prod"]


def identities(manifests: list[Manifest]) -> set[tuple[str, str, str]]:
    return {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])
        for each in manifests
        if each["metadata"].get("annotations", {}).get("helm.sh/hook", "") != "test"
    }


def named(manifests: list[Manifest], kind: str) -> list[str]:
    return [each["metadata"]["name"] for each in manifests if each["kind"] == kind]


@pytest.mark.parametrize("release", NAMES)
def test_the_service_has_a_name_that_dns_takes(helm: Helm, release: str) -> None:
    (service,) = named(helm.render(release=release), "Service")

    assert len(service) <= 63
    assert service.endswith("-gateway")
    assert service[0].isalpha()
    assert service.replace("-", "").isalnum()


@pytest.mark.parametrize("release", NAMES)
def test_the_operator_is_told_where_the_gateway_is(helm: Helm, release: str) -> None:
    manifests = helm.render(release=release)
    (service,) = named(manifests, "Service")
    arguments = [
        argument
        for each in manifests
        if each["kind"] == "Deployment"
        for argument in each["spec"]["template"]["spec"]["containers"][0]["args"]
    ]

    assert f"--gateway-url=http://{service}.inferplane-system.svc" in arguments


@pytest.mark.slow
def test_no_two_releases_share_an_object(helm: Helm) -> None:
    rendered = {
        (release, namespace): identities(helm.render(release=release, namespace=namespace))
        for release in NAMES
        for namespace in ("team", "team-a")
    }

    shared = [(one, other) for one, other in itertools.combinations(rendered, 2) if rendered[one] & rendered[other]]

    assert shared == []


def test_a_full_name_at_the_limit_is_shortened_and_stays_its_own(helm: Helm) -> None:
    one, other = (named(helm.render({"fullnameOverride": "f" * 62 + end}), "Deployment") for end in "ab")

    assert {len(name) for name in one + other} == {63}
    assert not set(one) & set(other)


def test_objects_go_to_the_namespace_that_is_named(helm: Helm) -> None:
    manifests = helm.render({"namespaceOverride": "elsewhere"})

    assert {each["metadata"].get("namespace", "elsewhere") for each in manifests} == {"elsewhere"}


def test_the_chart_s_name_can_be_another(helm: Helm) -> None:
    manifests = helm.render({"nameOverride": "llm"}, release="prod")

    assert named(manifests, "Deployment") == ["prod-llm-gateway", "prod-llm-operator"]
    assert {each["metadata"]["labels"]["app.kubernetes.io/name"] for each in manifests} == {"llm"}


@pytest.mark.parametrize("release", ["inferplane", "prod"])
def test_notes_show_commands_with_the_names_that_there_are(helm: Helm, release: str) -> None:
    notes = helm.notes(release=release)
    (service,) = named(helm.render(release=release), "Service")

    assert f"service/{service}" in notes
    assert f"deployment/{service}" in notes
    assert "kubectl -n default wait --for=condition=Ready inferenceservice.inferplane.dev/sim" in notes
