"""The best that limits allow, also where they do not allow enough.

Where no candidate carries the whole load, comparing candidates at that load says nothing: every one of them is
overrun without end, and the cheapest looks as good as the largest.  So the largest share of the load is looked for
that some candidate carries within the objective; that candidate is what is done meanwhile, and the share is what can be
said to a person.  Where not even a trickle is carried, the objective is out of reach of this engine, and the candidate
that comes closest is taken.
"""

from dataclasses import dataclass
from typing import Final

from inferplane_planner.core.predict import Candidate, Pair, Prediction, Question, predict
from inferplane_planner.core.solve import Choice, Limits, Objective, cheapest, solve

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
    asked = _Asked(question, engines)
    low, high, best = 0.0, 1.0, None
    for _ in range(_ROUNDS):
        share = (low + high) / 2.0
        found = cheapest(asked.share(share).predict, objective, limits)
        if found is not None:
            low, best = share, found
        else:
            high = share
    return best
