"""What a step takes over from its observations before it plans."""

from dataclasses import replace
from typing import Final

from inferplane_planner.core.contract import Observations, Spec, State
from inferplane_planner.core.engine_model import EngineModel
from inferplane_planner.core.forecast import Forecaster
from inferplane_planner.core.moment import Moment

_START_UPS_KEPT: Final = 16


def learn(state: State, seen: Observations, spec: Spec, now: float) -> Moment:
    """Return the moment to plan for; neither argument is changed."""
    forecaster = _forecaster(state, seen, spec)
    model = _model(state, spec).learn(seen.learned)
    after = replace(
        state,
        forecaster=forecaster,
        model=model,
        sample=seen.sample if seen.sample is not None else state.sample,
        start_ups_s=(*state.start_ups_s, *seen.start_ups_s)[-_START_UPS_KEPT:],
        last_arrival_s=_last_arrival(state, seen, now),
    )
    return Moment(after, seen, spec, now, forecaster, model)


def _forecaster(state: State, seen: Observations, spec: Spec) -> Forecaster:
    """Tell whole intervals, and others only where they show more than was known: they are lower bounds."""
    known = state.forecaster
    forecaster = known.copy() if known is not None and known.settings == spec.forecast else Forecaster(spec.forecast)
    for count in seen.counts:
        if count.whole or count.requests / spec.forecast.interval_s > forecaster.level_per_s:
            forecaster.observe(count.ended_s, count.requests)
    return forecaster


def _model(state: State, spec: Spec) -> EngineModel:
    """Return what was learned on top of the prior; another prior begins anew."""
    model, prior = state.model, spec.prior
    same = model is not None and (model.prefill, model.decode) == (prior.prefill, prior.decode)
    return model if model is not None and same else prior


def _last_arrival(state: State, seen: Observations, now: float) -> float | None:
    arrived = [count.ended_s for count in seen.counts if count.requests]
    if seen.queued:
        arrived.append(now)
    if seen.blind and state.last_arrival_s is not None:
        arrived.append(now)  # silence that nobody could have heard does not count
    return max(arrived) if arrived else state.last_arrival_s
