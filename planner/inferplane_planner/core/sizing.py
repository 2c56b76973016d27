"""How many workers a load takes that is known beforehand: the choice of a step, without a past.

Problem.  Before a service runs, somebody has to buy or reserve for it, and wants to know why so many.
Idea.  The same choice as in a running service (`attain`), for one rate; around it what a person asks next: the
percentiles with their error, what one worker fewer would miss, what room to spare would take, what another shape costs,
and, where the objective is out of reach, what an idle engine gives at best.
Trade-off.  No forecast, no start-ups: it is the plan for a load that stays.
Invariant.  `met` says that the predicted percentiles are within the limits; their error is stated beside them.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

from inferplane_planner.core.attaining import attain
from inferplane_planner.core.contract import Spec, Verdict
from inferplane_planner.core.demand import Demand
from inferplane_planner.core.engine_model import EngineModel
from inferplane_planner.core.predict import Candidate, Pair, Prediction, Question, predict
from inferplane_planner.core.solve import Bounds, Choice, Limits, Objective

STATED_ERROR: Final = 0.2
"""Relative error of the queueing estimate at up to `STATED_USE` of capacity."""
STATED_USE: Final = 0.85
PERCENTILES: Final = (0.5, 0.9, 0.95, 0.99)
_TRICKLE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Range:
    """A time in seconds and within what it is expected; infinite where the load exceeds the capacity."""

    expected_s: float
    low_s: float
    high_s: float


@dataclass(frozen=True, slots=True)
class Expected:
    percentile: float
    ttft: Range
    tpot: Range


@dataclass(frozen=True, slots=True)
class Sizing:
    """Workers for one load, and what to expect of them."""

    candidate: Candidate
    verdict: Verdict
    reason: str
    devices: int
    cost_per_hour: float
    expected: tuple[Expected, ...]
    attainment: float
    """Share of requests expected within the TTFT limit."""
    use: float
    """Of the capacity of the busier pool; beyond `STATED_USE` the error is not stated."""
    idle: Prediction
    """What one request alone gets: no number of workers gives better."""
    spare: Candidate | None = None
    """What a ninth more load takes, should the engines be a standard deviation slower; None: more than is allowed."""
    would_take: Candidate | None = None
    """Where the limits do not allow what keeps the objective."""

    @property
    def met(self) -> bool:
        return self.verdict is Verdict.MET


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    spec: Spec
    limits: Limits
    question: Question
    pair: Pair

    def look(self, candidate: Candidate) -> Prediction:
        return predict(self.question, candidate, self.pair)

    def choose(self) -> Choice:
        return attain(self.question, self.pair, self.spec.objective, self.limits)


def size(spec: Spec, demand: Demand, *, burst: float = 1.0) -> Sizing:
    """Choose for a load.  Raises PlanningError where the limits allow nothing at all."""
    task = _task(spec, demand, burst, spec.prior)
    choice = task.choose()
    candidate = choice.candidate
    alone = task.look(candidate)
    return Sizing(
        candidate=candidate,
        verdict=_verdict(choice),
        reason=_reason(task, choice),
        devices=task.limits.devices(candidate),
        cost_per_hour=task.limits.cost(candidate),
        expected=tuple(_expected(task, candidate, share) for share in PERCENTILES),
        attainment=alone.ttft_met,
        use=max(alone.prefill_use, alone.decode_use),
        idle=_idle(task),
        spare=_spare(spec, demand, burst),
        would_take=choice.would_take,
    )


def aggregated(spec: Spec) -> Spec:
    """Return the same with decode workers alone, which prefill as well; as many as both pools may have."""
    if spec.prefill is None:
        return spec
    most = spec.decode.most + spec.prefill.most
    bounds = Bounds(max(1, spec.decode.least), most, spec.decode.devices, spec.decode.cost)
    prior = EngineModel(prefill=spec.prior.decode, decode=spec.prior.decode, deviation=spec.prior.deviation)
    return replace(spec, decode=bounds, prefill=None, prior=prior)


def _task(spec: Spec, demand: Demand, burst: float, model: EngineModel, deviations: float = 0.0) -> _Task:
    question = Question(demand, spec.objective.percentile, spec.objective.ttft_s, burst)
    return _Task(spec, spec.limits, question, model.pair(deviations=deviations))


def _spare(spec: Spec, demand: Demand, burst: float) -> Candidate | None:
    more = demand.at(demand.rate_per_s / spec.patience.room)
    choice = _task(spec, more, burst, spec.prior, deviations=1.0).choose()
    return choice.candidate if choice.met else None


def _verdict(choice: Choice) -> Verdict:
    if choice.met:
        return Verdict.MET
    return Verdict.UNATTAINABLE if choice.would_take is None else Verdict.LIMITED


def _expected(task: _Task, candidate: Candidate, percentile: float) -> Expected:
    question = replace(task.question, percentile=percentile)
    slow, usual, fast = (
        predict(question, candidate, task.spec.prior.pair(deviations=deviations)) for deviations in (1.0, 0.0, -1.0)
    )
    return Expected(
        percentile,
        Range(usual.ttft_s, fast.ttft_s * (1.0 - STATED_ERROR), slow.ttft_s * (1.0 + STATED_ERROR)),
        Range(usual.tpot_s, fast.tpot_s * (1.0 - STATED_ERROR), slow.tpot_s * (1.0 + STATED_ERROR)),
    )


def _idle(task: _Task) -> Prediction:
    """Predict the most workers that a file allows for next to no load."""
    limits = task.limits.tight()
    most = Candidate(max(1, limits.prefill.most) if limits.prefill else 0, max(1, limits.decode.most))
    demand = task.question.demand
    return predict(replace(task.question, demand=demand.at(_TRICKLE)), most, task.pair)


# Why --------------------------------------------------------------------------------------------------------------


def _reason(task: _Task, choice: Choice) -> str:
    if choice.met:
        return _why_so_many(task, choice.candidate)
    if choice.would_take is None:
        return _out_of_reach(task)
    return (
        f"the objective takes {choice.would_take}, which the limits do not allow; "
        f"{choice.candidate} carries the most of the load within it"
    )


def _why_so_many(task: _Task, candidate: Candidate) -> str:
    fewer = [each for each in _fewer(task.limits, candidate) if not task.spec.objective.met(task.look(each))]
    missed = [f"{each} has {_misses(task.spec.objective, task.look(each))}" for each in fewer]
    return f"{candidate} is the cheapest that keeps the objective" + (f": {', '.join(missed)}" if missed else "")


def _fewer(limits: Limits, candidate: Candidate) -> list[Candidate]:
    """Return the same with one worker less of a kind, where so few are allowed."""
    found = list[Candidate]()
    if limits.prefill is not None and candidate.prefill > max(1, limits.prefill.least):
        found.append(Candidate(candidate.prefill - 1, candidate.decode))
    if candidate.decode > max(1, limits.decode.least):
        found.append(Candidate(candidate.prefill, candidate.decode - 1))
    return found


def _misses(objective: Objective, found: Prediction) -> str:
    if found.endless:
        return "less capacity than the load takes"
    parts = [("TTFT", found.ttft_s, objective.ttft_s), ("TPOT", found.tpot_s, objective.tpot_s)]
    return " and ".join(f"a {name} of {_time(had)}" for name, had, limit in parts if had > limit)


def _out_of_reach(task: _Task) -> str:
    idle, objective = _idle(task), task.spec.objective
    needs = [
        f"a {name} limit of {_time(had * 1.05)} or an engine {had / limit:.2g}x as fast"
        for name, had, limit in (("TTFT", idle.ttft_s, objective.ttft_s), ("TPOT", idle.tpot_s, objective.tpot_s))
        if had > limit
    ]
    best = f"an idle engine has a TTFT of {_time(idle.ttft_s)} and a TPOT of {_time(idle.tpot_s)}"
    if not needs:
        return f"no number of workers near the limits keeps the objective; {best}: raise maxReplicas by far"
    return f"no number of workers keeps the objective: {best}; it takes {' and '.join(needs)}"


def _time(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "no end"
    return f"{seconds:.2f} s" if seconds >= 1.0 else f"{seconds * 1000:.3g} ms"
