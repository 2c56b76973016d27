"""What the chart lets its Pods do in the cluster.  That each rule is needed is shown in e2e, by taking it away."""

from collections.abc import Iterator
from typing import Any

import pytest

from helm_chart import Helm, Manifest
from inferplane_api.schema.definitions import NAMES
from inferplane_operator.cluster.kinds import BUILT_IN, OPTIONAL, OURS
from inferplane_planner.cluster import kinds as planners
from inferplane_router.discovery import kinds as routers
from inferplane_runtime.kube.kinds import WatchedKind

MODES: list[dict[str, Any]] = [{}, {"watchNamespace": "team-a"}]


def of_kind(manifests: list[Manifest], *kinds: str) -> Iterator[Manifest]:
    return (manifest for manifest in manifests if manifest["kind"] in kinds)


def rules(manifests: list[Manifest], ending: str = "") -> list[dict[str, Any]]:
    roles = of_kind(manifests, "Role", "ClusterRole")
    return [rule for role in roles if ending in role["metadata"]["name"] for rule in role["rules"]]


def readable(found: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Return group and plural of what these rules let somebody list and watch."""
    return {
        (group, resource)
        for rule in found
        if {"list", "watch"} <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def hook(manifest: Manifest) -> str:
    return str(manifest["metadata"].get("annotations", {}).get("helm.sh/hook", ""))


@pytest.mark.parametrize("values", MODES, ids=["cluster", "namespace"])
def test_nothing_reads_secrets_and_nothing_may_do_everything(helm: Helm, values: dict[str, Any]) -> None:
    found = rules(helm.render(values))

    assert [rule["verbs"] for rule in found if "secrets" in rule["resources"]] == [["create"]]
    assert "*" not in {resource for rule in found for resource in rule["resources"]}
    assert "*" not in {word for rule in found for words in rule.values() for word in words}
    assert not {verb for rule in found for verb in rule["verbs"]} & {
        "impersonate",
        "escalate",
        "bind",
        "deletecollection",
    }


def test_each_component_reads_what_it_watches_and_nothing_else(helm: Helm) -> None:
    manifests = helm.render()
    watched = [kind for kind in vars(routers).values() if isinstance(kind, WatchedKind)]

    assert readable(rules(manifests, "operator")) == {
        (kind.group, kind.plural) for kind in (*OURS, *BUILT_IN, *OPTIONAL)
    }
    assert readable(rules(manifests, "gateway")) == {(kind.group, kind.plural) for kind in watched}


def test_the_operator_alone_makes_secrets(helm: Helm) -> None:
    manifests = helm.render({"planner": {"enabled": True}})

    assert [rule["verbs"] for rule in rules(manifests, "operator") if "secrets" in rule["resources"]] == [["create"]]


@pytest.mark.parametrize("values", MODES, ids=["cluster", "namespace"])
def test_a_gateway_only_reads(helm: Helm, values: dict[str, Any]) -> None:
    found = rules(helm.render(values), "gateway")

    assert found
    assert {verb for rule in found for verb in rule["verbs"]} == {"list", "watch"}


@pytest.mark.parametrize("values", MODES, ids=["cluster", "namespace"])
def test_a_planner_scales_pools_and_writes_statuses_and_nothing_else(helm: Helm, values: dict[str, Any]) -> None:
    found = rules(helm.render({**values, "planner": {"enabled": True}}), "plann")
    written = {
        (resource, verb)
        for rule in found
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in {"list", "watch"}
    }

    assert readable(found) == {
        (planners.INFERENCE_SERVICE.group, "inferenceservices"),
        (planners.PREFILL_POOL.group, "prefillpools"),
        (planners.DECODE_POOL.group, "decodepools"),
        (planners.endpoints_of("x").group, "endpointslices"),
    }
    assert written == {
        ("prefillpools/scale", "get"),
        ("prefillpools/scale", "patch"),
        ("decodepools/scale", "get"),
        ("decodepools/scale", "patch"),
        ("inferenceservices/status", "patch"),
        ("leases", "create"),
        ("leases", "get"),
        ("leases", "update"),
    }


def test_in_one_namespace_only_the_job_before_the_release_reaches_the_cluster(helm: Helm) -> None:
    manifests = helm.render({"watchNamespace": "team-a"})
    everywhere = list(of_kind(manifests, "ClusterRole", "ClusterRoleBinding"))
    roles = {role["metadata"]["name"]: role["metadata"]["namespace"] for role in of_kind(manifests, "Role")}

    assert {hook(manifest) for manifest in everywhere} == {"pre-install,pre-upgrade"}
    assert roles == {
        "inferplane-operator": "team-a",
        "inferplane-gateway": "team-a",
        "inferplane-lease": "inferplane-system",
    }


def test_bindings_name_accounts_of_the_release(helm: Helm) -> None:
    manifests = helm.render({"watchNamespace": "team-a"})
    accounts = {
        (each["metadata"]["name"], each["metadata"]["namespace"]) for each in of_kind(manifests, "ServiceAccount")
    }
    bound = {
        (subject["name"], subject["namespace"])
        for binding in of_kind(manifests, "RoleBinding", "ClusterRoleBinding")
        for subject in binding["subjects"]
    }

    assert bound == accounts


def test_the_job_may_touch_our_definitions_alone(helm: Helm) -> None:
    (rule,) = rules(helm.render(), "crds")

    assert set(rule["resourceNames"]) == {f"{names.plural}.inferplane.dev" for names in NAMES.values()}
    assert rule["resources"] == ["customresourcedefinitions"]
    assert rule["verbs"] == ["get", "create", "patch"]


def test_the_jobs_permissions_go_with_it(helm: Helm) -> None:
    hooks = [manifest for manifest in helm.render() if hook(manifest).startswith("pre-install")]

    assert [manifest["kind"] for manifest in hooks] == ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Job"]
    for manifest in hooks:
        policy = manifest["metadata"]["annotations"]["helm.sh/hook-delete-policy"]

        assert policy == "before-hook-creation,hook-succeeded"


def test_without_them_the_release_holds_no_definition_and_no_job(helm: Helm) -> None:
    kinds = {manifest["kind"] for manifest in helm.render({"crds": {"install": False}})}

    assert not kinds & {"Job", "CustomResourceDefinition"}


def test_permissions_can_be_left_to_others(helm: Helm) -> None:
    values = {"rbac": {"create": False}, "crds": {"install": False}}

    assert list(of_kind(helm.render(values), "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")) == []
