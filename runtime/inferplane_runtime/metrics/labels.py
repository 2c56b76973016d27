"""What metrics are labelled with, and how many values each label can have.

Problem: one label with a value per request or per client fills a Prometheus until it falls over.
Idea: a label is declared once, with a bound and the reason why it holds; a metric's bound is their product.
Trade-off: bounds of what users decide (services, pools, workers, tenants) are those of a stated fleet, not laws.
Invariant: no label holds text of a request: priorities are three bands, causes and outcomes are words of ours.
"""

from dataclasses import dataclass
from math import prod
from typing import Final

from inferplane_runtime.metrics.spec import Kind, MetricSpec


@dataclass(frozen=True, slots=True)
class Fleet:
    """What a bound is stated for."""

    services: int = 10
    """Each by its namespace and name."""
    pools: int = 20
    workers: int = 100
    tenants: int = 50


@dataclass(frozen=True, slots=True)
class Label:
    """One label."""

    name: str
    meaning: str
    most: int = 0
    """Values at most; 0: as many as the fleet has of `counted`."""
    counted: str = ""

    def bound(self, fleet: Fleet) -> int:
        """Return how many values one process can show."""
        if not self.counted:
            return self.most
        found: int = getattr(fleet, self.counted)
        return found


LABELS: Final[dict[str, Label]] = {
    label.name: label
    for label in (
        Label("accelerator", "class of accelerator, as pools name it; empty without one", 8),
        Label("cause", "why, one of a list in the code", 10),
        Label("closed", "yes or no: whether a replay closed the gap", 2),
        Label("condition", "type of a condition in a service's status", 6),
        Label("difference", "missing or stale", 2),
        Label("exact", "yes or no: whether a prediction was right to the token", 2),
        Label("field", "name of a field or header that clients may not send, from a list in the code", 20),
        Label("health", "what the router thinks of a worker", 6),
        Label("kind", "kind of a message, an event or a resource", 16),
        Label("met", "yes or no: whether the objective was met", 2),
        Label("move", "what a plan does: stay, up, down, shift and the like", 8),
        Label("namespace", "namespace of a service; empty where `service` is", counted="services"),
        Label("objective", "ttft, tpot, or both", 3),
        Label("outcome", "how something ended, one of a list in the code", 12),
        Label("part", "which of a router's processes: index or gateway", 2),
        Label("plane", "where KV blocks are: a tier, or which of them can be resumed from", 5),
        Label("pool", "name of a pool", counted="pools"),
        Label("priority", "low (below 0), normal (0) or high, however many numbers clients use", 3),
        Label("rank", "data-parallel rank of an engine", 16),
        Label("reason", "why, one of a list in the code", 10),
        Label("role", "prefill or decode; a plan has lent workers as well", 3),
        Label("route", "chat, completions, or any other path", 8),
        Label("service", "name of an InferenceService; empty where a request named none", counted="services"),
        Label("side", "which half of a hand-off: prefill or decode", 2),
        Label("state", "state of a stream", 2),
        Label("status", "an HTTP status that is given, or the status of a condition", 20),
        Label("store", "the KV store beside a worker, by a short name that it keeps over restarts", 1),
        Label("tenant", "who asks; empty until tenants are told apart", counted="tenants"),
        Label("tier", "where a KV store has blocks: dram, ssd or redis", 3),
        Label("transport", "how KV moves: rdma, tcp, shm, memory", 6),
        Label("verb", "what is asked of an API server", 5),
        Label("verdict", "what a plan means for the objective", 6),
        Label("worker", "a worker, as NAMESPACE/POD", counted="workers"),
    )
}

# Labels that follow from the others: a worker has one transport at a time, a pool one role, and a service is counted
# with its namespace.
_FOLLOWS: Final[dict[str, frozenset[str]]] = {
    "worker": frozenset({"cause", "transport"}),
    "service": frozenset({"namespace"}),
    "pool": frozenset({"role", "accelerator", "service", "namespace"}),
    "condition": frozenset({"status"}),
}


def series(spec: MetricSpec, fleet: Fleet | None = None) -> int:
    """Return how many series one process shows of a metric at most."""
    implied = frozenset[str]().union(*(_FOLLOWS.get(name, frozenset()) for name in spec.labels))
    combinations = prod(LABELS[name].bound(fleet or Fleet()) for name in spec.labels if name not in implied)
    return combinations * (len(spec.buckets) + 3 if spec.kind is Kind.HISTOGRAM else 1)
