"""Why a target could not take a request, in words: found out when somebody asks, from what the decision kept.

Whoever was not asked at all (draining, failed, named by the caller, without the adapter) is a candidate with a reason
and no cost; whoever was asked and could not be chosen (full, another revision) has both.
"""

from collections.abc import Iterator
from typing import Any, Final

from inferplane_router.core import score_kernels as kernels
from inferplane_router.core.crowd import Crowd, Standing
from inferplane_router.core.score_kernels import Floats, Slots, Terms
from inferplane_router.core.values import Ask, Health, TargetRef

_UNUSABLE: Final = {
    Health.UNKNOWN: "it has said nothing yet",
    Health.STARTING: "starting",
    Health.DRAINING: "draining",
    Health.FAILED: "failed",
}


def not_asked(ask: Ask, crowd: Crowd, asked: frozenset[int]) -> Iterator[dict[str, Any]]:
    """Yield every target that was left out, with the reason, by the names of a `Candidate`'s fields."""
    for slot, standing in sorted(crowd.standings.items()):
        ref = crowd.refs[slot]
        if slot in asked or ref is None:
            continue
        reason = _left_out(ask, ref, standing)
        if standing.decodes:
            yield {"decode_worker": ref.worker_id, "decode_rank": ref.rank, "excluded_because": reason}
        else:
            yield {"prefill_worker": ref.worker_id, "prefill_rank": ref.rank, "excluded_because": reason}


def _left_out(ask: Ask, ref: TargetRef, standing: Standing) -> str:
    if (unusable := _UNUSABLE.get(standing.health)) is not None:
        return unusable
    if ref.worker_id in ask.exclude:
        return "excluded by the caller, or it failed this request before"
    if ask.only and ref.worker_id not in ask.only:
        return "not among the workers asked for"
    if ask.model.adapter is not None and not standing.has(ask.model.adapter):
        return f"adapter {ask.model.adapter.name} is not loaded"
    if standing.health is Health.SUSPECT:
        return "suspect: its stream was lost or requests failed, and others are sound"
    return "nothing is handed off by this service now"


def not_choosable(crowd: Crowd, terms: Terms, question: Floats, decode: int, prefill: int | None) -> str:
    """Say why a combination that was appraised could not be chosen; nothing if it could."""
    in_flight, limit = int(terms[decode, kernels.WAS_IN_FLIGHT]), int(crowd.limits[decode])
    if in_flight >= limit:
        return f"full: {in_flight} of {limit} requests"
    if prefill is not None and crowd.revisions[prefill] != crowd.revisions[decode]:
        return "prefill and decode worker are of different revisions"
    computing = decode if prefill is None else prefill
    wait_s, most_s = float(terms[computing, kernels.WAIT_S]), float(question[kernels.HOLD])
    return f"full: {wait_s:.1f} s of prefill are waiting, at most {most_s:.1f} s may" if wait_s > most_s else ""


def asked(prefills: Slots, decodes: Slots) -> frozenset[int]:
    return frozenset(prefills.tolist()) | frozenset(decodes.tolist())
