"""A service's resource as the specification of a plan step."""

from collections.abc import Mapping, Sequence

from inferplane_api.v1alpha1.inference_service import InferenceServiceSpec, ScalingMode
from inferplane_api.v1alpha1.pool_template import PoolTemplate
from inferplane_api.v1alpha1.windows import ScalingWindow, bounds
from inferplane_planner.act.priors import Calibrations, prior_of
from inferplane_planner.core.contract import Spec
from inferplane_planner.core.decide import Patience
from inferplane_planner.core.forecast import Settings
from inferplane_planner.core.solve import Bounds, Objective

Prices = Mapping[str, float]
"""Per device and hour, by accelerator class; a class without one costs 1."""

PLANNED = frozenset({ScalingMode.SLO, ScalingMode.ADVISE})
"""Modes in which there are plans."""


def spec_of(
    wanted: InferenceServiceSpec,
    *,
    prices: Prices,
    calibrations: Calibrations,
    period_s: float,
    start_up_s: float,
    wall_s: float | None = None,
) -> Spec:
    """Return what is wanted at a time of day, in seconds since 1970; None: outside every window.

    Raises PlanningError where it cannot be planned.
    """
    windows = () if wall_s is None else tuple(each for each in wanted.scaling.windows if each.holds(wall_s))
    return Spec(
        objective=Objective(wanted.slo.ttft_s, wanted.slo.tpot_s, wanted.slo.percentile / 100.0),
        prior=prior_of(wanted, calibrations),
        decode=_bounds("decode", wanted.decode, windows, prices),
        prefill=_bounds("prefill", wanted.prefill, windows, prices) if wanted.prefill is not None else None,
        max_devices=wanted.budget.max_devices,
        max_cost_per_hour=wanted.budget.max_cost_per_hour,
        patience=Patience(down_delay_s=wanted.scaling.scale_down_delay_s, max_step=wanted.scaling.max_step),
        period_s=period_s,
        start_up_s=start_up_s,
        allow_lending=wanted.scaling.allow_lending,
        forecast=Settings(interval_s=period_s),
    )


def _bounds(role: str, pool: PoolTemplate, windows: Sequence[ScalingWindow], prices: Prices) -> Bounds:
    devices = pool.parallelism.devices
    price = prices.get(pool.accelerator, 1.0)
    return Bounds(*bounds(windows, role, pool), devices, devices * price)
