"""Builders of services and clusters."""

from collections.abc import Callable
from typing import Any

import pytest

from inferplane_operator.reconcile.testing import FakeCluster

Build = Callable[..., FakeCluster]


def manifest(name: str = "demo", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": {
            "model": {"name": "m"},
            "engine": {"type": "sim"},
            "prefill": {"replicas": 1, "maxReplicas": 8},
            "decode": {"replicas": 2, "maxReplicas": 8},
            **spec,
        },
    }


@pytest.fixture
def fresh() -> Build:
    """Return a builder of a cluster in which the service was just created."""

    def build(**spec: Any) -> FakeCluster:
        return FakeCluster(manifest(**spec))

    return build


@pytest.fixture
def running() -> Build:
    """Return a builder of a cluster in which the service serves."""

    def build(**spec: Any) -> FakeCluster:
        cluster = FakeCluster(manifest(**spec))
        assert cluster.settle() < 20
        return cluster

    return build
