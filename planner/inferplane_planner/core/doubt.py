"""How far predictions are trusted: a factor on the load, from having been wrong before.

A queueing estimate can be wrong for a service in a way that no engine model repairs.  When all workers were there, the
prediction said that the objective is kept, and it was missed all the same for a whole delay, the load is taken to be a
tenth more from then on.  What was measured is of a window, and a miss is to be counted once: however short the delay,
the next look is at another window.  The factor shrinks slowly, in hours: a quick pardon would be a swing with the delay
as its period.
"""

from dataclasses import replace
from typing import Final

from inferplane_planner.core.contract import WINDOW_S, State, Verdict
from inferplane_planner.core.moment import Moment

_MOST: Final = 2.0
_MORE: Final = 1.1
_HALVED_S: Final = 3600.0
_ENOUGH: Final = 50
"""Fewer measured requests say nothing about a percentile."""


def judge(moment: Moment) -> State:
    """Return the state with the factor as it is from now on, and when it was last looked at."""
    state, now = moment.state, moment.now
    judged_s = now if state.judged_s is None else min(state.judged_s, now)
    if now - judged_s < max(WINDOW_S, moment.spec.patience.down_delay_s):
        return replace(state, judged_s=judged_s)
    if _wrong(moment):
        return replace(state, doubt=min(_MOST, state.doubt * _MORE), judged_s=now)
    kept = 0.5 ** ((now - judged_s) / _HALVED_S)
    return replace(state, doubt=1.0 + (state.doubt - 1.0) * kept, judged_s=now)


def _wrong(moment: Moment) -> bool:
    measured, plan = moment.seen.measured, moment.state.plan
    if measured is None or measured.requests < _ENOUGH or plan is None or plan.verdict is not Verdict.MET:
        return False
    objective = moment.spec.objective
    return measured.ttft_s > objective.ttft_s or measured.tpot_s > objective.tpot_s
