"""Pods for devices, claims, several nodes and shared caches, which no node here could run, are taken by an API server.

Only their form is shown by that: fields that do not exist, or do not belong together, are refused.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.support.cluster import Cluster
from inferplane_api.v1alpha1 import InferenceService
from inferplane_api.v1alpha1.manifests import parse_resource
from inferplane_operator.render import render_service
from inferplane_operator.render.multi_node import follower_template

NAMESPACE = "rendered-hardware"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
HUB = {"name": "m", "source": {"hf": "org/m"}, "secretRef": "hub"}
SERVICES: dict[str, dict[str, Any]] = {
    "mirror": {"model": {**HUB, "endpoint": "https://mirror.example", "caBundle": {"configMapName": "ca"}}},
    "claim": {"model": {**HUB, "cache": {"claimName": "weights"}}},
    "node": {"model": {**HUB, "cache": {"hostPath": "/srv/weights"}, "caBundle": {"secretName": "ca"}}},
    "slice": {"decode": {"accelerator": "h100-1g.10gb"}},
    "pair": {"prefill": {"accelerator": "h100", "parallelism": {"tensor": 4}}, "decode": {"accelerator": "h100"}},
    "devices": {
        "decode": {
            "parallelism": {"tensor": 2},
            "resources": {
                "claims": [
                    {"name": "gpu", "deviceClassName": "gpu.example.com", "selectors": ["device.driver == 'x'"]},
                    {"name": "nic", "resourceClaimTemplateName": "nic"},
                ]
            },
        }
    },
    "nodes": {"decode": {"accelerator": "h100", "parallelism": {"tensor": 16}}},
    "sglang": {"engine": {"type": "sglang"}, "prefill": {"accelerator": "h100"}, "decode": {"accelerator": "h100"}},
}


def manifests(name: str) -> list[dict[str, Any]]:
    spec = {"model": {"name": "m", "source": {"oci": "models/m:1"}}, "engine": {"type": "vllm"}, **SERVICES[name]}
    service = parse_resource(
        {
            "apiVersion": "inferplane.dev/v1alpha1",
            "kind": "InferenceService",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": spec,
        }
    )
    assert isinstance(service, InferenceService)
    found: list[dict[str, Any]] = []
    for pool in render_service(service, model_revision=COMMIT).pools:
        templates = [pool.pod_template, *([follower_template(pool.pod_template)] if pool.nodes > 1 else [])]
        found += [*pool.claim_templates, *(_deployment(pool.name, at, each) for at, each in enumerate(templates))]
    return found


def _deployment(name: str, at: int, template: dict[str, Any]) -> dict[str, Any]:
    labels = template["metadata"]["labels"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"{name}-{at}", "namespace": NAMESPACE},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


@pytest.fixture(scope="module")
def room(cluster: Cluster) -> Iterator[Cluster]:
    """Give a cluster with a namespace for dry runs."""
    cluster.kubectl("create", "namespace", NAMESPACE)
    yield cluster
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.mark.parametrize("name", SERVICES)
def test_what_is_rendered_has_a_form_that_an_api_server_takes(room: Cluster, name: str) -> None:
    document = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests(name)})
    arguments = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename", "-")
    done = room.access.try_kubectl(*arguments, stdin=document)

    assert done.returncode == 0, done.stderr
