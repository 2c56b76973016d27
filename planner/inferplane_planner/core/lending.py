"""Decode workers that prefill for the time being: a change of roles that takes no start.

While prefill workers are short and new ones are starting, a decode worker that prefills is one decode worker less and
one prefill worker more.  The fewest are lent with which the objective is met, or with which it is missed by the least.
"""

from inferplane_planner.core.predict import Candidate, Pair, Question, predict
from inferplane_planner.core.solve import Objective


def lend(question: Question, ready: Candidate, engines: Pair, objective: Objective) -> int:
    """Return how many of the decode workers that are ready should prefill now."""
    if not ready.disaggregated or ready.decode <= 1 or question.demand.rate_per_s <= 0:
        return 0
    as_it_is = objective.overrun(predict(question, ready, engines))
    if as_it_is <= 1.0:
        return 0
    best, lent = as_it_is, 0
    for more in range(1, ready.decode):
        lending = Candidate(ready.prefill + more, ready.decode - more)
        overrun = objective.overrun(predict(question, lending, engines))
        if overrun < best:
            best, lent = overrun, more
        if best <= 1.0:
            break
    return lent
