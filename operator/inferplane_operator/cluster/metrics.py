"""What the operator counts, under the names of the catalogue."""

from collections.abc import Callable, Iterable
from enum import StrEnum

from inferplane_operator.cluster.condition_meters import ConditionMeters
from inferplane_operator.cluster.stored import Stored
from inferplane_runtime.http.api import Handler
from inferplane_runtime.metrics.catalogue import kube_operator as catalogue
from inferplane_runtime.metrics.exposition import exposition_handler, register_process_metrics
from inferplane_runtime.metrics.instruments import Instruments


class StepOutcome(StrEnum):
    """How looking at one object ended."""

    DONE = "done"
    FAILED = "failed"  # the API server said no, or nothing
    TERMINATING = "terminating"  # its namespace is being deleted
    NOT_LEADING = "not_leading"
    DEFECT = "defect"
    CANCELLED = "cancelled"


class WriteOutcome(StrEnum):
    """What became of one wanted write."""

    WRITTEN = "written"
    NEEDLESS = "needless"  # what is there is what is wanted
    FAILED = "failed"


class OperatorMetrics:
    """One operator's instruments."""

    def __init__(self) -> None:
        make = Instruments()
        register_process_metrics(make.registry)
        self._registry = make.registry
        self._steps = make.cells(catalogue.RECONCILES)
        self._durations = make.distributions(catalogue.RECONCILE_DURATION)
        self._depth = make.cells(catalogue.QUEUE_DEPTH).labels()
        self._writes = make.cells(catalogue.WRITES)
        self._leading = make.cells(catalogue.LEADING).labels()
        self._objects = make.cells(catalogue.WATCHED_OBJECTS).labels()
        self._event_age = make.cells(catalogue.WATCH_AGE)
        self._drift = make.cells(catalogue.AUDIT_DIFFERENCES)
        self._conditions = ConditionMeters(make)
        self._restarts = make.cells(catalogue.WATCH_RESTARTS).labels()

    def handler(self, refresh: Callable[[], None]) -> Handler:
        """Serve the page; `refresh` sets what is only known when asked for."""
        return exposition_handler(self._registry, refresh=refresh)

    def stepped(self, kind: str, outcome: StepOutcome, duration_s: float) -> None:
        self._steps.labels(kind, outcome.value).inc()
        self._durations.labels(kind).observe(duration_s)

    def wrote(self, verb: str, kind: str, outcome: WriteOutcome) -> None:
        self._writes.labels(verb, kind, outcome.value).inc()

    def leading(self, *, leads: bool) -> None:
        self._leading.set(leads)

    def audited(self, kind: str, *, missing: int, stale: int) -> None:
        self._drift.labels(kind, "missing").inc(missing)
        self._drift.labels(kind, "stale").inc(stale)

    def watches_restarted(self) -> None:
        self._restarts.inc()

    def services(self, stored: Iterable[Stored]) -> None:
        self._conditions.refresh(stored)

    def picture(self, *, depth: int, objects: int, event_ages_s: dict[str, float]) -> None:
        self._depth.set(depth)
        self._objects.set(objects)
        for kind, age in event_ages_s.items():
            self._event_age.labels(kind).set(age)
