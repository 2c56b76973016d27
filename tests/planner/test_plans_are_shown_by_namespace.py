"""A planner's metrics name a service as routers do, so that what was planned is drawn beside what came."""

import pytest

from inferplane_api.v1alpha1.inference_service import InferenceServiceSpec
from inferplane_planner.act.wishes import spec_of
from inferplane_planner.act.world import Sight
from inferplane_planner.core.contract import Observations, Plan, Verdict, Workers
from inferplane_planner.core.decide import Move
from inferplane_planner.meters import Meters
from inferplane_runtime.metrics.exposition import page
from inferplane_runtime.metrics.instruments import Instruments

WANTED = InferenceServiceSpec.model_validate({"model": {"name": "m"}, "engine": {"type": "sim"}, "decode": {}})
PLAN = Plan(0.0, prefill=0, decode=3, lent=0, move=Move.UP, verdict=Verdict.MET, reason="", cost_per_hour=6.0)


def sight(service: str, namespace: str) -> Sight:
    spec = spec_of(WANTED, prices={}, calibrations={}, period_s=5.0, start_up_s=10.0, wall_s=None)
    return Sight(service, spec, decode=Workers(1, 1), namespace=namespace)


@pytest.mark.parametrize("service", ["chat", "blue/chat"], ids=["on one machine", "in a cluster"])
def test_a_plan_is_shown_by_namespace_and_name(service: str) -> None:
    instruments = Instruments()

    Meters(instruments).decided(sight(service, "blue"), Observations(Workers(1, 1)), PLAN)

    expected = 'inferplane_planner_planned_cost_per_hour{namespace="blue",service="chat"} 6.0\n'
    assert expected in page(instruments.registry).decode()


def test_a_service_that_has_gone_takes_nothing_of_its_namesake_with_it() -> None:
    instruments = Instruments()
    meters = Meters(instruments)
    for namespace in ("blue", "green"):
        meters.decided(sight(f"{namespace}/chat", namespace), Observations(Workers(1, 1)), PLAN)

    meters.forget("blue", "chat")

    shown = page(instruments.registry).decode()
    assert 'namespace="blue"' not in shown
    assert 'inferplane_planner_planned_workers{namespace="green",role="decode",service="chat"} 3.0\n' in shown
