"""Burn rates of one service's objectives: what is recorded, and when somebody is woken.

Problem: an alert on a percentile is either late or nervous, and its windows fit one objective only.
Idea: an objective of 99 % leaves a budget of 1 % that may miss.  The rate at which it burns is looked at over pairs of
a long and a short window, all scaled from the objective's own window W: the long one says that it matters, the short
one that it still goes on, so the alert ends soon after its cause.  A budget is meant to last 720 W: 60 hours for the
usual 5 minutes, 30 days for an hour.
Trade-off: a window must hold some scrapes, so a short W gets longer short windows than its share.
Invariant: an alert can always fire: no threshold asks for more misses than there are requests.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from inferplane_api.v1alpha1 import InferenceService
from inferplane_observability.rule_values import Alert, Group, Recording, Severity, duration
from inferplane_runtime.metrics.catalogue import gateway

MISSED: Final = "inferplane:slo_missed:ratio"
BUDGET_LEFT: Final = "inferplane:slo_budget_left:ratio"
BUDGET_WINDOWS: Final = 720.0
_FEW: Final = 10
"""Requests in the long window below which nobody is woken: one slow request at night is no trend."""
_MOST_MISSED: Final = 0.9
_SCRAPES: Final = 4
_TITLES: Final = {"ttft": "TTFT", "tpot": "TPOT"}


@dataclass(frozen=True, slots=True)
class Pace:
    """One pair of windows, in windows of the objective, and how many times too fast the budget may burn."""

    long: float
    short: float
    burn: float
    severity: Severity


PACES: Final = (
    Pace(1, 1 / 12, 14.4, Severity.PAGE),
    Pace(6, 1 / 2, 6, Severity.PAGE),
    Pace(24, 2, 3, Severity.TICKET),
    Pace(72, 6, 1, Severity.TICKET),
)


@dataclass(frozen=True, slots=True)
class Burn:
    """One service's objectives as rules."""

    namespace: str
    service: str
    percentile: float
    window_s: float
    scrape_s: float

    @property
    def budget(self) -> float:
        """Share of requests that may miss."""
        return 1.0 - self.percentile / 100.0

    def span_s(self, windows: float) -> float:
        return max(windows * self.window_s, _SCRAPES * self.scrape_s)

    def threshold(self, pace: Pace) -> float:
        """Share of misses at which a pace alerts."""
        return min(pace.burn * self.budget, max(_MOST_MISSED, self.budget))

    def recordings(self) -> Iterator[Recording]:
        for objective in _TITLES:
            for windows in sorted({each for pace in PACES for each in (pace.long, pace.short)} | {BUDGET_WINDOWS}):
                labels = {**self._labels(objective), "windows": f"{windows:.4g}"}
                yield Recording(MISSED, self._missed(objective, windows), labels)
            left = f"1 - {self._recorded(objective, BUDGET_WINDOWS)} / {self.budget:.6g}"
            yield Recording(BUDGET_LEFT, left, self._labels(objective))

    def alerts(self) -> Iterator[Alert]:
        for objective, title in _TITLES.items():
            for pace in PACES:
                yield self._alert(objective, title, pace)

    def _alert(self, objective: str, title: str, pace: Pace) -> Alert:
        limit = f"{self.threshold(pace):.6g}"
        long, short = (self._recorded(objective, windows) for windows in (pace.long, pace.short))
        heard = f"{self._sum(objective, self.span_s(pace.long), how='increase')} >= {_FEW}"
        return Alert(
            name=f"Inferplane{title}BudgetBurns",
            expr=f"{long} > {limit}\nand ignoring(windows) {short} > {limit}\nand on() ({heard})",
            severity=pace.severity,
            summary=f"{self.namespace}/{self.service} misses its {title} {pace.burn:g} times as often as its objective "
            f"allows, over {duration(self.span_s(pace.long))}.",
            runbook="budget-burns",
            labels={**self._labels(objective), "pace": f"{pace.burn:g}"},
        )

    def _labels(self, objective: str) -> dict[str, str]:
        return {"namespace": self.namespace, "service": self.service, "objective": objective}

    def _recorded(self, objective: str, windows: float) -> str:
        return MISSED + _selector({**self._labels(objective), "windows": f"{windows:.4g}"})

    def _missed(self, objective: str, windows: float) -> str:
        span = self.span_s(windows)
        # Without a miss there is no series of misses: that is 0 of what there is, not nothing.
        every = self._sum(objective, span)
        return f"({self._sum(objective, span, met='no')} or {every} * 0) / {every}"

    def _sum(self, objective: str, span_s: float, *, met: str = "", how: str = "rate") -> str:
        judged = {**self._labels(objective), **({"met": met} if met else {})}
        return f"sum({how}({gateway.SLO_REQUESTS.name}{_selector(judged)}[{duration(span_s)}]))"


def _selector(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def service_groups(service: InferenceService, *, scrape_s: float = 15.0) -> tuple[Group, ...]:
    """Return the rules of one service's objectives; `scrape_s` is the time between two scrapes."""
    slo, name = service.spec.slo, service.metadata.name
    burn = Burn(service.metadata.namespace, name, slo.percentile, slo.window_s, scrape_s)
    interval = min(30.0, max(1.0, slo.window_s / 20))
    prefix = f"inferplane-{service.metadata.namespace}-{name}"
    return (
        Group(f"{prefix}-budget", tuple(burn.recordings()), interval),
        Group(f"{prefix}-alerts", tuple(burn.alerts()), interval),
    )
