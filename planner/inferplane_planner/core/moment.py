"""Everything that one step goes by, with the questions that its parts ask again and again."""

from dataclasses import dataclass

from inferplane_planner.core.contract import Observations, Spec, State
from inferplane_planner.core.demand import Demand
from inferplane_planner.core.engine_model import EngineModel
from inferplane_planner.core.forecast import Forecaster
from inferplane_planner.core.predict import Candidate, Question


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """`state` has taken in what was seen; forecaster and model are its own, or new ones."""

    state: State
    seen: Observations
    spec: Spec
    now: float
    forecaster: Forecaster
    model: EngineModel

    @property
    def wanted(self) -> Candidate:
        return Candidate(self.seen.prefill.wanted, self.seen.decode.wanted)

    @property
    def ready(self) -> Candidate:
        return Candidate(self.seen.prefill.ready, self.seen.decode.ready)

    @property
    def least(self) -> Candidate:
        return Candidate(self.spec.prefill.least if self.spec.prefill else 0, self.spec.decode.least)

    @property
    def pending_since_s(self) -> float | None:
        found = [it.pending_since_s for it in (self.seen.prefill, self.seen.decode) if it.pending_since_s is not None]
        return min(found) if found else None

    @property
    def start_up_s(self) -> float:
        """How long a new worker takes: the slowest but one in eight of those that were measured."""
        ordered = sorted(self.state.start_ups_s)
        return ordered[int((len(ordered) - 1) * 7 / 8)] if ordered else self.spec.start_up_s

    @property
    def silent_s(self) -> float | None:
        """How long nobody has asked; None: nobody ever has."""
        return None if self.state.last_arrival_s is None else max(0.0, self.now - self.state.last_arrival_s)

    def question(self, demand: Demand) -> Question:
        return Question(demand, self.spec.objective.percentile, self.spec.objective.ttft_s, self.seen.burst)
