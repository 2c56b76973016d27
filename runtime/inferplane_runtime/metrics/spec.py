"""What a metric is, as a value: name, unit, labels, buckets and the sentence that explains it.

Problem: dashboards query names that no process exports, and two histograms of one quantity have different buckets.
Idea: specs are values in one catalogue, from which instruments, reference pages and dashboards are made.
Invariant: a name begins with `inferplane_`, a counter ends with `_total`, and a unit is the last word of its name.
"""

from dataclasses import dataclass
from enum import StrEnum

PREFIX = "inferplane_"


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Unit(StrEnum):
    NONE = ""
    SECONDS = "seconds"
    BYTES = "bytes"
    TOKENS = "tokens"
    RATIO = "ratio"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric."""

    name: str
    kind: Kind
    help: str
    unit: Unit = Unit.NONE
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        base = self.name.removesuffix("_total")
        if not self.name.startswith(PREFIX):
            raise ValueError(f"{self.name}: a metric's name begins with {PREFIX}")
        if self.name.endswith("_total") != (self.kind is Kind.COUNTER):
            raise ValueError(f"{self.name}: counters, and only they, end with _total")
        if self.unit and not base.endswith(f"_{self.unit}"):
            raise ValueError(f"{self.name}: the name ends with its unit, {self.unit}")
        if bool(self.buckets) != (self.kind is Kind.HISTOGRAM):
            raise ValueError(f"{self.name}: histograms, and only they, have buckets")
        if list(self.buckets) != sorted(set(self.buckets)):
            raise ValueError(f"{self.name}: buckets rise")


def counter(name: str, help: str, *, labels: tuple[str, ...] = (), unit: Unit = Unit.NONE) -> MetricSpec:  # noqa: A002 - the field's name
    return MetricSpec(PREFIX + name, Kind.COUNTER, help, unit, labels)


def gauge(name: str, help: str, *, labels: tuple[str, ...] = (), unit: Unit = Unit.NONE) -> MetricSpec:  # noqa: A002 - the field's name
    return MetricSpec(PREFIX + name, Kind.GAUGE, help, unit, labels)


def histogram(
    name: str,
    help: str,  # noqa: A002 - the field's name
    *,
    buckets: tuple[float, ...],
    labels: tuple[str, ...] = (),
    unit: Unit = Unit.SECONDS,
) -> MetricSpec:
    return MetricSpec(PREFIX + name, Kind.HISTOGRAM, help, unit, labels, buckets)
