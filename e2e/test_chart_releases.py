"""Releases of the chart beside each other, from an older version, under other names, for one namespace."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from e2e.support.cluster import Cluster
from e2e.support.conversation import Chat, Load
from e2e.support.release import CHART, Release
from e2e.support.rest import no_operator
from e2e.support.services import Service, sim_service
from e2e.support.waiting import until

DEFINITION = "inferenceservices.inferplane.dev"
OLDER = "0.0.1"


def definition(cluster: Cluster) -> dict[str, Any]:
    return cluster.get("customresourcedefinitions", DEFINITION)


def version_of(cluster: Cluster) -> str:
    return str(definition(cluster)["metadata"]["labels"]["app.kubernetes.io/version"])


def set_version(cluster: Cluster, version: str) -> None:
    cluster.kubectl("label", "crd", DEFINITION, f"app.kubernetes.io/version={version}", "--overwrite")


def older_chart(folder: Path) -> Path:
    """Return a copy of the chart with a lower version: until something is released, what is upgraded from."""
    chart = shutil.copytree(CHART, folder / "older")
    text = (chart / "Chart.yaml").read_text()
    (chart / "Chart.yaml").write_text(re.sub(r"(?m)^version: .*$", f"version: {OLDER}", text))
    return chart


def test_what_the_job_needed_is_gone_and_the_definitions_are_served(cluster: Cluster, release: Release) -> None:
    names = {
        line
        for kind in ("serviceaccounts", "jobs", "clusterroles", "clusterrolebindings")
        for line in cluster.kubectl("get", kind, "-n", release.namespace, "--output=name").split()
    }
    conditions = {each["type"]: each["status"] for each in definition(cluster)["status"]["conditions"]}

    assert [name for name in names if "-crds" in name] == []
    assert conditions["Established"] == "True"
    assert "meta.helm.sh/release-name" not in definition(cluster)["metadata"].get("annotations", {})


def test_the_chart_s_own_test_passes(cluster: Cluster, release: Release) -> None:
    said = cluster.access.helm("test", release.name, "--namespace", release.namespace, "--timeout", "60s")

    assert re.search(r"Phase:\s+Succeeded", said)


def test_an_upgrade_from_an_older_version_brings_the_definitions_up(
    cluster: Cluster, release: Release, namespace: str, tmp_path: Path
) -> None:
    release.install(older_chart(tmp_path))
    service = Service(cluster, namespace, "kept")
    service.apply(sim_service("kept", served=namespace))
    service.wait_ready()
    before = service.uids()
    set_version(cluster, OLDER)
    cluster.kubectl("patch", "crd", DEFINITION, "--type=json", "--patch", json.dumps(_LOSE_A_COLUMN))

    release.install()

    columns = [each["name"] for each in definition(cluster)["spec"]["versions"][0]["additionalPrinterColumns"]]
    assert version_of(cluster) != OLDER
    assert columns[0] == "Model"
    assert service.uids() == before
    assert service.restarts() == 0


_LOSE_A_COLUMN = [{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns/0"}]


def test_definitions_of_a_newer_release_are_left_alone(cluster: Cluster, release: Release) -> None:
    set_version(cluster, "99.0.0")
    try:
        release.install()

        assert version_of(cluster) == "99.0.0"
    finally:
        set_version(cluster, OLDER)
        release.install()

    assert version_of(cluster) not in {OLDER, "99.0.0"}


def test_a_second_release_of_any_name_serves_one_namespace(cluster: Cluster, release: Release, namespace: str) -> None:
    """Its roles reach its namespace alone, its name is one that Services cannot have, and nothing of it is left."""
    second = replace(release, name="7b.in-one", namespace=namespace)
    with no_operator(release):
        second.install(watchNamespace=namespace, gateway={"replicas": 1}, admissionPolicies={"enabled": False})
        try:
            service = Service(cluster, namespace, "own")
            service.apply(sim_service("own", prefill=0, served=namespace))
            service.wait_ready()
            with Load(Chat(second.url, namespace, tokens=8), streams=2) as load:
                until(lambda: load.ended >= 4, what="answers of the second release's gateway")
            user = second.account("operator")
            reach = [may(cluster, user, "list", "pods", namespace=each) for each in (namespace, "default")]
        finally:
            second.uninstall()

    def left() -> list[str]:
        listed = cluster.kubectl("get", "all,configmaps,roles,rolebindings", "-n", namespace, "--output=name").split()
        return [name for name in listed if "7b-in-one" in name]

    until(lambda: not left(), 60, what="the end of the second release's Pods")  # a gateway drains first

    assert load.wrong == []
    assert reach == [True, False]
    assert definition(cluster)


def may(cluster: Cluster, user: str, verb: str, resource: str, *, namespace: str) -> bool:
    asked = cluster.access.try_kubectl("auth", "can-i", verb, resource, "--as", user, "-n", namespace)
    return asked.stdout.strip() == "yes"
