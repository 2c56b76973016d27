"""What a status says of a plan and of what was measured.

Written by server-side apply as fields that nobody else writes, so there is no race with the operator, which makes
conditions and columns of them.  Figures are rounded: a status that changes with every digit is written all day.
Invariant.  What is said again is not written, but once in `REFRESH_S`: that tells a planner that is silent from one
that has nothing new to say.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

from inferplane_api.v1alpha1.units import format_duration
from inferplane_planner.act.world import Findings, Sight
from inferplane_planner.cluster.reading import TOLD
from inferplane_planner.cluster.records import ServiceRecord
from inferplane_planner.core.contract import Measured, Plan
from inferplane_planner.observe.trust import Trust

REFRESH_S: Final = 300.0
_TIMES: Final = {"slo": "observedAt", "plan": "decidedAt"}
_LONGEST_REASON: Final = 4096


def told(found: Findings, sight: Sight, *, at: str) -> dict[str, Any]:
    """Return the fields of the status; `at` is the wall clock, RFC 3339."""
    said: dict[str, Any] = {"slo": {**_slo(found.measured), "observedAt": at}, "routing": _routing(found.trust)}
    if found.plan is not None:
        said["plan"] = {**_plan(found.plan, sight), "decidedAt": at}
    return said


def says_more(said: Mapping[str, Any], before: Mapping[str, Any], *, now: str) -> bool:
    """Whether there is anything to write: other words, or the same after a long while."""
    if _timeless(said) != _timeless(before):
        return True
    slo: Mapping[str, Any] = before.get("slo") or {}
    return _age_s(str(slo.get("observedAt", "")), now) >= REFRESH_S


def applied(service: ServiceRecord, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is applied: these fields of this very object's status."""
    return {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"namespace": service.key.namespace, "name": service.key.name, "uid": service.uid},
        "status": dict(said),
    }


def rfc3339(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _slo(measured: Measured | None) -> dict[str, Any]:
    if measured is None:
        return {"requests": 0}
    return {
        **_time("ttft", measured.ttft_s),
        **_time("tpot", measured.tpot_s),
        "attainment": round(measured.attainment, 3),
        "requests": int(_rounded(measured.requests)),
    }


def _plan(plan: Plan, sight: Sight) -> dict[str, Any]:
    more = plan.would_take
    return {
        "prefillReplicas": plan.prefill,
        "decodeReplicas": plan.decode,
        "lentReplicas": plan.lent,
        **_time("predictedTtft", plan.ttft_s),
        **_time("predictedTpot", plan.tpot_s),
        **({} if plan.attainment is None else {"predictedAttainment": round(plan.attainment, 2)}),
        "devices": plan.devices,
        "costPerHour": round(plan.cost_per_hour, 4),
        **({} if more is None else {"wouldTake": f"{more.prefill}:{more.decode}"}),
        "verdict": plan.verdict.value,
        "reason": plan.reason[:_LONGEST_REASON],
        "acting": sight.acting,
    }


def _routing(trust: Trust) -> dict[str, Any]:
    return {
        "requests": int(_rounded(trust.requests)),
        "doubted": min(int(_rounded(trust.doubted)), int(_rounded(trust.requests))),
        "mismatch": trust.cause,
    }


def _time(name: str, seconds: float | None) -> dict[str, str]:
    if seconds is None or not math.isfinite(seconds):
        return {}
    return {name: format_duration(_rounded(seconds))}


def _rounded(value: float) -> float:
    """Keep two digits."""
    if value == 0 or not math.isfinite(value):
        return 0.0
    return float(f"{value:.1e}")


def _timeless(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _without(said[name], _TIMES.get(name, "")) for name in TOLD if name in said}


def _without(fields: object, name: str) -> object:
    if not isinstance(fields, Mapping):
        return fields
    return {key: value for key, value in cast("Mapping[str, Any]", fields).items() if key != name}


def _age_s(then: str, now: str) -> float:
    try:
        return (datetime.fromisoformat(now) - datetime.fromisoformat(then)).total_seconds()
    except ValueError:
        return math.inf
