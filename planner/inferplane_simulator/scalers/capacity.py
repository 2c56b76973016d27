"""What one worker carries within the objective: the figure that others measure beforehand and scale by.

Scalers of other projects go by a target for each worker, from a table of measurements or from experience.  Here it is
computed from the engine's true coefficients for the lengths at hand, so that a loss is never a badly chosen target's.
"""

from dataclasses import dataclass
from typing import Final

from inferplane_api.catalogue import WorkerRole
from inferplane_planner.core.demand import Demand
from inferplane_planner.core.predict import Candidate, Pair, Prediction, Question, predict
from inferplane_planner.core.solve import Objective

_ROUNDS: Final = 24
_MANY: Final = 100_000


@dataclass(frozen=True, slots=True)
class Capacity:
    """Of one worker: requests a second, and how many it then has at once."""

    rate_per_s: float
    concurrency: float


def capacity(pair: Pair, demand: Demand, objective: Objective, role: WorkerRole, *, apart: bool) -> Capacity:
    """Return the most that one worker of a role carries; `apart`: prefill and decode workers are different ones."""
    rate = _highest(pair, demand, objective, _alone(role, apart=apart))
    found = _look(pair, demand.at(rate), objective, _alone(role, apart=apart))
    decoding_s = float(demand.output.mean()) * found.tpot_s
    stay_s = {(WorkerRole.PREFILL, True): found.ttft_s, (WorkerRole.DECODE, True): decoding_s}
    return Capacity(rate, max(1.0, rate * stay_s.get((role, apart), found.ttft_s + decoding_s)))


def _alone(role: WorkerRole, *, apart: bool) -> Candidate:
    """Return one worker of the role, and of the other so many that it never is the limit."""
    if not apart:
        return Candidate(0, 1)
    return Candidate(1, _MANY) if role is WorkerRole.PREFILL else Candidate(_MANY, 1)


def _highest(pair: Pair, demand: Demand, objective: Objective, alone: Candidate) -> float:
    low, high = 1e-3, 1e-3
    while objective.met(_look(pair, demand.at(high), objective, alone)) and high < 1e4:  # noqa: PLR2004  beyond any engine
        low, high = high, high * 2.0
    for _ in range(_ROUNDS):
        middle = (low + high) / 2.0
        kept = objective.met(_look(pair, demand.at(middle), objective, alone))
        low, high = (middle, high) if kept else (low, middle)
    return low


def _look(pair: Pair, demand: Demand, objective: Objective, candidate: Candidate) -> Prediction:
    return predict(Question(demand, objective.percentile, objective.ttft_s), candidate, pair)
