"""What a planner that begins takes over from the one before it: how its load comes and goes.

Problem.  A planner that is restarted in the middle of a day knows neither the level nor the season that the one before
had learned, and needs a day to learn the season again.
Idea.  Its predecessor's last decision says what the forecast knew.  Of level and trend nothing is left after a gap, as
in a process that heard nothing for as long; seasons and errors stay.
Trade-off.  Lengths, engines and doubts are learned anew: a few minutes of requests tell them, and what is old of them
may be wrong.
Invariant.  What was learned in the future of the clock is left out: no count would be newer until then.
"""

from inferplane_planner.act.journal import Decided
from inferplane_planner.core.contract import State
from inferplane_planner.core.forecast import Forecaster, Learnt


def resumed(last: Decided | None, now: float) -> State:
    """Return the state to begin with at `now`, by the planner's clock."""
    learnt = last.forecast if last is not None else None
    if learnt is None or learnt.last * learnt.settings.interval_s > now:
        return State()
    return knowing(learnt)


def knowing(learnt: Learnt | None) -> State:
    """Return a state that knows nothing but this."""
    return State() if learnt is None else State(forecaster=Forecaster.of(learnt))
