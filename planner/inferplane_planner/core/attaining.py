"""The best that limits allow, also where they do not allow enough.

Where no candidate carries the whole load, comparing candidates at that load says nothing: every one of them is
overrun without end, and the cheapest looks as good as the largest.  So the largest share of the load is looked for
that some candidate carries within the objective; that candidate is what is done meanwhile, and the share is what can be
said to a person.  More workers of a kind never carry less, so whether a share is carried is asked of the largest alone,
the one that carried the last share first; the cheapest is looked for once, for the share that was found.
Where not even a trickle is carried, the objective is out of reach of this engine, and the candidate
that comes closest is taken.
"""

from dataclasses import dataclass
from typing import Final

from inferplane_planner.core.predict import Candidate, Pair, Prediction, Question, predict
from inferplane_planner.core.solve import Choice, Limits, Objective, cheapest, largest, solve

_ROUNDS: Final = 10


def attain(question: Question, engines: Pair, objective: Objective, limits: Limits) -> Choice:
    """Choose for the whole load, else for the largest share of it.  Raises PlanningError as `solve` does."""
    whole = solve(_Asked(question, engines).predict, objective, limits)
    if whole.met:
        return whole
    part = _largest_part(question, engines, objective, limits)
    if part is None:
        return whole
    return Choice(part, predict(question, part, engines), met=False, would_take=whole.would_take)


@dataclass(frozen=True, slots=True)
class _Asked:
    question: Question
    engines: Pair

    def predict(self, candidate: Candidate) -> Prediction:
        return predict(self.question, candidate, self.engines)

    def share(self, share: float) -> "_Asked":
        question, demand = self.question, self.question.demand
        part = Question(
            demand.at(demand.rate_per_s * share), question.percentile, question.ttft_limit_s, question.burst
        )
        return _Asked(part, self.engines)


def _largest_part(question: Question, engines: Pair, objective: Objective, limits: Limits) -> Candidate | None:
    asked, tried = _Asked(question, engines), largest(limits)
    low, high = 0.0, 1.0
    for _ in range(_ROUNDS):
        share = (low + high) / 2.0
        carries = _first_that_carries(asked.share(share), tried, objective)
        if carries is None:
            high = share
        else:
            low, tried = share, [carries, *(each for each in tried if each != carries)]
    return cheapest(asked.share(low).predict, objective, limits) if low > 0.0 else None


def _first_that_carries(asked: _Asked, tried: list[Candidate], objective: Objective) -> Candidate | None:
    return next((each for each in tried if objective.met(asked.predict(each))), None)
