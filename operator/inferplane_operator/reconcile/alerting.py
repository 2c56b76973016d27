"""The alerts of one service's objectives, as an object that Prometheus' own operator reads.

Problem: alerts that somebody prints and applies by hand stay as they were when the objective changes, or the service
goes.  Idea: the service owns them, and each round says what they are.  Trade-off: a Prometheus whose operator refuses
a rule is told of as bookkeeping: a service does not stop for its alerts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from inferplane_api.v1alpha1 import InferenceService
from inferplane_observability.burn import service_groups
from inferplane_observability.prometheus_rule import prometheus_rule
from inferplane_observability.rule_values import RUNBOOKS
from inferplane_operator.reconcile.values import Apply, Manifest, Write
from inferplane_operator.render.objects import controller_reference


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """How the release wants the rules of services."""

    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """By which a Prometheus finds its rules."""
    scrape_s: float = 15.0
    """Time between two scrapes; no window is shorter than four of them."""
    runbooks: str = RUNBOOKS
    """Where alerts say that their runbooks are: a folder or a URL."""


def rule_writes(service: InferenceService, raw: Manifest, settings: RuleSettings) -> tuple[Write, ...]:
    """Return the writes that make a service's alerts what its objective asks for."""
    made = prometheus_rule(service, service_groups(service, scrape_s=settings.scrape_s), settings.runbooks)
    metadata = {
        **made["metadata"],
        "labels": {**settings.labels, **made["metadata"]["labels"]},
        "ownerReferences": [controller_reference(raw)],
    }
    return (Apply({**made, "metadata": metadata}, bookkeeping=True),)
