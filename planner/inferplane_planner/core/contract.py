"""What the plan step takes and gives: values alone, so that a process and a simulation call the same function.

All times are seconds on one clock that the caller chooses, which never goes back; where days are to be learned, a
multiple of 86,400 is midnight.  `Observations` say what happened since the step before, and what is there now; `Spec`
says what is wanted; `State` is carried from step to step and made by nobody but `step`.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from inferplane_planner.core.decide import Memory, Move, Patience
from inferplane_planner.core.demand import Demand
from inferplane_planner.core.engine_model import EngineModel, Learned
from inferplane_planner.core.forecast import Forecaster, Settings
from inferplane_planner.core.predict import Candidate
from inferplane_planner.core.solve import Bounds, Limits, Objective


@dataclass(frozen=True, slots=True)
class Count:
    """Requests that arrived in the interval of `Spec.forecast.interval_s` that ended at `ended_s`."""

    ended_s: float
    requests: int
    whole: bool = True
    """False: some source was not heard all the time, there were at least so many."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Workers of one pool: asked for, and serving."""

    wanted: int
    ready: int
    pending_since_s: float | None = None
    """Since when the longest-waiting one has had no device; None: none waits."""
    owned_by: str = ""
    """Who else set the replicas last; "" when nobody did."""


NOBODY = Workers(0, 0)

WINDOW_S: Final = 300.0
"""How far back `Observations.sample` and `Observations.measured` reach."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What requests of the window met; times at the objective's percentile, NaN where there was none."""

    requests: int
    ttft_s: float
    tpot_s: float
    attainment: float
    """Share of them within both limits."""


@dataclass(frozen=True, slots=True)
class Observations:
    """What happened since the step before, and what is there now."""

    decode: Workers
    prefill: Workers = NOBODY
    counts: tuple[Count, ...] = ()
    """Intervals that ended since the step before, in order."""
    sample: Demand | None = None
    """Requests of the window (its rate does not count); None: none has finished."""
    burst: float = 1.0
    """Squared coefficient of variation of the gaps between arrivals."""
    queued: int = 0
    """Requests that wait for a worker now."""
    blind: bool = False
    """No source is heard: silence does not mean that nobody asks."""
    measured: Measured | None = None
    learned: tuple[Learned, ...] = ()
    """Timings of engines, for the engine model."""
    start_ups_s: tuple[float, ...] = ()
    """How long workers that became ready since then took, from being asked for."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What is wanted of one service."""

    objective: Objective
    prior: EngineModel
    """The engines as calibration or a profile knows them."""
    decode: Bounds
    """Costs are per worker and hour."""
    prefill: Bounds | None = None
    """None: an aggregated service, whose decode workers do both."""
    max_devices: int | None = None
    max_cost_per_hour: float | None = None
    patience: Patience = field(default_factory=Patience)
    period_s: float = 15.0
    """How often the step is taken."""
    start_up_s: float = 120.0
    """How long a worker takes to be ready, until it was measured."""
    allow_lending: bool = True
    """Decode workers may prefill while prefill is short."""
    forecast: Settings = field(default_factory=Settings)

    @property
    def limits(self) -> Limits:
        return Limits(self.decode, self.prefill, self.max_devices, self.max_cost_per_hour)


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What is carried from one step to the next; start with `State()`."""

    forecaster: Forecaster | None = None
    model: EngineModel | None = None
    memory: Memory = field(default_factory=Memory)
    sample: Demand | None = None
    start_ups_s: tuple[float, ...] = ()
    peaks: tuple[tuple[float, float], ...] = ()
    """(moment, rate that was foreseen), of the delay behind; how far the sample is doubted is not in it."""
    last_arrival_s: float | None = None
    crowded_s: float | None = None
    """When prefills last had to wait for each other."""
    doubt: float = 1.0
    """Factor on the load, from having missed the objective when the prediction had not said so."""
    judged_s: float | None = None
    """When that factor was last changed."""
    plan: "Plan | None" = None
    """The last one."""


class Verdict(StrEnum):
    """What a plan means for the objective; a word for metrics and conditions."""

    MET = "Met"
    UNATTAINABLE = "Unattainable"
    """No number of workers keeps the objective."""
    LIMITED = "Limited"
    """More workers would keep it than the limits allow."""
    STARTING = "Starting"
    """The workers that keep it are asked for and not all there yet."""
    PENDING = "Pending"
    """Workers wait for devices."""
    BUDGET = "Budget"
    """The limits allow not even the least."""
    UNKNOWN = "Unknown"
    """Nothing is known of the demand."""
    EXTERNAL = "External"
    """Somebody else sets the replicas."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Worker counts, what they are expected to give, and why."""

    decided_at_s: float
    prefill: int
    decode: int
    lent: int
    """Decode workers that prefill for the time being."""
    move: Move
    verdict: Verdict
    reason: str
    """One sentence."""
    rate_per_s: float = 0.0
    """Requests a second that it is made for."""
    ttft_s: float | None = None
    """Expected at the percentile; None: endless, or nothing to expect."""
    tpot_s: float | None = None
    attainment: float | None = None
    """Share of requests expected within the TTFT limit."""
    devices: int = 0
    cost_per_hour: float = 0.0
    would_take: Candidate | None = None
    """What would keep the objective where the limits do not allow it."""
    uncertainty: float = 0.0
    """Relative standard deviation of the engine model's times."""

    @property
    def candidate(self) -> Candidate:
        return Candidate(self.prefill, self.decode)
