"""Every Pod of the chart fits the "restricted" Pod Security Standard, writes nowhere but in its own volumes, and can be
pulled from where the values say."""

from typing import Any

import pytest

from helm_chart import Helm, Manifest, pod_specs

DIGEST = "sha256:" + "0123456789abcdef" * 4


def containers(helm: Helm, values: dict[str, Any] | None = None) -> list[tuple[str, Manifest, Manifest]]:
    return [
        (name, spec, container) for name, spec in pod_specs(helm.render(values)) for container in spec["containers"]
    ]


def images(helm: Helm, values: dict[str, Any]) -> list[str]:
    return [container["image"] for _, _, container in containers(helm, values)]


def test_all_run_without_privileges(helm: Helm) -> None:
    found = containers(helm, {"planner": {"enabled": True}})

    assert len(found) == 5
    for _, spec, container in found:
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["runAsUser"] == 65532
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_nothing_of_the_host_is_used(helm: Helm) -> None:
    for _, spec in pod_specs(helm.render({"planner": {"enabled": True}})):
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        assert {kind for volume in spec.get("volumes", ()) for kind in volume} <= {"name", "emptyDir", "configMap"}


def test_every_container_says_what_it_needs_and_may_take(helm: Helm) -> None:
    for _, _, container in containers(helm, {"planner": {"enabled": True}}):
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]


def test_only_pods_that_ask_the_api_server_have_a_token(helm: Helm) -> None:
    tokens = {name: spec.get("automountServiceAccountToken") for name, spec in pod_specs(helm.render())}

    assert {name.partition("/")[0]: token for name, token in tokens.items()} == {
        "Deployment": True,
        "Job": None,  # its ServiceAccount says nothing else
        "Pod": False,
    }


def test_replicas_are_spread_over_zones_and_nodes(helm: Helm) -> None:
    for manifest in helm.render():
        if manifest["kind"] == "Deployment":
            spread = manifest["spec"]["template"]["spec"]["topologySpreadConstraints"]
            labels = manifest["spec"]["template"]["metadata"]["labels"]

            assert [each["topologyKey"] for each in spread] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
            assert all(each["labelSelector"]["matchLabels"].items() <= labels.items() for each in spread)


@pytest.mark.parametrize("registry", ["mirror.example:5000/team", "mirror.example:5000/team/"])
def test_one_value_moves_every_image_to_another_registry(helm: Helm, registry: str) -> None:
    assert {image.rpartition("/")[0] for image in images(helm, {"image": {"registry": registry}})} == {
        "mirror.example:5000/team/inferplane"
    }


def test_a_digest_takes_the_place_of_a_tag(helm: Helm) -> None:
    values = {component: {"image": {"digest": DIGEST}} for component in ("operator", "gateway", "worker")}
    arguments = [arg for _, _, container in containers(helm, values) for arg in container.get("args", ())]

    assert set(images(helm, values)) == {f"inferplane/operator@{DIGEST}", f"inferplane/router@{DIGEST}"}
    assert f"--agent-image=inferplane/worker@{DIGEST}" in arguments


def test_pull_secrets_reach_every_pod(helm: Helm) -> None:
    specs = [spec for _, spec in pod_specs(helm.render({"imagePullSecrets": ["one", "two"]}))]

    assert [spec["imagePullSecrets"] for spec in specs] == [[{"name": "one"}, {"name": "two"}]] * 4


def test_a_gateway_is_given_the_time_that_it_takes_to_drain(helm: Helm) -> None:
    specs = dict(pod_specs(helm.render({"gateway": {"drainTimeoutS": 120.5, "lameDuckS": 3}})))

    assert specs["Deployment/inferplane-gateway"]["terminationGracePeriodSeconds"] == 121 + 3 + 15
