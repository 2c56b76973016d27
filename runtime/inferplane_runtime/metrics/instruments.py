"""Counting that costs next to nothing on the hot path.

Problem: the client library takes a lock and walks all buckets for every observation, a microsecond and more each time.
Idea: cells without locks (every process counts in its loop's thread), bound once to their label values.
The library knows them through its collector interface; on a page they write themselves, several times as fast: a
hundred workers and fifty tenants are ten thousand lines, and the loop that writes them serves nobody meanwhile.
Trade-off: one thread counts; a reader in another thread may see a histogram between two increments.
"""

from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from inferplane_runtime.metrics.page_text import LabelText, head, number
from inferplane_runtime.metrics.spec import Kind, MetricSpec


class Cell:
    """The value of a counter or gauge for one set of label values."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, by: float = 1.0) -> None:
        self.value += by

    def dec(self, by: float = 1.0) -> None:
        self.value -= by

    def set(self, value: float) -> None:
        self.value = value


class Distribution:
    """The counts of a histogram for one set of label values."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def cumulative(self) -> list[tuple[str, float]]:
        total, buckets = 0, list[tuple[str, float]]()
        for bound, count in zip((*self._bounds, float("inf")), self.counts, strict=True):
            total += count
            buckets.append(("+Inf" if bound == float("inf") else repr(bound), total))
        return buckets


class Cells(Collector):
    """A counter or gauge: one cell for each set of label values."""

    def __init__(self, spec: MetricSpec) -> None:
        self.spec = spec
        self._labels = LabelText(spec.labels)
        self._cells: dict[tuple[str, ...], Cell] = {}

    def labels(self, *values: str) -> Cell:
        """Return the cell for these label values, in the spec's order; keep it where it is used often."""
        cell = self._cells.get(values)
        if cell is None:
            _check(self.spec, values)
            cell = self._cells[values] = Cell()
        return cell

    def forget(self, *values: str) -> None:
        """Drop a cell: what it counted is no more (a worker has gone)."""
        self._cells.pop(values, None)

    def clear(self) -> None:
        self._cells.clear()

    def collect(self) -> Iterator[Metric]:
        kind = CounterMetricFamily if self.spec.kind is Kind.COUNTER else GaugeMetricFamily
        family = kind(self.spec.name, self.spec.help, labels=self.spec.labels)
        for values, cell in list(self._cells.items()):
            family.add_metric(values, cell.value)
        yield family

    def lines(self) -> Iterator[str]:
        """Write the metric as a page has it."""
        name, labels = self.spec.name, self._labels
        yield head(self.spec)
        for values, cell in self._cells.items():
            yield f"{name}{labels.of(values)} {number(cell.value)}\n"


class Distributions(Collector):
    """A histogram: one distribution for each set of label values."""

    def __init__(self, spec: MetricSpec) -> None:
        self.spec = spec
        self._labels = LabelText((*spec.labels, "le"))
        self._plain = LabelText(spec.labels)
        self._distributions: dict[tuple[str, ...], Distribution] = {}

    def labels(self, *values: str) -> Distribution:
        distribution = self._distributions.get(values)
        if distribution is None:
            _check(self.spec, values)
            distribution = self._distributions[values] = Distribution(self.spec.buckets)
        return distribution

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self.spec.name, self.spec.help, labels=self.spec.labels)
        for values, distribution in list(self._distributions.items()):
            family.add_metric(values, distribution.cumulative(), distribution.sum)
        yield family

    def lines(self) -> Iterator[str]:
        """Write the metric as a page has it."""
        name = self.spec.name
        yield head(self.spec)
        for values, distribution in self._distributions.items():
            total = 0.0
            for bound, total in distribution.cumulative():
                yield f"{name}_bucket{self._labels.of((*values, bound))} {number(total)}\n"
            plain = self._plain.of(values)
            yield f"{name}_count{plain} {number(total)}\n{name}_sum{plain} {number(distribution.sum)}\n"


class PageRegistry(CollectorRegistry):
    """A registry that knows which of its collectors write themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.ours: list[Cells | Distributions] = []
        self.others = CollectorRegistry()

    def register(self, collector: Collector) -> None:
        """Add a collector.  Raises ValueError for a name that is there."""
        super().register(collector)
        if isinstance(collector, (Cells, Distributions)):
            self.ours.append(collector)
        else:
            self.others.register(collector)


class Instruments:
    """Makes instruments from specs and registers them."""

    def __init__(self) -> None:
        self.registry = PageRegistry()

    def cells(self, spec: MetricSpec) -> Cells:
        """Make a counter or gauge; without labels it shows 0 from the start."""
        if spec.kind is Kind.HISTOGRAM:
            raise ValueError(f"{spec.name} is a histogram")
        cells = Cells(spec)
        self.registry.register(cells)
        if not spec.labels:
            cells.labels()
        return cells

    def distributions(self, spec: MetricSpec) -> Distributions:
        """Make a histogram."""
        if spec.kind is not Kind.HISTOGRAM:
            raise ValueError(f"{spec.name} is no histogram")
        distributions = Distributions(spec)
        self.registry.register(distributions)
        if not spec.labels:
            distributions.labels()
        return distributions


def _check(spec: MetricSpec, values: tuple[str, ...]) -> None:
    if len(values) != len(spec.labels):
        raise ValueError(f"{spec.name} takes the labels {spec.labels}, got {values}")
