"""One step of planning: what was seen and what is wanted in, worker counts and a sentence out.

Problem.  Choosing numbers, foreseeing load, doubting the model and not swinging are four questions, and answering one
of them apart from the others answers it wrongly.
Idea.  One pure function.  It learns (engine model, forecast, start-up time), asks for the cheapest candidate for two
loads (until a new worker could be ready; of the delay behind and the horizon ahead), and lets `decide` go from there.
Trade-off.  All of it is done anew in each step; a step takes milliseconds and is taken every quarter of a minute.
Invariants.  The same arguments give the same plan.  A constant load gives a constant plan.  Where nothing is known,
nothing moves.
"""

from dataclasses import dataclass, replace

from inferplane_planner.core.attaining import attain
from inferplane_planner.core.contract import Observations, Plan, Spec, State, Verdict
from inferplane_planner.core.decide import Decision, Memory, Move, Need, Now, decide
from inferplane_planner.core.demand import Demand
from inferplane_planner.core.doubt import judge
from inferplane_planner.core.errors import PlanningError
from inferplane_planner.core.learning import learn
from inferplane_planner.core.moment import Moment
from inferplane_planner.core.predict import Candidate, predict
from inferplane_planner.core.scarcity import scarcity
from inferplane_planner.core.solve import Choice
from inferplane_planner.core.telling import held, plain, predicted


def step(state: State, observations: Observations, spec: Spec, now: float) -> tuple[State, Plan]:
    """Plan once.  What no plan can be made from becomes a plan that says so and moves nothing; nothing is raised."""
    moment = learn(state, observations, spec, now)
    try:
        after, plan = _plan(moment)
    except PlanningError as error:
        after, plan = moment.state, held(moment, Verdict.BUDGET, str(error))
    return replace(after, plan=plan), plan


def _plan(moment: Moment) -> tuple[State, Plan]:
    owner = moment.seen.decode.owned_by or moment.seen.prefill.owned_by
    if owner:
        return moment.state, held(moment, Verdict.EXTERNAL, f"{owner} sets the replicas, which are left alone")
    if _idle(moment):
        return _go_to_least(moment)
    sample = moment.state.sample
    if sample is None:
        return moment.state, _wake(moment)
    moment = replace(moment, state=judge(moment))
    loads = _loads(moment)
    if loads.soon <= 0:
        return moment.state, _wake(moment)
    return _decide(replace(moment, state=replace(moment.state, peaks=loads.peaks)), sample, loads)


@dataclass(frozen=True, slots=True)
class _Loads:
    """Requests a second that candidates are chosen for."""

    soon: float
    lasting: float
    peaks: tuple[tuple[float, float], ...]


def _loads(moment: Moment) -> _Loads:
    state, spec, now = moment.state, moment.spec, moment.now
    ahead = moment.start_up_s + spec.period_s
    coming = moment.forecaster.highest(now, now + ahead).high_per_s
    # What waits is to be worked off beside what comes, within as long as a start takes.
    waiting = moment.seen.queued / max(ahead, spec.forecast.interval_s)
    soon = (coming + waiting) * state.doubt
    peaks = (*(peak for peak in state.peaks if now - spec.patience.down_delay_s <= peak[0] < now), (now, soon))
    return _Loads(soon, max(rate for _, rate in peaks), peaks)


def _decide(moment: Moment, sample: Demand, loads: _Loads) -> tuple[State, Plan]:
    few = scarcity(sample, moment.model.pair())
    demand = few.at(sample, loads.soon)
    soon = _choose(moment, demand)
    lasting = soon if loads.lasting == loads.soon else _choose(moment, few.at(sample, loads.lasting))
    check = few.at(sample, loads.lasting / moment.spec.patience.room)
    now = Now(moment.now, moment.wanted, moment.pending_since_s)
    decision = decide(
        now, Need(soon, lasting, lambda each: _keeps(moment, check, each)), moment.state.memory, moment.spec.patience
    )
    if moment.seen.blind and decision.move is not Move.UP:
        return moment.state, held(moment, Verdict.UNKNOWN, "no router is heard; the last plan stays in force")
    decision = _allowed(moment, decision)
    return replace(moment.state, memory=decision.memory), predicted(moment, decision, soon, demand)


def _choose(moment: Moment, demand: Demand) -> Choice:
    return attain(moment.question(demand), moment.model.pair(), moment.spec.objective, moment.spec.limits)


def _keeps(moment: Moment, demand: Demand, candidate: Candidate) -> bool:
    """Whether a candidate keeps the objective, should the engines be slower than expected."""
    prediction = predict(moment.question(demand), candidate, moment.model.pair(deviations=1.0))
    return moment.spec.objective.met(prediction)


def _allowed(moment: Moment, decision: Decision) -> Decision:
    """Hold a shift back whose growing pool alone would break the budget before the other has shrunk."""
    if moment.spec.limits.allows(decision.target) or moment.spec.limits.allows(moment.wanted) is False:
        return decision
    reason = f"{decision.target} is on the way to what is needed, and the budget does not allow it"
    return replace(decision, target=moment.wanted, move=Move.HOLD, reason=reason)


def _idle(moment: Moment) -> bool:
    """Whether nobody has asked for as long as less must be enough before it is less."""
    silent_s = moment.silent_s
    patience_s = max(moment.spec.patience.down_delay_s, 2 * moment.spec.forecast.interval_s)
    return silent_s is not None and silent_s > patience_s and not moment.seen.blind


def _go_to_least(moment: Moment) -> tuple[State, Plan]:
    here, least, most = moment.wanted, moment.least, moment.spec.patience.max_step
    target = Candidate(max(least.prefill, here.prefill - most), max(least.decode, here.decode - most))
    reason = f"nobody asks: {least} is the least"
    return replace(moment.state, peaks=(), memory=Memory()), plain(moment, target, Verdict.MET, reason)


def _wake(moment: Moment) -> Plan:
    """Have at least one worker of a kind when somebody asks; more cannot be said before a request has ended."""
    here = moment.wanted
    first = Candidate(1 if moment.spec.prefill is not None else 0, 1)
    target = Candidate(max(here.prefill, first.prefill), max(here.decode, first.decode))
    if moment.silent_s is None or target == here:
        why = (
            "no request has ended yet that a plan could be made by"
            if moment.state.sample is None
            else "nobody asks now"
        )
        return held(moment, Verdict.UNKNOWN, why)
    if not moment.spec.limits.allows(target):
        return held(moment, Verdict.BUDGET, f"somebody asks, and the budget does not allow {target}")
    return plain(moment, target, Verdict.STARTING, f"somebody asks: {target} is started")
