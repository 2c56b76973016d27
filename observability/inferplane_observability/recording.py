"""What is derived from several metrics, recorded under one name each: for dashboards, alerts and whoever asks.

Problem: the same sum over routers, agents and planner is written anew in every panel, each time a little differently.
Idea: one rule a quantity; a name says level, quantity and how it was made, as Prometheus' own guide has it.
Trade-off: agents know nothing of services, so `namespace`, `service`, `pool` and `role` of their series are labels of
the target that the scrape configuration has to give.
"""

from typing import Final

from inferplane_observability.rule_values import SERVICE, Group, Recording
from inferplane_runtime.metrics.catalogue import agent, gateway, planner, router

INTERVAL_S: Final = 30.0
"""Fixed, since hours of devices are counted in evaluations."""
_JUDGED: Final = gateway.SLO_REQUESTS.name


def _rate(name: str, by: str, chosen: str = "") -> str:
    selector = f"{{{chosen}}}" if chosen else ""
    return f"sum by ({by}) (rate({name}{selector}[5m]))"


_MET: Final = 'met="yes"'
_FAILED: Final = 'status=~"5.."'
_MET_BY: Final = f"{SERVICE}, objective"
RULES: Final = (
    Recording(
        "inferplane:slo_attainment:ratio_rate5m",
        f"({_rate(_JUDGED, _MET_BY, _MET)} or {_rate(_JUDGED, _MET_BY)} * 0) / {_rate(_JUDGED, _MET_BY)}",
    ),
    Recording("inferplane:goodput:rate5m", _rate(_JUDGED, SERVICE, 'objective="both",met="yes"')),
    Recording(
        "inferplane:goodput_by_tenant:rate5m",
        _rate(_JUDGED, f"{SERVICE}, tenant, priority", 'objective="both",met="yes"'),
    ),
    Recording(
        "inferplane:requests_failed:ratio_rate5m",
        f"({_rate(gateway.RESPONSES.name, SERVICE, _FAILED)} or {_rate(gateway.RESPONSES.name, SERVICE)} "
        f"* 0) / {_rate(gateway.RESPONSES.name, SERVICE)}",
    ),
    Recording("inferplane:output_tokens:rate5m", _rate(agent.OUTPUT_TOKENS.name, SERVICE)),
    Recording("inferplane:prompt_tokens:rate5m", _rate(agent.PROMPT_TOKENS.name, SERVICE)),
    Recording(
        "inferplane:prefix_hit:ratio_rate5m",
        f"{_rate(agent.CACHED_TOKENS.name, SERVICE)} / {_rate(agent.PROMPT_TOKENS.name, SERVICE)}",
    ),
    Recording(
        "inferplane:prefix_prediction_error:ratio_rate5m",
        f"({_rate(router.OBSERVED_CACHED.name, SERVICE)} - {_rate(router.PREDICTED_CACHED.name, SERVICE)}) "
        f"/ (({_rate(router.OBSERVED_CACHED.name, SERVICE)} > 0) "
        f"or {_rate(router.PREDICTED_CACHED.name, SERVICE)})",
    ),
    # Every router shows the same workers: the largest number is the truth of the one that knows most.
    Recording("inferplane:devices:count", f"max by ({SERVICE}, pool, role, accelerator) ({router.DEVICES.name})"),
    Recording(
        "inferplane:device_hours:increase1d",
        f"sum_over_time(inferplane:devices:count[1d]) * {INTERVAL_S:g} / 3600",
    ),
    Recording(
        "inferplane:cost_per_million_output_tokens:5m",
        f"max by ({SERVICE}) ({planner.COST.name}) / (inferplane:output_tokens:rate5m * 3600 / 1e6 > 0)",
    ),
    Recording(
        "inferplane:ready_workers:count",
        f'max by ({SERVICE}, pool) ({router.WORKERS.name}{{health="ready"}})',
    ),
)

GROUP: Final = Group("inferplane-derived", RULES, INTERVAL_S)
