"""Plans in words and figures."""

import math
from dataclasses import replace

from inferplane_planner.core.contract import Plan, Verdict
from inferplane_planner.core.decide import Decision, Move
from inferplane_planner.core.demand import Demand
from inferplane_planner.core.engine_model import Learned, Part
from inferplane_planner.core.lending import lend
from inferplane_planner.core.moment import Moment
from inferplane_planner.core.predict import Candidate, Prediction, predict
from inferplane_planner.core.solve import Choice


def held(moment: Moment, verdict: Verdict, reason: str) -> Plan:
    """Leave everything as it is."""
    return plain(moment, moment.wanted, verdict, reason)


def plain(moment: Moment, target: Candidate, verdict: Verdict, reason: str) -> Plan:
    """Tell a target of which nothing is predicted."""
    limits = moment.spec.limits
    return Plan(
        decided_at_s=moment.now,
        prefill=target.prefill,
        decode=target.decode,
        lent=0,
        move=_move(moment.wanted, target),
        verdict=verdict,
        reason=reason,
        devices=limits.devices(target),
        cost_per_hour=limits.cost(target),
    )


def predicted(moment: Moment, decision: Decision, soon: Choice, demand: Demand) -> Plan:
    """Tell a decision that was made for a demand."""
    pair, question = moment.model.pair(), moment.question(demand)
    expected = predict(question, decision.target, pair)
    lent = lend(question, moment.ready, pair, moment.spec.objective) if moment.spec.allow_lending else 0
    plan = plain(moment, decision.target, _verdict(moment, decision, soon, expected), decision.reason)
    return replace(
        plan,
        lent=lent,
        reason=plan.reason + (f"; {lent} of the decode workers prefill meanwhile" if lent else ""),
        rate_per_s=demand.rate_per_s,
        ttft_s=_finite(expected.ttft_s),
        tpot_s=_finite(expected.tpot_s),
        attainment=expected.ttft_met,
        would_take=soon.would_take,
        uncertainty=moment.model.uncertainty(_typical_prefill(demand)),
    )


def _typical_prefill(demand: Demand) -> Learned:
    return Learned(Part.PREFILL, 0.0, tokens=float(demand.uncached.mean()), cached=float(demand.cached.mean()))


def _move(here: Candidate, target: Candidate) -> Move:
    more = target.prefill > here.prefill or target.decode > here.decode
    fewer = target.prefill < here.prefill or target.decode < here.decode
    if more and fewer:
        return Move.SHIFT
    return Move.UP if more else Move.DOWN if fewer else Move.HOLD


def _verdict(moment: Moment, decision: Decision, soon: Choice, expected: Prediction) -> Verdict:
    pending = moment.pending_since_s
    if pending is not None and moment.now - pending >= moment.spec.patience.pending_s:
        return Verdict.PENDING
    if not soon.met:
        return Verdict.UNATTAINABLE if soon.would_take is None else Verdict.LIMITED
    wanted, ready = decision.target, moment.ready
    short = ready.prefill < wanted.prefill or ready.decode < wanted.decode
    return Verdict.STARTING if short or not moment.spec.objective.met(expected) else Verdict.MET


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None
