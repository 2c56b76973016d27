"""The metrics of several processes as those of one router.

Problem: each process counts what it did, and several know the same of a worker.  Idea: what they count is added up,
but for a few metrics that say the same in each: those are the index process's, or the least or the greatest value.
Trade-off: memory that the processes share is counted in each of them.
Invariant: one process's metrics stay as they are.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from functools import reduce
from typing import Any, Final

import orjson
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from inferplane_runtime.metrics.catalogue import gateway as gateway_names
from inferplane_runtime.metrics.catalogue import router as names


class Rule(Enum):
    SUM = "sum"
    LEAD = "lead"
    """As the index process has it."""
    OTHERS_LEAST = "others least"
    """The least of the gateways'."""
    LEAST = "least"
    GREATEST = "greatest"


RULES: Final = {
    names.WORKERS.name: Rule.LEAD,
    names.WORKER_IN_FLIGHT.name: Rule.LEAD,
    names.WORKER_UNCACHED.name: Rule.LEAD,
    names.WORKER_BLOCKS.name: Rule.LEAD,
    names.TRANSPORT_DEGRADED.name: Rule.LEAD,
    names.WORKER_EXACT.name: Rule.OTHERS_LEAST,
    names.CATALOGUE_GENERATION.name: Rule.LEAST,
    names.CATALOGUE_IGNORED.name: Rule.LEAD,
    names.LOOP_DELAY.name: Rule.GREATEST,
    names.OBJECTIVE.name: Rule.GREATEST,
    names.OBJECTIVE_RATIO.name: Rule.GREATEST,
    names.DEVICES.name: Rule.LEAD,
    gateway_names.DRAINING.name: Rule.GREATEST,
    "process_start_time_seconds": Rule.LEAST,
}
"""What is not in here is added up."""

_Key = tuple[str, tuple[tuple[str, str], ...]]
_Samples = dict[_Key, float]


class Counted:
    """One metric of one process."""

    __slots__ = ("help", "kind", "name", "samples")

    def __init__(self, name: str, help_: str, kind: str, samples: _Samples) -> None:
        self.name = name
        self.help = help_
        self.kind = kind
        self.samples = samples


def counted(registry: CollectorRegistry) -> list[Counted]:
    """Read what a registry holds."""
    return [_of(metric) for metric in registry.collect()]


def written(metrics: Iterable[Counted]) -> bytes:
    rows = [[each.name, each.help, each.kind, list(each.samples.items())] for each in metrics]
    return orjson.dumps(rows)


def read(body: bytes) -> list[Counted]:
    rows: list[list[Any]] = orjson.loads(body)
    return [
        Counted(name, help_, kind, dict(_sample(sample) for sample in samples)) for name, help_, kind, samples in rows
    ]


def merge(lead: Sequence[Counted], others: Sequence[Sequence[Counted]]) -> list[Counted]:
    """Make one list of metrics of the index process's and the gateways'."""
    found: dict[str, list[Counted | None]] = {}
    for number, process in enumerate((lead, *others)):
        for metric in process:
            found.setdefault(metric.name, [None] * (len(others) + 1))[number] = metric
    return [_merged(name, processes) for name, processes in found.items()]


class Merged(Collector):
    """What `merge` gave, to be rendered."""

    def __init__(self, metrics: Iterable[Counted]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        for each in self._metrics:
            metric = Metric(each.name, each.help, each.kind)
            for (name, labels), value in each.samples.items():
                metric.add_sample(name, dict(labels), value)
            yield metric


def _of(metric: Metric) -> Counted:
    samples = {(each.name, tuple(each.labels.items())): each.value for each in metric.samples}
    return Counted(metric.name, metric.documentation, metric.type, samples)


def _sample(row: Any) -> tuple[_Key, float]:
    (name, labels), value = row
    return (name, tuple((label, text) for label, text in labels)), value


def _merged(name: str, processes: Sequence[Counted | None]) -> Counted:
    lead, *others = processes
    there = [each for each in processes if each is not None]
    first = there[0]
    rule = _rule_of(first)
    if rule is Rule.LEAD:
        return lead or Counted(name, first.help, first.kind, {})
    if rule is Rule.OTHERS_LEAST and any(others):
        there = [each for each in others if each is not None]
    samples = reduce(lambda left, right: _combined(left, right, rule), (each.samples for each in there))
    return Counted(name, first.help, first.kind, samples)


def _rule_of(metric: Counted) -> Rule:
    return RULES.get(metric.name, Rule.SUM)


def _combined(left: _Samples, right: _Samples, rule: Rule) -> _Samples:
    combined = dict(left)
    for key, value in right.items():
        known = combined.get(key)
        if known is None:
            combined[key] = value
        elif rule is Rule.SUM:
            combined[key] = known + value
        else:
            combined[key] = max(known, value) if rule is Rule.GREATEST else min(known, value)
    return combined
