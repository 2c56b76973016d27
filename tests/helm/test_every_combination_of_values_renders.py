"""Values drawn over the whole schema, with any release name: helm renders them, and what it renders hangs together.

The same values go to a real API server in e2e.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings

from chart_draws import release_names, values
from helm_chart import Helm, Manifest, pod_specs
from inferplane_engine.timing import TimingProfile
from inferplane_operator.render.accelerators import read_accelerators
from inferplane_planner.act.records import decode
from inferplane_planner.config import PlannerConfig
from inferplane_router.config import RouterConfig
from inferplane_runtime.settings import from_mapping

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
DOTTED = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
CLUSTER_WIDE = {
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}


@pytest.mark.slow
@pytest.mark.timeout(300)
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
    phases=set(Phase) - {Phase.shrink},  # every example is a run of helm, and values are short enough to read
)
@given(chosen=values(), release=release_names())
def test_what_is_rendered_hangs_together(helm: Helm, chosen: dict[str, Any], release: str) -> None:
    manifests = helm.render(chosen, release=release)

    assert problems(manifests) == []


def problems(manifests: list[Manifest]) -> list[str]:
    return [
        *_names(manifests),
        *_labels(manifests),
        *_references(manifests),
        *_selectors(manifests),
        *_files(manifests),
    ]


def _names(manifests: list[Manifest]) -> Iterator[str]:
    counted = Counter((each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in manifests)
    yield from (f"{key} twice" for key, count in counted.items() if count > 1)
    for manifest in manifests:
        kind, metadata = manifest["kind"], manifest["metadata"]
        form = DOTTED if kind in CLUSTER_WIDE or kind == "ServiceAccount" else LABEL
        if not form.fullmatch(metadata["name"]):
            yield f"{kind}: bad name {metadata['name']}"
        if kind == "Service" and not metadata["name"][0].isalpha():
            yield f"a Service's name begins with a letter: {metadata['name']}"
        if ("namespace" in metadata) == (kind in CLUSTER_WIDE):
            yield f"{kind}/{metadata['name']}: namespace {metadata.get('namespace')}"


def _labels(manifests: list[Manifest]) -> Iterator[str]:
    for manifest in manifests:
        labels = manifest["metadata"]["labels"]
        yield from (
            f"{manifest['kind']}: bad label {value}" for value in labels.values() if not LABEL_VALUE.fullmatch(value)
        )
        if labels.get("app.kubernetes.io/part-of") != "inferplane":
            yield f"{manifest['kind']}: not labelled"


def _references(manifests: list[Manifest]) -> Iterator[str]:
    names = {
        kind: {each["metadata"]["name"] for each in manifests if each["kind"] == kind}
        for kind in {each["kind"] for each in manifests}
    }
    for name, spec in pod_specs(manifests):
        volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
        maps = {volume["configMap"]["name"] for volume in volumes.values() if "configMap" in volume}
        yield from (f"{name}: no ConfigMap {each}" for each in maps - names.get("ConfigMap", set()))
        for container in spec["containers"]:
            mounts = {mount["name"] for mount in container.get("volumeMounts", ())}
            yield from (f"{name}: no volume {each}" for each in mounts - set(volumes))
    for manifest in manifests:
        if manifest["kind"].endswith("RoleBinding"):
            reference = manifest["roleRef"]
            if reference["name"] not in names.get(reference["kind"], set()):
                yield f"{manifest['metadata']['name']}: no {reference['kind']} {reference['name']}"


def _selectors(manifests: list[Manifest]) -> Iterator[str]:
    templates = [each["spec"]["template"]["metadata"]["labels"] for each in manifests if each["kind"] == "Deployment"]
    for manifest in manifests:
        kind, spec = manifest["kind"], manifest.get("spec", {})
        if kind == "Deployment":
            chosen = spec["selector"]["matchLabels"]
        elif kind == "Service":
            chosen = spec["selector"]
        elif kind == "PodDisruptionBudget":
            chosen = spec["selector"]["matchLabels"]
        else:
            continue
        if sum(chosen.items() <= labels.items() for labels in templates) != 1:
            yield f"{kind}/{manifest['metadata']['name']} does not select the Pods of exactly one Deployment"


def _files(manifests: list[Manifest]) -> Iterator[str]:
    """The programs take the files that the chart writes for them."""
    for manifest in manifests:
        data: dict[str, str] = manifest.get("data", {}) if manifest["kind"] == "ConfigMap" else {}
        if "router.yaml" in data:
            from_mapping(RouterConfig, yaml.safe_load(data["router.yaml"]))
        if "planner.yaml" in data:
            config = from_mapping(PlannerConfig, yaml.safe_load(data["planner.yaml"]))
            files = {calibration.file.name for calibration in config.calibrations}
            yield from (f"no calibration {name}" for name in files - set(data))
        for name, text in data.items():
            if name.startswith("calibration-"):
                decode(TimingProfile, json.loads(text))
        if "accelerators.json" in data:
            read_accelerators(data["accelerators.json"])
