"""PromQL from specs: sums of rates, quantiles and means, in one form each.

`$__rate_interval` is Grafana's own: wide enough for four scrapes.  A panel of what should not happen shows 0, not
nothing: `none_is_zero`.
"""

from typing import Final

from inferplane_runtime.metrics.spec import Kind, MetricSpec

RATE: Final = "$__rate_interval"
OF_SERVICE: Final = 'namespace=~"$namespace",service=~"$service"'
NAMED: Final = "{{namespace}}/{{service}}"
"""A service in a legend."""


def chosen(*matchers: str) -> str:
    return "{" + ",".join(matchers) + "}" if matchers else ""


def rate(spec: MetricSpec, by: str = "", *matchers: str) -> str:
    """Return the sum of a counter's rates, or of a histogram's counts."""
    name = f"{spec.name}_count" if spec.kind is Kind.HISTOGRAM else spec.name
    return f"sum{_by(by)} (rate({name}{chosen(*matchers)}[{RATE}]))"


def total(spec: MetricSpec, by: str = "", *matchers: str) -> str:
    """Return the sum of a gauge over processes."""
    return f"sum{_by(by)} ({spec.name}{chosen(*matchers)})"


def largest(spec: MetricSpec, by: str = "", *matchers: str) -> str:
    """Return the largest of what several processes say of one thing."""
    return f"max{_by(by)} ({spec.name}{chosen(*matchers)})"


def quantile(share: float, spec: MetricSpec, by: str = "", *matchers: str) -> str:
    """Return a quantile of a histogram, over all processes."""
    inner = f"le, {by}" if by else "le"
    return f"histogram_quantile({share:g}, sum by ({inner}) (rate({spec.name}_bucket{chosen(*matchers)}[{RATE}])))"


def mean(spec: MetricSpec, by: str = "", *matchers: str) -> str:
    """Return the mean of a histogram's observations."""
    ends = (f"sum{_by(by)} (rate({spec.name}_{end}{chosen(*matchers)}[{RATE}]))" for end in ("sum", "count"))
    return " / ".join(ends)


def none_is_zero(expr: str) -> str:
    return f"{expr} or vector(0)"


def _by(labels: str) -> str:
    return f" by ({labels})" if labels else ""
