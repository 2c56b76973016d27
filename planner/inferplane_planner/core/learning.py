"""What a step takes over from its observations before it plans."""

from dataclasses import replace
from typing import Final

from inferplane_planner.core.contract import Observations, Spec, State
from inferplane_planner.core.engine_model import EngineModel, Learned, Part
from inferplane_planner.core.forecast import Forecaster
from inferplane_planner.core.moment import Moment

_START_UPS_KEPT: Final = 16
_CROWD: Final = 0.7
"""Use of the prefilling workers from which on hardly a prompt finds one free."""
_CALM_S: Final = 60.0
"""How long after a crowd there may be requests that waited in it."""


def learn(state: State, seen: Observations, spec: Spec, now: float) -> Moment:
    """Return the moment to plan for; neither argument is changed."""
    forecaster = _forecaster(state, seen, spec)
    model = _model(state, spec)
    crowded_s = now if _crowded(model, seen, spec, forecaster) else state.crowded_s
    calm = crowded_s is None or not 0.0 <= now - crowded_s < _CALM_S
    model = model.learn(_without_waits(model, seen, calm=calm))
    after = replace(
        state,
        forecaster=forecaster,
        model=model,
        crowded_s=crowded_s,
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


def _without_waits(model: EngineModel, seen: Observations, *, calm: bool) -> tuple[Learned, ...]:
    """Leave out prefills that may have waited: in a crowd all that are slower than expected.

    A model that is too fast sees no crowd until it has learned enough to see one, and then stops below the truth.
    """
    if calm:
        return seen.learned
    return tuple(it for it in seen.learned if it.part is not Part.PREFILL or it.seconds < model.seconds(it))


def _crowded(model: EngineModel, seen: Observations, spec: Spec, forecaster: Forecaster) -> bool:
    """Whether hardly a prompt finds a worker free."""
    asked = [it for it in seen.learned if it.part is Part.PREFILL]
    if not asked:
        return False
    workers = (seen.prefill if spec.prefill is not None else seen.decode).ready
    rate = max((count.requests / spec.forecast.interval_s for count in seen.counts), default=0.0)
    mean_s = sum(model.seconds(it) for it in asked) / len(asked)
    return max(rate, forecaster.level_per_s) * mean_s > _CROWD * workers


def _last_arrival(state: State, seen: Observations, now: float) -> float | None:
    arrived = [count.ended_s for count in seen.counts if count.requests]
    if seen.queued:
        arrived.append(now)
    if seen.blind and state.last_arrival_s is not None:
        arrived.append(now)  # silence that nobody could have heard does not count
    return max(arrived) if arrived else state.last_arrival_s
