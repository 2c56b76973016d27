"""What the planner observed of a service, as conditions: whether the objective holds and predicted hits come true.

The planner writes figures (`status.slo`, `status.plan`, `status.routing`), which nobody else writes, and the conditions
and columns are made of them here: two writers of one list of conditions would undo each other.
Invariant.  What has not been said anew for `SILENT_S` is not said any more: a planner speaks at least every five
minutes.
"""

from collections.abc import Mapping
from typing import Any, Final

from inferplane_api.v1alpha1.conditions import ConditionStatus, ConditionType, Reason
from inferplane_api.v1alpha1.units import format_duration, parse_duration
from inferplane_operator.reconcile.clock import seconds_between
from inferplane_operator.reconcile.reading import section
from inferplane_operator.reconcile.scene import Scene
from inferplane_operator.reconcile.statuses import Said

OBSERVED: Final = frozenset({"slo", "plan", "routing"})
"""Fields of the status that the planner writes."""
SILENT_S: Final = 900.0
_NOBODY: Final = "nothing observes it: enable the planner"
_DOUBTED: Final = 0.1
"""Share of requests from which on routing is not healthy: single workers start anew all the time."""
_INFEASIBLE: Final = "Unattainable"
_HINDERED: Final = frozenset({"External", "Limited", "Budget", "Pending", _INFEASIBLE})
"""Verdicts of plans that cannot be carried out as they should be, which is said while the objective still holds."""
_CAUSES: Final = {
    "events_off": Reason.EVENTS_OFF,
    "lost_events": Reason.EVENTS_LOST,
    "block_size": Reason.BLOCK_SIZE_MISMATCH,
    "hash_seed": Reason.HASH_SEED_MISMATCH,
    "tokenizer": Reason.TOKENIZER_MISMATCH,
    "template": Reason.TEMPLATE_MISMATCH,
    "salt": Reason.SALT_MISMATCH,
    "adapter": Reason.ADAPTER_MISMATCH,
}


def slo_met(scene: Scene) -> Said:
    """Say whether the objective was kept over the window."""
    slo = section(scene.status, "slo")
    if (unknown := _unknown(scene, ConditionType.SLO_MET)) is not None:
        return unknown
    if not slo.get("requests"):
        return Said(ConditionType.SLO_MET, ConditionStatus.UNKNOWN, Reason.NO_TRAFFIC, "no request in the window")
    limits = scene.service.spec.slo
    exceeded = [
        (reason, f"{name.upper()} is {slo[name]}, the limit {format_duration(limit)}")
        for name, limit, reason in (
            ("ttft", limits.ttft_s, Reason.TTFT_EXCEEDED),
            ("tpot", limits.tpot_s, Reason.TPOT_EXCEEDED),
        )
        if _seconds(slo, name) > limit
    ]
    plan = section(scene.status, "plan")
    if not exceeded:
        share = f"{100 * float(slo.get('attainment', 0.0)):.1f} % of the requests were within both limits"
        worth_saying = plan.get("verdict") in _HINDERED
        message = f"{share}; {plan.get('reason', '')}" if worth_saying else share
        return Said(ConditionType.SLO_MET, ConditionStatus.TRUE, Reason.WITHIN_OBJECTIVE, message)
    reason = Reason.INFEASIBLE if plan.get("verdict") == _INFEASIBLE else exceeded[0][0]
    message = "; ".join([text for _, text in exceeded] + ([str(plan["reason"])] if plan.get("reason") else []))
    return Said(ConditionType.SLO_MET, ConditionStatus.FALSE, reason, message)


def routing_healthy(scene: Scene) -> Said:
    """Say whether routers could believe what workers say they hold."""
    kind, routing = ConditionType.KV_ROUTING_HEALTHY, section(scene.status, "routing")
    if (unknown := _unknown(scene, kind)) is not None:
        return unknown
    requests, doubted = int(routing.get("requests", 0)), int(routing.get("doubted", 0))
    if not requests:
        return Said(kind, ConditionStatus.UNKNOWN, Reason.NO_TRAFFIC, "no request in the window")
    if doubted < _DOUBTED * requests:
        return Said(kind, ConditionStatus.TRUE, Reason.PREDICTIONS_MATCH)
    word = str(routing.get("mismatch", ""))
    share = f"{100 * doubted / requests:.0f} % of the requests were routed past what their worker said it holds"
    message = f"{share} ({word.replace('_', ' ') or 'unknown'}); routing goes by its own guesses there"
    return Said(kind, ConditionStatus.FALSE, _CAUSES.get(word, Reason.UNKNOWN_MISMATCH), message)


def measured(scene: Scene) -> Mapping[str, Any]:
    """Return the figures of the window; none where they are not known or too old."""
    return {} if _unknown(scene, ConditionType.SLO_MET) is not None else section(scene.status, "slo")


def silent_in_s(scene: Scene) -> float | None:
    """Return in how long what was observed is too old to be said; None where it is, or nothing was observed."""
    spoken = str(section(scene.status, "slo").get("observedAt", ""))
    left = SILENT_S - seconds_between(spoken, scene.observed.now)
    return left + 1.0 if spoken and left > 0 else None


def _unknown(scene: Scene, kind: ConditionType) -> Said | None:
    spoken = str(section(scene.status, "slo").get("observedAt", ""))
    if not spoken:
        return Said(kind, ConditionStatus.UNKNOWN, Reason.PENDING, _NOBODY)
    if seconds_between(spoken, scene.observed.now) >= SILENT_S:
        return Said(kind, ConditionStatus.UNKNOWN, Reason.PENDING, f"the planner has said nothing since {spoken}")
    return None


def _seconds(found: Mapping[str, Any], name: str) -> float:
    try:
        return parse_duration(str(found.get(name, "0s")))
    except ValueError:
        return 0.0
