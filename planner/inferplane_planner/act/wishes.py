"""A service's resource as the specification of a plan step."""

from collections.abc import Mapping

from inferplane_api.v1alpha1.inference_service import InferenceServiceSpec, ScalingMode
from inferplane_api.v1alpha1.pool_template import PoolTemplate
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
    wanted: InferenceServiceSpec, *, prices: Prices, calibrations: Calibrations, period_s: float, start_up_s: float
) -> Spec:
    """Return what is wanted.  Raises PlanningError where it cannot be planned."""
    return Spec(
        objective=Objective(wanted.slo.ttft_s, wanted.slo.tpot_s, wanted.slo.percentile / 100.0),
        prior=prior_of(wanted, calibrations),
        decode=_bounds(wanted.decode, prices),
        prefill=_bounds(wanted.prefill, prices) if wanted.prefill is not None else None,
        max_devices=wanted.budget.max_devices,
        max_cost_per_hour=wanted.budget.max_cost_per_hour,
        patience=Patience(down_delay_s=wanted.scaling.scale_down_delay_s, max_step=wanted.scaling.max_step),
        period_s=period_s,
        start_up_s=start_up_s,
        allow_lending=wanted.scaling.allow_lending,
        forecast=Settings(interval_s=period_s),
    )


def _bounds(pool: PoolTemplate, prices: Prices) -> Bounds:
    devices = pool.parallelism.devices
    price = prices.get(pool.accelerator, 1.0)
    return Bounds(pool.min_replicas, max(pool.min_replicas, pool.ceiling), devices, devices * price)
