"""Rules as the object that Prometheus' own operator reads.

A PrometheusRule belongs to the service whose objectives it watches: it goes when the service goes, and a change of the
objective changes it.
"""

from collections.abc import Sequence
from typing import Any, Final

from inferplane_api.v1alpha1 import InferenceService
from inferplane_observability.rule_values import RUNBOOKS, Group, rule_file

API_VERSION: Final = "monitoring.coreos.com/v1"
KIND: Final = "PrometheusRule"


def prometheus_rule(service: InferenceService, groups: Sequence[Group], runbooks: str = RUNBOOKS) -> dict[str, Any]:
    """Return the object for one service, without an owner."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": f"{service.metadata.name}-objectives",
            "namespace": service.metadata.namespace,
            "labels": {"inferplane.dev/service": service.metadata.name, "app.kubernetes.io/part-of": "inferplane"},
        },
        "spec": rule_file(groups, runbooks),
    }
